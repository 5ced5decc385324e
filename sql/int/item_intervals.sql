-- One row a text that entered a session's context: from which request on it was carried, and up to which (not included).
with events as (
    select
        context_events.*,
        -- What came as a message leaves with it; what stands before all messages stays to the end of the session.
        case
            when item_kind in ('system', 'memory') then false
            when event in ('tool_definitions', 'memory') then false
            when event = 'instructions' and item_kind = 'instruction' then false
            else true
        end as is_message,
        min(case when event in ('compacted', 'cleared') then seq end) over (
            partition by client, session_id
            order by seq, position
            rows between 1 following and unbounded following
        ) as cleared_seq,
        min(case when event = 'removed' then seq end) over (
            partition by client, session_id, item_kind, item
            order by seq, position
            rows between 1 following and unbounded following
        ) as removed_seq
    from stg.context_events as context_events
),

entered as (
    select
        *,
        -- The same text is never there twice at once: when it is sent again, the first one ends.
        lead(seq) over (
            partition by client, session_id, item_kind, item, case when is_message then coalesce(sha256, event_id) end
            order by seq, position
        ) as resent_seq
    from events
    where
        event in ('listed', 'loaded', 'instructions', 'tool_definitions', 'memory')
        and item is not null
)

select
    entered.client,
    entered.session_id,
    entered.event_id,
    entered.event,
    entered.cause,
    entered.item_kind,
    entered.item,
    entered.path,
    entered.ts,
    entered.is_copied,
    cast(ceil(entered.chars / 4.0) as bigint) as tokens,
    false as tokens_measured,
    'transcript' as evidence,
    entered.seq as from_seq,
    -- NULL: to the end of the session. (least passes over NULL.)
    least(case when entered.is_message then entered.cleared_seq end, entered.removed_seq, entered.resent_seq)
        as until_seq
from entered
