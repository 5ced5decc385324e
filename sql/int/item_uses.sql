-- One row a use of an item that a file records, copies included: they change neither whether it was used nor when last.
with sessions as (
    select
        client,
        source_id,
        session_id,
        project,
        is_subagent,
        agent,
        started_at
    from lake.sessions
),

calls as (
    select
        tool_calls.client,
        sessions.project,
        tool_calls.tool,
        tool_calls.kind,
        tool_calls.mcp_server,
        tool_calls.mcp_tool,
        tool_calls.skill,
        tool_calls.target,
        tool_calls.ts
    from lake.tool_calls as tool_calls
    left join sessions
        on tool_calls.source_id = sessions.source_id and tool_calls.session_id = sessions.session_id
),

skill_uses as (
    select
        context_events.client,
        sessions.project,
        context_events.item,
        context_events.ts
    from lake.context_events as context_events
    left join sessions
        on context_events.source_id = sessions.source_id and context_events.session_id = sessions.session_id
    where
        context_events.event = 'loaded'
        and context_events.item_kind = 'skill_body'
        and context_events.cause <> 'compaction'
    union all
    select
        client,
        project,
        skill as item,
        ts
    from calls
    where kind = 'skill' and skill is not null
)

select
    client,
    project,
    'skill' as item_kind,
    item,
    ts
from skill_uses
union all
select
    client,
    project,
    'agent' as item_kind,
    target as item,
    ts
from calls
where kind = 'agent' and target is not null
union all
select
    client,
    project,
    'mcp_server' as item_kind,
    mcp_server as item,
    ts
from calls
where mcp_server is not null
union all
select
    client,
    project,
    'tool' as item_kind,
    tool as item,
    ts
from calls
union all
select
    client,
    project,
    'tool' as item_kind,
    concat('mcp__', mcp_server, '__', mcp_tool) as item,
    ts
from calls
where mcp_server is not null and tool <> concat('mcp__', mcp_server, '__', mcp_tool)
union all
select
    client,
    project,
    'agent' as item_kind,
    agent as item,
    started_at as ts
from sessions
where is_subagent and agent is not null
union all
-- A command is called, and its call recorded, as a skill is.
select
    client,
    project,
    'command' as item_kind,
    item,
    ts
from skill_uses
