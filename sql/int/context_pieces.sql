-- One row a text that came into a session's context, and the request that it came with.
-- A result comes in with the request after the one that called: by the call, never by its place in the file.
select
    client,
    session_id,
    seq + 1 as seq,
    'tool_result' as piece,
    result_chars as chars
from stg.tool_calls
where seq is not null and session_id is not null
union all
select
    client,
    session_id,
    seq,
    'prompt' as piece,
    chars
from stg.prompts
where session_id is not null and not is_copied
union all
select
    client,
    session_id,
    seq,
    case
        when event in ('compacted', 'cleared') then 'compaction'
        when event = 'attachment' then 'attachment'
        when event in ('listed', 'tool_definitions') or item_kind = 'tool' then 'listing'
        when item_kind = 'skill_body' then 'skill_body'
        else 'instruction'
    end as piece,
    chars
from stg.context_events
where
    session_id is not null
    and not is_copied
    and event not in ('removed', 'reported')
    -- A body that was read with a tool is a part of that tool's result.
    and not (item_kind = 'skill_body' and coalesce(cause, '') = 'read')
