-- One row a response and file of a session that its own file does not number: copied, replayed, or in several files.
with shared_keys as (
    -- Hashes only narrow the search; what is the same is decided by the ids.
    select hash(client, request_id) as request_key
    from lake.requests
    group by hash(client, request_id)
    having count(*) > 1
),

-- A side question writes its parent's answer again under another request id: the vendor's response id tells.
side_responses as (
    select
        client,
        source_id,
        session_id,
        seq as file_seq,
        response_id
    from lake.requests
    where is_subagent and response_id is not null
),

main_responses as (
    select distinct
        client,
        response_id
    from lake.requests
    where
        not is_subagent
        and hash(client, response_id) in (
            select hash(side_responses.client, side_responses.response_id) from side_responses
        )
),

replays as (
    select
        side_responses.client,
        side_responses.source_id,
        side_responses.session_id,
        side_responses.file_seq
    from side_responses
    inner join main_responses
        on
            side_responses.client = main_responses.client
            and side_responses.response_id = main_responses.response_id
),

repeated as (
    select
        requests.client,
        requests.source_id,
        requests.session_id,
        requests.seq as file_seq,
        requests.request_id,
        requests.is_subagent,
        requests.copy_rank,
        requests.output_tokens,
        requests.is_output_partial,
        count(*) over (partition by requests.client, requests.request_id) as copies
    from lake.requests as requests
    left join replays
        on
            requests.source_id = replays.source_id
            and requests.session_id = replays.session_id
            and requests.seq = replays.file_seq
    where
        hash(requests.client, requests.request_id) in (select shared_keys.request_key from shared_keys)
        and replays.source_id is null
),

copies as (
    select *
    from repeated
    where copies > 1
),

files as (
    select
        source_id,
        min(copy_rank) as file_rank
    from copies
    group by source_id
),

-- When a file's own work begins: a fork begins after what it copied.
own_starts as (
    select
        requests.source_id,
        min(requests.ts) as own_ts
    from lake.requests as requests
    inner join files on requests.source_id = files.source_id
    left join copies
        on
            requests.source_id = copies.source_id
            and requests.session_id = copies.session_id
            and requests.seq = copies.file_seq
    left join replays
        on
            requests.source_id = replays.source_id
            and requests.session_id = replays.session_id
            and requests.seq = replays.file_seq
    where copies.source_id is null and replays.source_id is null
    group by requests.source_id
),

ranked as (
    select
        copies.*,
        row_number() over (
            partition by copies.client, copies.request_id
            order by
                copies.is_subagent asc,
                files.file_rank asc,
                own_starts.own_ts asc nulls last,
                copies.session_id asc,
                copies.source_id asc
        ) as owner_rank,
        row_number() over (
            partition by copies.client, copies.request_id
            order by
                copies.output_tokens desc nulls last,
                copies.is_output_partial asc,
                files.file_rank asc,
                copies.source_id asc
        ) as usage_rank
    from copies
    inner join files on copies.source_id = files.source_id
    left join own_starts on copies.source_id = own_starts.source_id
),

-- Every copy with its owner, who says who made it and when, and the fullest copy, which says what it used.
resolved as (
    select
        ranked.source_id,
        ranked.session_id,
        ranked.file_seq,
        owners.source_id as owner_source_id,
        owners.session_id as owner_session_id,
        owners.file_seq as owner_seq,
        fullest.source_id as fullest_source_id,
        fullest.session_id as fullest_session_id,
        fullest.file_seq as fullest_seq
    from ranked
    inner join ranked as owners
        on ranked.client = owners.client and ranked.request_id = owners.request_id and owners.owner_rank = 1
    inner join ranked as fullest
        on ranked.client = fullest.client and ranked.request_id = fullest.request_id and fullest.usage_rank = 1
),

split_sessions as (
    select
        client,
        session_id
    from lake.sessions
    where session_id is not null
    group by client, session_id
    having count(distinct source_id) > 1
    union
    select
        client,
        session_id
    from copies
    union
    select
        client,
        session_id
    from replays
),

-- All responses of such sessions. A response without a time keeps its place behind the one before it in its file.
members as (
    select
        requests.client,
        requests.source_id,
        requests.session_id,
        requests.seq as file_seq,
        replays.source_id is not null as is_replay,
        coalesce(resolved.owner_source_id, requests.source_id) as owner_source_id,
        coalesce(resolved.owner_session_id, requests.session_id) as owner_session_id,
        coalesce(resolved.owner_seq, requests.seq) as owner_seq,
        resolved.fullest_source_id,
        resolved.fullest_session_id,
        resolved.fullest_seq,
        max(requests.ts) over (
            partition by requests.source_id, requests.session_id
            order by requests.seq
            rows between unbounded preceding and current row
        ) as running_ts,
        requests.ts
    from lake.requests as requests
    inner join split_sessions
        on requests.client = split_sessions.client and requests.session_id = split_sessions.session_id
    left join replays
        on
            requests.source_id = replays.source_id
            and requests.session_id = replays.session_id
            and requests.seq = replays.file_seq
    left join resolved
        on
            requests.source_id = resolved.source_id
            and requests.session_id = resolved.session_id
            and requests.seq = resolved.file_seq
),

own as (
    select
        client,
        source_id,
        session_id,
        file_seq,
        row_number() over (
            partition by client, session_id
            order by coalesce(ts, running_ts) nulls first, file_seq, source_id
        ) - 1 as seq
    from members
    where
        not is_replay
        and source_id = owner_source_id
        and session_id = owner_session_id
        and file_seq = owner_seq
),

totals as (
    select
        client,
        session_id,
        count(*) as requests
    from own
    group by client, session_id
),

-- Where each stands among its session's own: copies of another session's stand before the next own one.
placed as (
    select
        members.client,
        members.source_id,
        members.session_id,
        members.file_seq,
        members.fullest_source_id,
        members.fullest_session_id,
        members.fullest_seq,
        own.source_id is not null and members.source_id = own.source_id and members.file_seq = own.file_seq as is_own,
        own.seq is null as is_copied,
        own.seq
    from members
    left join own
        on
            not members.is_replay
            and members.session_id = own.session_id
            and members.owner_session_id = own.session_id
            and members.owner_source_id = own.source_id
            and members.owner_seq = own.file_seq
),

-- What comes after the last response of a file stands at the end of the session.
ends as (
    select
        client,
        source_id,
        session_id,
        max(file_seq) + 1 as file_seq
    from placed
    group by client, source_id, session_id
)

select
    placed.client,
    placed.source_id,
    placed.session_id,
    placed.file_seq,
    placed.is_own,
    placed.is_copied,
    placed.seq,
    coalesce(
        min(placed.seq) over (
            partition by placed.source_id, placed.session_id
            order by placed.file_seq
            rows between current row and unbounded following
        ),
        totals.requests,
        0
    ) as next_seq,
    placed.fullest_source_id,
    placed.fullest_session_id,
    placed.fullest_seq
from placed
left join totals on placed.client = totals.client and placed.session_id = totals.session_id
union all
select
    ends.client,
    ends.source_id,
    ends.session_id,
    ends.file_seq,
    false as is_own,
    false as is_copied,
    cast(null as bigint) as seq,
    coalesce(totals.requests, 0) as next_seq,
    cast(null as varchar) as fullest_source_id,
    cast(null as varchar) as fullest_session_id,
    cast(null as bigint) as fullest_seq
from ends
left join totals on ends.client = totals.client and ends.session_id = totals.session_id
