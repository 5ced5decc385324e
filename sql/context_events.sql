-- One row a thing that entered or left the context of a session, each once.
with owned as (
    select
        events.*,
        sessions.project,
        row_number() over (
            partition by events.client, events.event_id
            order by events.is_copied, sessions.started_at, events.session_id
        ) as copy
    from stg.context_events as events
    left join stg.sessions as sessions
        on events.client = sessions.client and events.session_id = sessions.session_id
)

select
    client,
    session_id,
    event_id,
    seq,
    position,
    project,
    event,
    cause,
    item_kind,
    item,
    path,
    sha256,
    chars,
    reported_tokens,
    ts
from owned
where
    copy = 1
    and (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
    and (
        getvariable('project') is null
        or project = cast(getvariable('project') as varchar)
        or ends_with(project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
