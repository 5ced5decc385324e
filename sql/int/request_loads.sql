-- One row a response of the window, with the tool calls that it made and the tokens of skills that it carried.
with calls as (
    select
        client,
        session_id,
        -- Where it is not known which response called, the session's first one stands for it.
        coalesce(seq, 0) as seq,
        count(*) as tool_calls,
        sum(case when outcome = 'error' then 1 else 0 end) as tool_errors
    from stg.tool_calls
    where session_id is not null
    group by client, session_id, coalesce(seq, 0)
),

skills as (
    select
        client,
        session_id,
        from_seq,
        to_seq,
        tokens,
        tokens_measured and tokens is not null as is_measured
    from int.item_costs
    where item_kind in ('skill', 'skill_body')
),

-- What came in and what left, so that a running sum says what each request carried.
changes as (
    select
        client,
        session_id,
        seq,
        sum(tokens) as tokens,
        bool_and(is_measured) as is_measured
    from (
        select
            client,
            session_id,
            from_seq as seq,
            tokens,
            is_measured
        from skills
        union all
        select
            client,
            session_id,
            to_seq as seq,
            -tokens as tokens,
            is_measured
        from skills
    ) as moves
    group by client, session_id, seq
),

carried as (
    select
        requests.*,
        sum(changes.tokens) over (
            partition by requests.client, requests.session_id
            order by requests.seq
        ) * requests.n_requests as skill_overhead,
        bool_and(changes.is_measured) over (partition by requests.client, requests.session_id) as is_skill_measured
    from int.priced_requests as requests
    left join changes
        on
            requests.client = changes.client
            and requests.session_id = changes.session_id
            and requests.seq = changes.seq
)

select
    carried.*,
    coalesce(calls.tool_calls, 0) as tool_calls,
    coalesce(calls.tool_errors, 0) as tool_errors
from carried
left join calls
    on carried.client = calls.client and carried.session_id = calls.session_id and carried.seq = calls.seq
where
    (getvariable('since') is null or carried.ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or carried.ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), carried.client))
    and (
        getvariable('project') is null
        or carried.project = cast(getvariable('project') as varchar)
        or ends_with(carried.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(carried.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
