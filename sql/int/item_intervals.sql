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

-- NULL: to the end of the session.
dropped as (
    select
        entered.*,
        clearings.seq as cleared_seq,
        removals.seq as removed_seq,
        -- What is sent again after a compaction needs no look: the first one has ended.
        hash(
            entered.client,
            entered.session_id,
            entered.item_kind,
            entered.item,
            case when entered.is_message then coalesce(entered.sha256, entered.event_id) end,
            clearings.seq,
            clearings.position
        ) as text_key
    from entered
    left join clearings
        on
            entered.is_message
            and entered.client = clearings.client
            and entered.session_id = clearings.session_id
            and (
                entered.seq < clearings.seq
                or (entered.seq = clearings.seq and entered.position < clearings.position)
            )
            and (
                clearings.last_seq is null
                or entered.seq > clearings.last_seq
                or (entered.seq = clearings.last_seq and entered.position > clearings.last_position)
            )
    left join removals
        on
            entered.client = removals.client
            and entered.session_id = removals.session_id
            and entered.item_kind = removals.item_kind
            and entered.item = removals.item
            and (
                entered.seq < removals.seq
                or (entered.seq = removals.seq and entered.position < removals.position)
            )
            and (
                removals.last_seq is null
                or entered.seq > removals.last_seq
                or (entered.seq = removals.last_seq and entered.position > removals.last_position)
            )
),

-- Hashes only narrow the search; what is the same text is decided by the names.
repeated as (
    select text_key
    from dropped
    group by text_key
    having count(*) > 1
),

-- The same text is never there twice at once: when it is sent again, the first one ends.
resent as (
    select
        client,
        session_id,
        event_id,
        lead(seq) over (
            partition by client, session_id, item_kind, item, case when is_message then coalesce(sha256, event_id) end
            order by seq, position
        ) as seq
    from dropped
    where text_key in (select repeated.text_key from repeated)
),

transcript as (
    select
        dropped.client,
        dropped.session_id,
        dropped.event_id,
        dropped.event,
        dropped.cause,
        dropped.item_kind,
        dropped.item,
        dropped.path,
        dropped.sha256,
        dropped.ts,
        dropped.is_copied,
        dropped.is_split,
        dropped.chars,
        dropped.seq as from_seq,
        -- least passes over NULL.
        least(dropped.cleared_seq, dropped.removed_seq, resent.seq) as until_seq
    from dropped
    left join resent
        on
            dropped.client = resent.client
            and dropped.session_id = resent.session_id
            and dropped.event_id = resent.event_id
            and resent.seq is not null
),

-- How an item of a transcript is named in the configuration.
named as (
    select
        *,
        case item_kind when 'skill_body' then 'skill' else item_kind end as config_kind,
        case when item_kind in ('instruction', 'memory') then coalesce(path, item) else item end as config_name
    from transcript
),

-- What a transcript tells of a session: where it tells none of a kind, the configuration does.
told as (
    select
        client,
        session_id,
        bool_or(item_kind = 'skill' and event in ('listed', 'removed')) as has_skills,
        bool_or(item_kind = 'agent') as has_agents,
        bool_or(item_kind in ('instruction', 'memory') and event = 'instructions') as has_instructions,
        bool_or(item_kind in ('mcp_server', 'tool') and event <> 'loaded') as has_tools
    from events
    group by client, session_id
),

installed_items as (
    select *
    from int.installed_items
),

installed as (
    select
        installed_items.*,
        sessions.agent,
        sessions.is_subagent
    from installed_items
    inner join stg.sessions as sessions
        on installed_items.client = sessions.client and installed_items.session_id = sessions.session_id
    where
        (installed_items.name_rank = 1 or (installed_items.client = 'codex' and installed_items.item_kind = 'skill'))
        and installed_items.baseline_chars is distinct from 0
),

-- What of it stands in the transcript is counted there.
seen as (
    select distinct
        installed.client,
        installed.session_id,
        installed.transcript_kind,
        installed.transcript_name
    from entered
    inner join installed
        on
            entered.client = installed.client
            and entered.session_id = installed.session_id
            and entered.item_kind = installed.transcript_kind
            and case
                when entered.item_kind in ('instruction', 'memory') then coalesce(entered.path, entered.item)
                else entered.item
            end = installed.transcript_name
),

configured as (
    select installed.*
    from installed
    left join told
        on installed.client = told.client and installed.session_id = told.session_id
    left join seen
        on
            installed.client = seen.client
            and installed.session_id = seen.session_id
            and installed.transcript_kind = seen.transcript_kind
            and installed.transcript_name = seen.transcript_name
    where
        seen.client is null
        and not case installed.transcript_kind
            when 'skill' then coalesce(told.has_skills, false)
            when 'agent' then coalesce(told.has_agents, false)
            when 'mcp_server' then coalesce(told.has_tools, false)
            else coalesce(told.has_instructions, false)
        end
        -- Of a subagent it is known only that it begins with the instruction files, and that these two do not.
        and (
            not installed.is_subagent
            or (
                installed.client = 'claude-code'
                and installed.item_kind = 'instruction'
                and installed.agent not in ('Explore', 'Plan', 'advisor')
            )
        )
)

select
    named.client,
    named.session_id,
    named.event_id,
    named.event,
    named.cause,
    named.item_kind,
    named.item,
    coalesce(named.path, installed_items.path) as path,
    -- Of the text that `chars` counts. The configuration has none of what a load brings.
    coalesce(
        named.sha256,
        case when named.chars is null and named.item_kind <> 'skill_body' then installed_items.baseline_sha256 end
    ) as sha256,
    installed_items.scope,
    named.ts,
    named.is_copied,
    named.is_split,
    coalesce(
        named.chars,
        case named.item_kind
            when 'skill_body' then installed_items.body_chars
            else installed_items.baseline_chars
        end
    ) as chars,
    case when installed_items.client is null then 'transcript' else 'both' end as evidence,
    named.from_seq,
    named.until_seq
from named
left join installed_items
    on
        named.client = installed_items.client
        and named.session_id = installed_items.session_id
        and named.config_kind = installed_items.transcript_kind
        and named.config_name = installed_items.transcript_name
        and installed_items.name_rank = 1
union all
select
    client,
    session_id,
    item_id as event_id,
    'installed' as event,
    cast(null as varchar) as cause,
    item_kind,
    item,
    path,
    baseline_sha256 as sha256,
    scope,
    started_at as ts,
    false as is_copied,
    false as is_split,
    baseline_chars as chars,
    'config' as evidence,
    0 as from_seq,
    cast(null as bigint) as until_seq
from configured
