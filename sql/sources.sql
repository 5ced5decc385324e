-- One row a transcript file: what was read of it, and what was wrong with it.
select
    client,
    machine,
    source_id,
    path,
    client_version,
    parser_version,
    sha256,
    warnings,
    size_bytes,
    lines,
    skipped_lines,
    mtime,
    first_ts,
    last_ts,
    ingested_at,
    gone_at
from lake.sources
where
    (getvariable('since') is null or coalesce(last_ts, mtime) >= cast(getvariable('since') as timestamp with time zone))
    and (
        getvariable('until') is null
        or coalesce(first_ts, mtime) < cast(getvariable('until') as timestamp with time zone)
    )
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
