-- One row a request of a session: the size of its context, how it grew, and what came in since the request before.
with requests as (
    select *
    from int.priced_requests
    where getvariable('session') is null or starts_with(session_id, cast(getvariable('session') as varchar))
),

entered as (
    select
        requests.client,
        requests.session_id,
        requests.seq,
        requests.project,
        requests.model,
        requests.context_tokens,
        requests.output_tokens,
        requests.ts,
        additions.tool_result_tokens,
        additions.prompt_tokens,
        additions.skill_body_tokens,
        additions.instruction_tokens,
        additions.listing_tokens,
        additions.attachment_tokens,
        additions.added_tokens,
        coalesce(additions.unsized_items, 0) as unsized_items,
        coalesce(additions.is_compacted, false) as is_compacted,
        lag(requests.output_tokens) over (partition by requests.client, requests.session_id order by requests.seq)
            as previous_output_tokens,
        -- Requests between two known contexts belong to the second one.
        count(requests.context_tokens) over (
            partition by requests.client, requests.session_id
            order by requests.seq
            rows between unbounded preceding and 1 preceding
        ) as known_contexts
    from requests
    left join int.context_additions as additions
        on
            requests.client = additions.client
            and requests.session_id = additions.session_id
            and requests.seq = additions.seq
),

grown as (
    select
        *,
        context_tokens - last_value(context_tokens ignore nulls) over (
            partition by client, session_id
            order by seq
            rows between unbounded preceding and 1 preceding
        ) as delta,
        sum(coalesce(previous_output_tokens, 0) + coalesce(added_tokens, 0))
            over (partition by client, session_id, known_contexts)
            as explained_tokens
    from entered
)

select
    client,
    session_id,
    seq,
    project,
    model,
    is_compacted,
    context_tokens,
    delta,
    output_tokens,
    previous_output_tokens,
    tool_result_tokens,
    prompt_tokens,
    skill_body_tokens,
    instruction_tokens,
    listing_tokens,
    attachment_tokens,
    cast(delta - explained_tokens as bigint) as unexplained_tokens,
    unsized_items,
    ts
from grown
where
    (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
    and (
        getvariable('project') is null
        or project = cast(getvariable('project') as varchar)
        or ends_with(project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
