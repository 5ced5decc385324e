-- One row a text that entered a session's context: the request from which it was carried, and the first without it.
with events as (
    select *
    from stg.context_events
),

-- What takes things out of the context, each with the one before it, so that an event finds the next one alone.
clearings as (
    select
        client,
        session_id,
        seq,
        position,
        lag(seq) over (partition by client, session_id order by seq, position) as last_seq,
        lag(position) over (partition by client, session_id order by seq, position) as last_position
    from events
    where event in ('compacted', 'cleared')
),

removals as (
    select
        client,
        session_id,
        item_kind,
        item,
        seq,
        position,
        lag(seq) over (partition by client, session_id, item_kind, item order by seq, position) as last_seq,
        lag(position) over (partition by client, session_id, item_kind, item order by seq, position) as last_position
    from events
    where event = 'removed'
),

entered as (
    select
        *,
        -- What came as a message leaves with it; what stands before all messages stays to the end of the session.
        case
            when item_kind in ('system', 'memory') then false
            when event in ('tool_definitions', 'memory') then false
            when event = 'instructions' and item_kind = 'instruction' then false
            else true
        end as is_message
    from events
    where
        event in ('listed', 'loaded', 'instructions', 'tool_definitions', 'memory')
        and item is not null
),

-- The same text is never there twice at once: when it is sent again, the first one ends.
resent as (
    select
        *,
        lead(seq) over (
            partition by client, session_id, item_kind, item, case when is_message then coalesce(sha256, event_id) end
            order by seq, position
        ) as resent_seq
    from entered
)

select
    resent.client,
    resent.session_id,
    resent.event_id,
    resent.event,
    resent.cause,
    resent.item_kind,
    resent.item,
    resent.path,
    resent.sha256,
    resent.ts,
    resent.is_copied,
    resent.is_split,
    cast(ceil(resent.chars / 4.0) as bigint) as tokens,
    false as tokens_measured,
    'transcript' as evidence,
    resent.seq as from_seq,
    -- NULL: to the end of the session. (least passes over NULL.)
    least(clearings.seq, removals.seq, resent.resent_seq) as until_seq
from resent
left join clearings
    on
        resent.is_message
        and resent.client = clearings.client
        and resent.session_id = clearings.session_id
        and (
            clearings.seq > resent.seq
            or (resent.seq = clearings.seq and resent.position < clearings.position)
        )
        and (
            clearings.last_seq is null
            or clearings.last_seq < resent.seq
            or (clearings.last_seq = resent.seq and clearings.last_position < resent.position)
        )
left join removals
    on
        resent.client = removals.client
        and resent.session_id = removals.session_id
        and resent.item_kind = removals.item_kind
        and resent.item = removals.item
        and (
            removals.seq > resent.seq
            or (resent.seq = removals.seq and resent.position < removals.position)
        )
        and (
            removals.last_seq is null
            or removals.last_seq < resent.seq
            or (removals.last_seq = resent.seq and removals.last_position < resent.position)
        )
