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

-- Several files of one session may hold the same event: the first of them counts.
repeated as (
    select
        source_id,
        session_id,
        event_id
    from (
        select
            events.source_id,
            events.session_id,
            events.event_id,
            row_number() over (
                partition by events.client, events.session_id, events.event_id
                order by coalesce(fates.next_seq, events.seq), events.source_id
            ) as copy
        from lake.prompts as events
        inner join split_files
            on events.source_id = split_files.source_id and events.session_id = split_files.session_id
        left join fates
            on
                events.source_id = fates.source_id
                and events.session_id = fates.session_id
                and events.seq = fates.file_seq
    ) as copies
    where copy > 1
)

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
left join repeated
    on
        events.source_id = repeated.source_id
        and events.session_id = repeated.session_id
        and events.event_id = repeated.event_id
where repeated.source_id is null
