-- One row a tool call, each once over all files, with the result wherever it stands.
with keys as (
    select
        client,
        source_id,
        session_id,
        seq,
        call_id,
        outcome,
        ended_at,
        hash(client, call_id) as call_key
    from lake.tool_calls
),

fates as (
    select
        source_id,
        session_id,
        file_seq,
        is_own,
        is_copied,
        seq
    from int.request_fates
),

shared_keys as (
    select call_key
    from keys
    group by call_key
    having count(*) > 1
),

-- The owner is the file that owns the response that made the call.
ranked as (
    select
        keys.client,
        keys.call_id,
        keys.source_id,
        keys.session_id,
        row_number() over (
            partition by keys.client, keys.call_id
            order by
                coalesce(fates.is_copied, false),
                coalesce(not fates.is_own, false),
                keys.session_id,
                keys.source_id
        ) as owner_rank,
        row_number() over (
            partition by keys.client, keys.call_id
            order by keys.ended_at is null, keys.outcome is null, keys.outcome = 'pending', keys.source_id
        ) as result_rank
    from keys
    left join fates
        on
            keys.source_id = fates.source_id
            and keys.session_id = fates.session_id
            and keys.seq = fates.file_seq
    where keys.call_key in (select shared_keys.call_key from shared_keys)
),

results as (
    select
        ranked.client,
        ranked.call_id,
        tool_calls.result_bytes,
        tool_calls.result_chars,
        tool_calls.outcome,
        tool_calls.ended_at,
        tool_calls.duration_ms,
        tool_calls.result_paths,
        tool_calls.result_handles
    from lake.tool_calls as tool_calls
    inner join ranked
        on
            tool_calls.client = ranked.client
            and tool_calls.call_id = ranked.call_id
            and tool_calls.source_id = ranked.source_id
            and tool_calls.session_id is not distinct from ranked.session_id
    where ranked.result_rank = 1
)

select
    tool_calls.client,
    tool_calls.machine,
    tool_calls.source_id,
    tool_calls.session_id,
    tool_calls.call_id,
    tool_calls.request_id,
    coalesce(fates.seq, tool_calls.seq) as seq,
    tool_calls.ts,
    tool_calls.tool,
    tool_calls.kind,
    tool_calls.mcp_server,
    tool_calls.mcp_tool,
    tool_calls.skill,
    tool_calls.target,
    tool_calls.input_bytes,
    case when results.call_id is null then tool_calls.result_bytes else results.result_bytes end as result_bytes,
    case when results.call_id is null then tool_calls.result_chars else results.result_chars end as result_chars,
    case when results.call_id is null then tool_calls.outcome else results.outcome end as outcome,
    case when results.call_id is null then tool_calls.ended_at else results.ended_at end as ended_at,
    case when results.call_id is null then tool_calls.duration_ms else results.duration_ms end as duration_ms,
    case when results.call_id is null then tool_calls.result_paths else results.result_paths end as result_paths,
    case when results.call_id is null then tool_calls.result_handles else results.result_handles end as result_handles
from lake.tool_calls as tool_calls
left join ranked
    on
        tool_calls.client = ranked.client
        and tool_calls.call_id = ranked.call_id
        and tool_calls.source_id = ranked.source_id
        and tool_calls.session_id is not distinct from ranked.session_id
left join results
    on tool_calls.client = results.client and tool_calls.call_id = results.call_id
left join fates
    on
        tool_calls.source_id = fates.source_id
        and tool_calls.session_id = fates.session_id
        and tool_calls.seq = fates.file_seq
where ranked.call_id is null or ranked.owner_rank = 1
