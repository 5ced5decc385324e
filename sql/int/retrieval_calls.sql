-- One row a call of a retrieval tool in the window that ended, with the bytes that it served and those that it spared.
with calls as (
    select
        calls.client,
        calls.machine,
        calls.call_id,
        tools.tool,
        tools.kind,
        coalesce(calls.repo_root, calls.project) as repo_root,
        substr(sha256(coalesce(calls.repo_root, calls.project)), 1, 16) as repo_id,
        calls.ts,
        coalesce(calls.outcome, 'ok') = 'error' as is_error,
        calls.result_bytes,
        calls.result_paths,
        calls.result_handles
    from int.window_tool_calls as calls
    inner join ref.retrieval_tools as tools
        on
            calls.mcp_tool = tools.tool
            and (
                tools.server is null
                or calls.mcp_server = tools.server
                or ends_with(calls.mcp_server, concat('_', tools.server))
            )
    where calls.outcome is null or calls.outcome in ('ok', 'error')
),

named as (
    select
        client,
        call_id,
        machine,
        repo_id,
        result_paths,
        unnest(result_paths) as path
    from calls
    where kind = 'discovery' and not is_error
),

-- Distinct files, in order of appearance.
files as (
    select
        client,
        call_id,
        machine,
        repo_id,
        path,
        row_number() over (partition by client, call_id order by min(array_position(result_paths, path))) as place
    from named
    group by client, call_id, machine, repo_id, path
),

-- The cap: nobody would have read more than 50 files in place of one call.
sizes as (
    select
        files.client,
        files.call_id,
        cast(sum(repo_files.size_bytes) as bigint) as file_bytes
    from files
    inner join stg.repo_files as repo_files
        on
            files.machine = repo_files.machine
            and files.repo_id = repo_files.repo_id
            and files.path = repo_files.path
    where files.place <= 50
    group by files.client, files.call_id
)

select
    calls.client,
    calls.call_id,
    calls.tool,
    calls.kind,
    calls.repo_root,
    calls.repo_id,
    calls.ts,
    calls.is_error,
    case when not calls.is_error then calls.result_bytes end as bytes_served,
    case
        when calls.is_error then null
        when calls.kind <> 'discovery' then 0
        when calls.result_bytes is null then null
        when sizes.file_bytes is not null then greatest(0, sizes.file_bytes - calls.result_bytes)
        when calls.result_handles is not null then greatest(0, calls.result_handles * 4096 - calls.result_bytes)
    end as bytes_saved,
    case
        when calls.is_error or calls.kind <> 'discovery' or calls.result_bytes is null then null
        when sizes.file_bytes is not null then 'file_sizes'
        when calls.result_handles is not null then 'flat_proxy'
    end as method
from calls
left join sizes on calls.client = sizes.client and calls.call_id = sizes.call_id
