-- One row a file of a repository on a machine, with the size that was seen last.
select
    machine,
    repo_id,
    path,
    arg_max(size_bytes, seen_at) as size_bytes
from lake.repo_files
group by machine, repo_id, path
