-- One row a response of the window that was asked for (session variables since, until, clients, project).
select *
from int.priced_requests
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
