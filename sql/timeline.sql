-- One row an event of a session, in order: prompts, requests, tool calls, skill loads, compactions, subagents.
with requests as (
    select *
    from stg.requests
),

subagents as (
    select
        client,
        parent_session_id,
        session_id,
        agent,
        started_at
    from stg.sessions
    where is_subagent and parent_session_id is not null
),

-- A subagent stands behind the last request that its parent had made when it began.
begun as (
    select
        client,
        session_id,
        child_session_id,
        agent,
        ts,
        max(seq) over (
            partition by client, session_id
            order by ts, child_session_id nulls first
            rows between unbounded preceding and current row
        ) as seq
    from (
        select
            client,
            session_id,
            cast(null as varchar) as child_session_id,
            cast(null as varchar) as agent,
            ts,
            seq
        from requests
        where ts is not null and session_id in (select subagents.parent_session_id from subagents)
        union all
        select
            client,
            parent_session_id as session_id,
            session_id as child_session_id,
            agent,
            started_at as ts,
            cast(null as bigint) as seq
        from subagents
    ) as starts
),

-- turn: what a request was the first to carry stands before it, what it caused behind it.
events as (
    select
        client,
        session_id,
        seq,
        1 as turn,
        request_id as event_id,
        'request' as kind,
        model as name,
        cast(null as varchar) as target,
        case when is_error then 'error' else stop_reason end as outcome,
        context_tokens,
        output_tokens,
        cast(null as bigint) as input_bytes,
        cast(null as bigint) as result_bytes,
        cast(null as bigint) as chars,
        duration_ms,
        ts
    from requests
    union all
    select
        client,
        session_id,
        seq,
        2 as turn,
        call_id as event_id,
        'tool_call' as kind,
        tool as name,
        coalesce(skill, target) as target,
        outcome,
        cast(null as bigint) as context_tokens,
        cast(null as bigint) as output_tokens,
        input_bytes,
        result_bytes,
        result_chars as chars,
        duration_ms,
        ts
    from stg.tool_calls
    where session_id is not null
    union all
    select
        client,
        session_id,
        seq,
        0 as turn,
        event_id,
        'prompt' as kind,
        kind as name,
        cast(null as varchar) as target,
        cast(null as varchar) as outcome,
        cast(null as bigint) as context_tokens,
        cast(null as bigint) as output_tokens,
        cast(null as bigint) as input_bytes,
        cast(null as bigint) as result_bytes,
        chars,
        cast(null as bigint) as duration_ms,
        ts
    from stg.prompts
    where session_id is not null and not is_copied
    union all
    select
        client,
        session_id,
        seq,
        0 as turn,
        event_id,
        case when event = 'loaded' then 'skill_load' else 'compaction' end as kind,
        case when event = 'loaded' then item else event end as name,
        path as target,
        cast(null as varchar) as outcome,
        reported_tokens as context_tokens,
        cast(null as bigint) as output_tokens,
        cast(null as bigint) as input_bytes,
        cast(null as bigint) as result_bytes,
        chars,
        cast(null as bigint) as duration_ms,
        ts
    from stg.context_events
    where
        session_id is not null
        and not is_copied
        and (
            event in ('compacted', 'cleared')
            or (event = 'loaded' and item_kind = 'skill_body' and coalesce(cause, '') <> 'compaction')
        )
    union all
    select
        client,
        session_id,
        seq,
        2 as turn,
        child_session_id as event_id,
        'subagent' as kind,
        agent as name,
        child_session_id as target,
        cast(null as varchar) as outcome,
        cast(null as bigint) as context_tokens,
        cast(null as bigint) as output_tokens,
        cast(null as bigint) as input_bytes,
        cast(null as bigint) as result_bytes,
        cast(null as bigint) as chars,
        cast(null as bigint) as duration_ms,
        ts
    from begun
    where child_session_id is not null
),

placed as (
    select
        *,
        row_number() over (
            partition by client, session_id
            order by seq nulls last, turn, ts nulls last, kind, event_id
        ) - 1 as position
    from events
)

select
    placed.client,
    placed.session_id,
    placed.position,
    placed.seq,
    placed.kind,
    placed.name,
    placed.target,
    placed.outcome,
    placed.context_tokens,
    placed.output_tokens,
    placed.input_bytes,
    placed.result_bytes,
    placed.chars,
    placed.duration_ms,
    placed.ts
from placed
left join stg.sessions as sessions
    on placed.client = sessions.client and placed.session_id = sessions.session_id
where
    (getvariable('session') is null or starts_with(placed.session_id, cast(getvariable('session') as varchar)))
    and (getvariable('since') is null or placed.ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or placed.ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), placed.client))
    and (
        getvariable('project') is null
        or sessions.project = cast(getvariable('project') as varchar)
        or ends_with(sessions.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(sessions.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
