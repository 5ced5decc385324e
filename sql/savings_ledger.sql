-- One row a ledger, tool and repository: all calls of a retrieval tool that a ledger ever counted.
select
    ledgers.keeper,
    ledgers.machine,
    ledgers.path,
    ledgers.tool,
    ledgers.kind,
    ledgers.repo_id,
    repositories.repo_root,
    ledgers.calls,
    ledgers.bytes_served,
    ledgers.bytes_saved,
    ledgers.last_called_at,
    ledgers.seen_at,
    false as bytes_saved_measured
from stg.usage_ledgers as ledgers
left join int.repositories as repositories on ledgers.repo_id = repositories.repo_id
