-- One row a tool and repository of a ledger, with who keeps it in the client's place; operational tools are none.
select
    ledgers.client as keeper,
    ledgers.machine,
    ledgers.path,
    ledgers.tool,
    tools.kind,
    ledgers.repo_id,
    ledgers.calls,
    ledgers.bytes_served,
    ledgers.bytes_saved,
    ledgers.last_called_at,
    ledgers.seen_at
from lake.usage_ledgers as ledgers
inner join ref.retrieval_tools as tools on ledgers.tool = tools.tool
