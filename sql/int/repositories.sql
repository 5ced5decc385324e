-- One row a repository that a session worked in, with the name that ledgers have for it.
select
    substr(sha256(repo_root), 1, 16) as repo_id,
    repo_root
from (select distinct coalesce(repo_root, project) as repo_root from stg.sessions) as roots
where repo_root is not null
