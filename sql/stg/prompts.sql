-- One row a prompt and session, numbered by the session's own requests.
with fates as (
    select
        source_id,
        session_id,
        file_seq,
        is_copied,
        next_seq
    from int.request_fates
),

split_files as (
    select distinct
        source_id,
        session_id
    from fates
),

numbered as (
    select
        events.client,
        events.machine,
        events.source_id,
        events.session_id,
        events.event_id,
        coalesce(fates.next_seq, events.seq) as seq,
        events.ts,
        events.kind,
        events.chars,
        coalesce(fates.is_copied, false) as is_copied,
        split_files.source_id is not null as is_split
    from lake.prompts as events
    left join split_files
        on events.source_id = split_files.source_id and events.session_id = split_files.session_id
    left join fates
        on
            events.source_id = fates.source_id
            and events.session_id = fates.session_id
            and events.seq = fates.file_seq
),

-- Several files of one session may hold the same event.
ranked as (
    select
        *,
        row_number() over (
            partition by client, session_id, event_id
            order by seq, source_id
        ) as copy
    from numbered
    where is_split
)

select *
from numbered
where not is_split
union all
select * exclude (copy)
from ranked
where copy = 1
