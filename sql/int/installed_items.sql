-- One row a session and item that was installed when it began, in a scope that covers its project.
with sessions as (
    select
        client,
        session_id,
        machine,
        project,
        started_at
    from stg.sessions
    where started_at is not null
),

homes as (
    select distinct
        client,
        machine,
        project
    from sessions
    where project is not null
),

owners as (
    select distinct
        client,
        machine,
        project
    from stg.items
    where project is not null
),

-- Which projects' items hold in which projects: there, and below. Of both there are few.
scopes as (
    select
        homes.client,
        homes.machine,
        homes.project,
        owners.project as item_project
    from homes
    inner join owners
        on homes.client = owners.client and homes.machine = owners.machine
    where
        homes.project = owners.project
        or starts_with(homes.project, concat(rtrim(owners.project, '/'), '/'))
        or starts_with(homes.project, concat(rtrim(owners.project, chr(92)), chr(92)))
),

candidates as (
    select
        sessions.session_id,
        sessions.project as session_project,
        sessions.started_at,
        items.*
    from sessions
    inner join stg.items as items
        on sessions.client = items.client and sessions.machine = items.machine
    where
        items.project is null
        and sessions.started_at >= items.valid_from
        and (items.valid_to is null or sessions.started_at < items.valid_to)
    union all
    select
        sessions.session_id,
        sessions.project as session_project,
        sessions.started_at,
        items.*
    from sessions
    inner join scopes
        on
            sessions.client = scopes.client
            and sessions.machine = scopes.machine
            and sessions.project = scopes.project
    inner join stg.items as items
        on
            scopes.client = items.client
            and scopes.machine = items.machine
            and scopes.item_project = items.project
    where
        sessions.started_at >= items.valid_from
        and (items.valid_to is null or sessions.started_at < items.valid_to)
)

select
    client,
    session_id,
    started_at,
    item_id,
    item_kind,
    case
        when item_kind in ('instruction', 'memory') and coalesce(project, '') <> coalesce(session_project, '') then path
        else item
    end as item,
    scope,
    path,
    baseline_chars,
    baseline_sha256,
    body_chars,
    transcript_kind,
    transcript_name,
    -- Of one name one is used: that of the administrator, then the person's own skill before the project's, all
    -- else of the project before the person's, the nearest first. Codex lists all skills of a name.
    row_number() over (
        partition by client, session_id, transcript_kind, transcript_name
        order by
            case
                when scope = 'managed' then 0
                when scope = 'plugin' then 4
                when transcript_kind = 'skill' and scope <> 'project' then 1
                when scope = 'project' then 2
                else 3
            end,
            -length(coalesce(project, '')),
            case item_kind when 'command' then 1 else 0 end,
            path
    ) as name_rank
from candidates
