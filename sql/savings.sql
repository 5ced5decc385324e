-- One row a retrieval tool and repository: its calls, the bytes that they served, and those that they spared.
with reported as (
    select
        tool,
        repo_id,
        cast(sum(calls) as bigint) as calls,
        cast(sum(bytes_served) as bigint) as bytes_served,
        cast(sum(bytes_saved) as bigint) as bytes_saved,
        max(last_called_at) as last_called_at
    from stg.usage_ledgers
    where keeper = 'codelens'
    group by tool, repo_id
),

counted as (
    select
        tool,
        kind,
        repo_id,
        repo_root,
        case
            when bool_or(method = 'file_sizes') then 'file_sizes'
            when bool_or(method = 'flat_proxy') then 'flat_proxy'
        end as method,
        cast(sum(case when is_error then 0 else 1 end) as bigint) as calls,
        cast(sum(case when is_error then 1 else 0 end) as bigint) as errors,
        cast(sum(case when method = 'flat_proxy' then 1 else 0 end) as bigint) as flat_proxy_calls,
        cast(sum(case when not is_error and bytes_saved is null then 1 else 0 end) as bigint) as unsized_calls,
        cast(sum(bytes_served) as bigint) as bytes_served,
        cast(sum(bytes_saved) as bigint) as bytes_saved,
        max(case when not is_error then ts end) as last_called_at
    from int.retrieval_calls
    group by tool, kind, repo_id, repo_root
)

select
    counted.tool,
    counted.kind,
    counted.repo_id,
    counted.repo_root,
    counted.method,
    counted.calls,
    counted.errors,
    counted.flat_proxy_calls,
    counted.unsized_calls,
    counted.bytes_served,
    counted.bytes_saved,
    reported.calls as reported_calls,
    reported.bytes_served as reported_bytes_served,
    reported.bytes_saved as reported_bytes_saved,
    counted.last_called_at,
    reported.last_called_at as reported_last_called_at,
    false as bytes_saved_measured
from counted
left join reported on counted.tool = reported.tool and counted.repo_id = reported.repo_id
