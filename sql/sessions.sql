-- One row a session of the window (a subagent is a session of its own): what it was, and what its requests cost.
with totals as (
    select
        client,
        session_id,
        sum(n_requests) as requests,
        sum(case when has_usage then 0 else n_requests end) as requests_without_usage,
        sum(input_tokens) as input_tokens,
        sum(output_tokens) as output_tokens,
        sum(cache_read_tokens) as cache_read_tokens,
        sum(cache_write_tokens) as cache_write_tokens,
        max(context_tokens) as max_context_tokens,
        sum(case when is_unpriced then n_requests else 0 end) as unpriced_requests,
        round(sum(measured_usd), 12) as measured_usd,
        round(sum(estimated_usd), 12) as estimated_usd
    from int.window_requests
    group by client, session_id
)

select
    sessions.client,
    sessions.session_id,
    sessions.parent_session_id,
    sessions.machine,
    sessions.is_subagent,
    sessions.agent,
    sessions.project,
    sessions.repo_root,
    sessions.git_branch,
    sessions.title,
    sessions.client_version,
    cast(coalesce(totals.requests, 0) as bigint) as requests,
    cast(coalesce(totals.requests_without_usage, 0) as bigint) as requests_without_usage,
    cast(coalesce(totals.unpriced_requests, 0) as bigint) as unpriced_requests,
    cast(totals.input_tokens as bigint) as input_tokens,
    cast(totals.output_tokens as bigint) as output_tokens,
    cast(totals.cache_read_tokens as bigint) as cache_read_tokens,
    cast(totals.cache_write_tokens as bigint) as cache_write_tokens,
    totals.max_context_tokens,
    sessions.reported_usd,
    totals.measured_usd,
    totals.estimated_usd,
    sessions.started_at,
    sessions.ended_at
from stg.sessions as sessions
left join totals on sessions.client = totals.client and sessions.session_id = totals.session_id
where
    (
        totals.session_id is not null
        or (
            (
                getvariable('since') is null
                or sessions.ended_at >= cast(getvariable('since') as timestamp with time zone)
            )
            and (
                getvariable('until') is null
                or sessions.started_at < cast(getvariable('until') as timestamp with time zone)
            )
        )
    )
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), sessions.client))
    and (
        getvariable('project') is null
        or sessions.project = cast(getvariable('project') as varchar)
        or ends_with(sessions.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(sessions.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
