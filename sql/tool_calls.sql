-- One row a tool call, each once, with its outcome and the size of its result.
select
    client,
    session_id,
    call_id,
    request_id,
    seq,
    project,
    tool,
    kind,
    mcp_server,
    mcp_tool,
    skill,
    target,
    outcome,
    input_bytes,
    result_bytes,
    result_chars,
    duration_ms,
    ts,
    ended_at
from int.window_tool_calls
