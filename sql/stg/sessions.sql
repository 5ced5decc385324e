-- One row a session, from all files that hold it.
select
    client,
    session_id,
    min(machine) as machine,
    coalesce(arg_min(parent_session_id, started_at), min(parent_session_id)) as parent_session_id,
    bool_and(is_subagent) as is_subagent,
    coalesce(arg_min(agent, started_at), min(agent)) as agent,
    coalesce(arg_min(project, started_at), min(project)) as project,
    coalesce(arg_min(repo_root, started_at), min(repo_root)) as repo_root,
    coalesce(arg_min(git_branch, started_at), min(git_branch)) as git_branch,
    coalesce(arg_max(title, ended_at), min(title)) as title,
    min(started_at) as started_at,
    max(ended_at) as ended_at,
    coalesce(arg_max(client_version, ended_at), min(client_version)) as client_version,
    max(reported_usd) as reported_usd
from lake.sessions
where session_id is not null
group by client, session_id
