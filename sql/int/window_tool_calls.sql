-- One row a tool call of the window, with the project and the repository of its session.
select
    tool_calls.*,
    sessions.project,
    sessions.repo_root
from stg.tool_calls as tool_calls
left join stg.sessions as sessions
    on tool_calls.client = sessions.client and tool_calls.session_id = sessions.session_id
where
    (getvariable('since') is null or tool_calls.ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or tool_calls.ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), tool_calls.client))
    and (
        getvariable('project') is null
        or sessions.project = cast(getvariable('project') as varchar)
        or ends_with(sessions.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(sessions.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
