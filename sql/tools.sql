-- One row a tool of a client: calls, outcomes, bytes in and out, and the durations that the client measured.
select
    client,
    tool,
    kind,
    mcp_server,
    count(*) as calls,
    cast(sum(case when outcome = 'error' then 1 else 0 end) as bigint) as errors,
    cast(sum(case when outcome = 'denied' then 1 else 0 end) as bigint) as denied,
    cast(sum(case when outcome = 'interrupted' then 1 else 0 end) as bigint) as interrupted,
    cast(sum(case when outcome = 'pending' then 1 else 0 end) as bigint) as pending,
    cast(sum(input_bytes) as bigint) as input_bytes,
    cast(sum(result_bytes) as bigint) as result_bytes,
    count(duration_ms) as timed_calls,
    quantile_cont(duration_ms, 0.5) as p50_duration_ms,
    quantile_cont(duration_ms, 0.95) as p95_duration_ms,
    max(ts) as last_called_at
from int.window_tool_calls
group by client, tool, kind, mcp_server
