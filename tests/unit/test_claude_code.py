"""Claude Code's parser, on real bytes: the inputs of the cases, whole, cut and damaged."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.claude_context import NOTHING, ShapeError, listing_entries, read_attachment
from pipeline.client import Home, Parsed, Report, Source
from pipeline.clients.claude_code import CLIENT, _first_word, _newer
from pipeline.errors import UnknownFormatError
from pipeline.schema import ContextEvent, Request
from tests.cases.materialise import materialise

CASES = Path(__file__).parent.parent / "cases" / "claude-code"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.json"))
SESSION = "00000000-0000-4000-8000-000000000001"
TOTALS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "web_search_requests",
    "reported_usd",
)

Row = dict[str, Any]


def parse(data: bytes, path: str = f"{SESSION}.jsonl") -> tuple[Parsed, Report]:
    report = Report()
    return CLIENT.parse(Source(Path(path), "source", len(data), 0), io.BytesIO(data), report), report


def parse_rows(*rows: Row, path: str = f"{SESSION}.jsonl") -> tuple[Parsed, Report]:
    return parse(b"".join(json.dumps(row).encode() + b"\n" for row in rows), path)


def parse_case(name: str, tmp_path: Path) -> tuple[list[Parsed], list[Report]]:
    home = materialise(CASES / name, tmp_path / name)
    files = [parse(path.read_bytes(), str(path)) for path in CLIENT.discover(Home(home, {}))]
    return [parsed for parsed, _ in files], [report for _, report in files]


def once(files: Iterable[Parsed]) -> list[Request]:
    """Each response once, the fullest copy, as the view `requests` does: a replay in a sidechain is none."""
    files = list(files)
    main = {request.response_id for file in files for request in file.requests if not request.is_subagent}
    best: dict[str, Request] = {}
    for request in (request for file in files for request in file.requests):
        if request.is_subagent and request.response_id is not None and request.response_id in main:
            continue
        known = best.get(request.request_id)
        if known is None or (request.output_tokens or 0) > (known.output_tokens or 0):
            best[request.request_id] = request
    return list(best.values())


def user(text: str | list[Row] | None, second: int = 0, **more: Any) -> Row:
    return envelope("user", second, message={"role": "user", "content": text}, **more)


def assistant(
    identity: str, *content: Row, second: int = 0, usage: Row | None = None, stop: str | None = "end_turn", **more: Any
) -> Row:
    usage = {"input_tokens": 1, "output_tokens": 2} if usage is None else usage
    message = {"id": f"msg_{identity}", "model": "m", "content": list(content), "stop_reason": stop, "usage": usage}
    return envelope("assistant", second, **{"requestId": f"req_{identity}", "message": message, **more})


def attachment(second: int = 0, *, rendered: list[Row] | None = None, **fields: Any) -> Row:
    extra = {} if rendered is None else {"rendered": rendered}
    return envelope("attachment", second, attachment=fields, **extra)


def envelope(kind: str, second: int, **more: Any) -> Row:
    return {
        "type": kind,
        "uuid": f"{kind}-{second}",
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": SESSION,
        "cwd": "/w/demo",
        "version": "2.1.200",
        "timestamp": f"2026-03-01T10:{second // 60:02d}:{second % 60:02d}.000Z",
        **more,
    }


def use(call: str, tool: str, **arguments: Any) -> Row:
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def result(call: str, content: Any, **more: Any) -> Row:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def shown(events: list[ContextEvent]) -> list[tuple[str, str | None, str | None, str | None, int | None]]:
    return [(event.event, event.cause, event.item_kind, event.item, event.chars) for event in events]


# --- the cases


@pytest.mark.parametrize("name", NAMES)
def test_totals_of_a_case(name: str, tmp_path: Path) -> None:
    case = json.loads((CASES / name / "case.json").read_text(encoding="utf-8"))
    files, reports = parse_case(name, tmp_path)
    requests = once(files)
    calls = {call.call_id: call for file in reversed(files) for call in file.tool_calls}.values()
    events = {event.event_id: event for file in files for event in file.context_events}.values()
    uses = Counter("tool" for call in calls if call.kind == "skill")
    uses.update("slash" for event in events if event.cause == "slash")
    contexts = [r.context_tokens for r in requests if not r.is_subagent and r.context_tokens is not None]
    got: dict[str, Any] = {
        "requests": len(requests),
        "sessions": len({s.session_id for file in files for s in file.sessions if not s.is_subagent}),
        "subagent_requests": sum(request.is_subagent for request in requests),
        "max_context_tokens": max(contexts, default=None),
        "tool_calls": Counter(call.tool for call in calls),
        "tool_errors": sum(call.outcome == "error" for call in calls),
        "pending_tool_calls": sum(c.outcome in {"pending", "interrupted"} and c.ended_at is None for c in calls),
        "mcp_servers": Counter(call.mcp_server for call in calls if call.mcp_server),
        "skill_calls_by": {"tool": uses["tool"], "slash": uses["slash"]},
        "compactions": sum(event.event == "compacted" for event in events),
        "projects": Counter(request.project for request in requests),
        "skipped_lines": sum(report.skipped_lines for report in reports),
    }
    for column in TOTALS:
        known = [value for request in requests if (value := getattr(request, column)) is not None]
        got[column] = pytest.approx(sum(known)) if known else None
    answers = [case["expect"], *({**case["expect"], **other} for other in case.get("accept_also", []))]
    wrong = [{k: (want[k], got[k]) for k in want if k in got and got[k] != want[k]} for want in answers]
    assert not all(wrong), wrong
    assert sum(len(report.warnings) for report in reports) >= case["expect"].get("warnings_at_least", 0)


@pytest.mark.parametrize("name", NAMES)
def test_absent_fields_are_none_and_twice_is_the_same(name: str, tmp_path: Path) -> None:
    files, _ = parse_case(name, tmp_path)
    absent = [field.split(".") for field, support in CLIENT.supports.items() if support == "absent"]
    for table, column in absent:
        assert {getattr(row, column) for file in files for row in getattr(file, table)} <= {None}
    for path in sorted((tmp_path / name).rglob("*.jsonl")):
        if path.is_file():
            data = path.read_bytes()
            assert parse(data, str(path)) == parse(data, str(path))


SMALL = [path for name in NAMES for path in (CASES / name).rglob("*.jsonl") if path.is_file() and not path.is_symlink()]


@given(st.data())
def test_a_prefix_never_raises_and_never_says_more(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(SMALL))
    whole = path.read_bytes()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        parsed, report = parse(cut, str(path))
    except UnknownFormatError:
        return  # not one row of the conversation is left
    known = {request.request_id for request in parse(whole, str(path))[0].requests}
    assert {request.request_id for request in parsed.requests} <= known
    assert report.skipped_lines <= parse(whole, str(path))[1].skipped_lines


@given(st.data())
def test_a_flipped_byte_never_raises(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(SMALL))
    damaged = bytearray(path.read_bytes())
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        parsed, _ = parse(bytes(damaged), str(path))
    except UnknownFormatError:
        return
    for row in (*parsed.sessions, *parsed.requests, *parsed.tool_calls, *parsed.prompts, *parsed.context_events):
        msgspec.convert(msgspec.to_builtins(row), type(row))  # every field is of its declared type


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(
        ["message", "attachment", "usage", "toolUseResult", "compactMetadata", "data", "timestamp", "uuid"]
    ),
    JSON,
)
def test_a_field_of_any_shape_costs_no_other_row(field: str, value: object) -> None:
    odd = assistant("odd", second=1)
    odd.update({"message": {**odd["message"], "usage": value}} if field == "usage" else {field: value})
    rows = [odd, {**odd, "type": "attachment"}, {**odd, "type": "user"}, {**odd, "type": "progress"}]
    rows.append({**odd, "type": "system", "subtype": "compact_boundary"})
    parsed, _ = parse_rows(*rows, assistant("good", second=2))
    assert "msg_good:req_good" in [request.request_id for request in parsed.requests]


# --- files and sessions


def test_discover_finds_transcripts_only(tmp_path: Path) -> None:
    session = tmp_path / ".claude/projects/-w/s"
    desktop = tmp_path / ".config/Claude/local-agent-mode-sessions/a/b/local_1"
    kept = [
        session.with_suffix(".jsonl"),
        session / "subagents/agent-1.jsonl",
        session / "subagents/workflows/wf_1/agent-2.jsonl",
        desktop / ".claude/projects/-w/d.jsonl",
    ]
    others = [
        session / "subagents/workflows/wf_1/journal.jsonl",
        session / "tool-results/x.jsonl",
        session.with_suffix(".json"),
        desktop / "audit.jsonl",
        tmp_path / ".claude/history.jsonl",
    ]
    for path in (*kept, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert sorted(CLIENT.discover(Home(tmp_path, {}))) == sorted(kept)


@pytest.mark.parametrize("variable", ["CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"])
def test_discover_goes_where_the_environment_says(variable: str, tmp_path: Path) -> None:
    folder = tmp_path / "moved" / ("claude" if variable == "XDG_CONFIG_HOME" else "")
    file = folder / "projects/-w/s.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    assert list(CLIENT.discover(Home(tmp_path, {variable: str(tmp_path / "moved")}))) == [file]
    twice = f"{folder / 'projects'}, {folder}"
    assert list(CLIENT.discover(Home(tmp_path, {"CLAUDE_CONFIG_DIR": twice}))) == [file]


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x01binary\n",
        b'{"type":"session_meta","payload":{"id":"x"}}\n',
        b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","parts":[{"text":"hi"}]}}\n',
        b"[1]\n",
    ],
)
def test_a_file_of_another_kind_is_refused(line: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        parse(line)


@pytest.mark.parametrize("data", [b"", b"\n", b'{"type":"user","message":{"con'])
def test_nothing_yet_is_no_session(data: bytes) -> None:
    parsed, report = parse(data)
    assert parsed == Parsed()
    assert report.warnings == []


def test_a_file_of_side_rows_only_is_no_session() -> None:
    parsed, _ = parse_rows({"type": "summary", "summary": "t", "leafUuid": "x"})
    assert parsed.sessions == []


def test_the_session_is_the_file_or_what_its_rows_say() -> None:
    assert parse_rows(user("q"))[0].sessions[0].session_id == SESSION
    assert parse_rows(user("q"), path="copy.jsonl")[0].sessions[0].session_id == SESSION
    assert parse_rows(user("q", sessionId=None), path="copy.jsonl")[0].sessions[0].session_id == "copy"
    other = user("q", 1, sessionId="other")
    assert parse_rows(other, user("q"))[0].sessions[0].session_id == SESSION


def test_session_columns() -> None:
    parsed, _ = parse_rows(
        {"type": "summary", "summary": "old", "leafUuid": "x"},
        user("q", 5, version="2.1.9", gitBranch="HEAD"),
        {"type": "custom-title", "customTitle": "mine", "sessionId": SESSION},
        {"type": "ai-title", "aiTitle": "its", "sessionId": SESSION},
        {"type": "cost-state", "sessionId": SESSION, "totalCostUSD": 0.1},
        {"type": "cost-state", "sessionId": SESSION, "totalCostUSD": "0.25"},
        user("q", 2, version="2.1.10", cwd="/w/demo/.claude/worktrees/x"),
        {"type": "queue-operation", "timestamp": "2026-03-01T10:00:06.000Z", "sessionId": SESSION},
    )
    session = parsed.sessions[0]
    assert (session.title, session.reported_usd, session.client_version) == ("mine", 0.25, "2.1.10")
    assert (session.project, session.git_branch) == ("/w/demo", "HEAD")
    assert session.started_at is not None
    assert session.ended_at == session.started_at + 4_000_000
    assert parsed.client_version == "2.1.10"


def test_an_agent_has_the_same_id_inline_and_in_its_file(tmp_path: Path) -> None:
    files, _ = parse_case("claude-subagent-inline-and-file", tmp_path)
    inline, own = sorted(files, key=lambda file: -len(file.sessions))
    agent = next(session for session in inline.sessions if session.is_subagent)
    assert agent.session_id == own.sessions[0].session_id
    assert agent.parent_session_id == own.sessions[0].parent_session_id == inline.sessions[0].session_id


def test_the_type_of_an_agent(tmp_path: Path) -> None:
    files, _ = parse_case("claude-recent-records", tmp_path)
    assert [s.agent for file in files for s in file.sessions if s.is_subagent] == ["Explore"]  # its meta.json wins
    files, _ = parse_case("claude-costs-and-inline-sidechain", tmp_path)
    agents = [session for session in files[0].sessions if session.is_subagent]
    assert [(s.session_id or "").rpartition("/")[2] for s in agents] == ["sidechain-s1"]
    assert [session.agent for session in agents] == ["general-purpose"]  # by the prompt of the call
    row = assistant("x", isSidechain=True, agentId="a", attributionAgent="Plan")
    again = assistant("z", second=1, isSidechain=True, agentId="a", attributionAgent="Other")
    assert parse_rows(row, again)[0].sessions[0].agent == "Plan"
    call = assistant("c", use("t", "Task", subagent_type="Explore"))
    started = user([result("t", "done")], 1, toolUseResult={"agentId": "b"})
    inner = assistant("y", second=2, isSidechain=True, agentId="b")
    assert parse_rows(call, started, inner)[0].sessions[1].agent == "Explore"


def test_progress_rows_feed_the_agent_they_name() -> None:
    inner = assistant("p", use("t", "Bash", command="ls"), second=3, isSidechain=True)
    answer = user([result("t", "x")], 4)
    rows = [
        envelope("progress", 5, data={"type": "agent_progress", "agentId": "a", "message": inner}),
        envelope("progress", 6, data={"type": "agent_progress", "agentId": "a", "message": answer}),
        envelope("progress", 7, data={"type": "agent_progress", "agentId": "a", "message": 7}),
        envelope("progress", 9, data={"type": "agent_progress", "agentId": "a", "prompt": "look"}),
        envelope("progress", 10, data={"type": "agent_progress", "agentId": "a", "message": user("look")}),
        envelope("progress", 11, data={"type": "agent_progress", "agentId": "a", "message": user([{"type": "text"}])}),
        envelope("progress", 8, data={"type": "bash_progress", "output": "x"}),
    ]
    parsed, report = parse_rows(user("q"), *rows)
    assert [(request.session_id, request.is_subagent) for request in parsed.requests] == [(f"{SESSION}/agent-a", True)]
    assert [call.outcome for call in parsed.tool_calls] == ["ok"]
    assert len(report.warnings) == 1
    own, _ = parse_rows(inner, *rows[:1], path=f"{SESSION}/subagents/agent-a.jsonl")
    assert [session.session_id for session in own.sessions] == [f"{SESSION}/agent-a"]
    assert len(own.requests) == 1


# --- responses


def test_a_response_is_its_fullest_snapshot_at_its_first_time() -> None:
    parsed, _ = parse_rows(
        assistant("a", usage={"input_tokens": 3, "output_tokens": 5}, stop=None, second=1),
        assistant("a", usage={"input_tokens": 3, "output_tokens": 631}, second=2),
        assistant("a", usage={"input_tokens": 0, "output_tokens": 0}, stop=None, second=3),
    )
    (request,) = parsed.requests
    assert (request.request_id, request.response_id) == ("msg_a:req_a", "msg_a")
    assert (request.input_tokens, request.output_tokens, request.stop_reason) == (3, 631, "end_turn")
    assert request.ts == parsed.sessions[0].started_at


def test_identity_without_one_id_or_both() -> None:
    bare = assistant("x", {"type": "tool_use", "name": "Bash", "id": None}, second=3, requestId=None)
    bare["message"]["id"] = None
    parsed, report = parse_rows(
        assistant("a", requestId=""), assistant("a", second=1, requestId=None), bare, {**bare, "uuid": "u2"}
    )
    assert [request.request_id for request in parsed.requests] == ["msg_a", "assistant-3", "u2"]
    assert len(report.warnings) == 1


def test_what_the_client_wrote_itself_is_no_request() -> None:
    zero = {"input_tokens": 0, "output_tokens": 0}
    synthetic = assistant("s")
    synthetic["message"]["model"] = "<synthetic>"
    parsed, _ = parse_rows(
        synthetic,
        assistant("n", usage=zero, isApiErrorMessage=True, second=1),
        assistant("e", isApiErrorMessage=True, second=2),
        assistant("z", usage=zero, second=3),
        envelope("assistant", 4, message={"role": "assistant", "content": None}),
    )
    assert [(request.response_id, request.is_error) for request in parsed.requests] == [
        ("msg_e", True),
        ("msg_z", False),
    ]


def test_usage_that_is_not_recorded_is_none() -> None:
    row = assistant("a")
    row["message"]["usage"] = None
    (request,) = parse_rows(row)[0].requests
    assert [value for name in TOTALS if (value := getattr(request, name)) is not None] == []
    assert request.context_tokens is None
    (request,) = parse_rows(assistant("b", usage={"input_tokens": 4, "cache_read_input_tokens": 6}))[0].requests
    assert (request.output_tokens, request.cache_write_tokens, request.context_tokens) == (None, None, 10)


@pytest.mark.parametrize(
    ("flat", "split", "iterations", "expect", "warnings"),
    [
        (10, None, None, (10, None, None), 0),
        (10, (4, 6), None, (10, 4, 6), 0),
        (0, (4, 6), None, (10, 4, 6), 0),
        (None, (4, 6), None, (10, 4, 6), 0),
        (10, (0, 0), None, (10, None, None), 1),
        (0, (0, 0), None, (0, 0, 0), 0),
        (10, (0, 6), [(0, 4), (0, 6)], (10, 0, 10), 0),
        (10, (0, 6), [(0, 3), (0, 6)], (10, None, None), 1),
        (10, (None, None), None, (10, None, None), 0),
        (-1, None, None, (None, None, None), 1),
    ],
)
def test_cache_writes_and_their_split(
    flat: int | None,
    split: tuple[int | None, int | None] | None,
    iterations: list[tuple[int, int]] | None,
    expect: tuple[int | None, int | None, int | None],
    warnings: int,
) -> None:
    def parts(pair: tuple[int | None, int | None]) -> Row:
        return {"ephemeral_5m_input_tokens": pair[0], "ephemeral_1h_input_tokens": pair[1]}

    usage: Row = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": flat}
    if split is not None:
        usage["cache_creation"] = parts(split)
    if iterations is not None:
        usage["iterations"] = [{"type": "message", "input_tokens": 0, "cache_creation": parts(p)} for p in iterations]
    parsed, report = parse_rows(assistant("a", usage=usage))
    (request,) = parsed.requests
    assert (request.cache_write_tokens, request.cache_write_5m_tokens, request.cache_write_1h_tokens) == expect
    assert len(report.warnings) == warnings


def test_an_advisor_is_a_session_of_its_own(tmp_path: Path) -> None:
    (parsed,), _ = parse_case("claude-advisor-iterations", tmp_path)
    main, advisor = parsed.requests
    assert advisor.request_id == f"{main.request_id}#advisor0"
    assert advisor.session_id == f"{main.session_id}/advisor"
    assert (advisor.is_subagent, advisor.seq, advisor.project, advisor.ts) == (True, 0, main.project, main.ts)
    assert main.context_tokens == 400
    assert [session.agent for session in parsed.sessions] == [None, "advisor"]


def test_an_advisor_alone_among_the_iterations() -> None:
    usage = {"input_tokens": 1, "iterations": [{"type": "advisor_message", "model": "big", "input_tokens": 7}]}
    parsed, _ = parse_rows(assistant("a", usage=usage), assistant("b", usage=usage, second=1))
    assert [(request.model, request.seq, request.context_tokens) for request in parsed.requests] == [
        ("m", 0, 1),
        ("m", 1, 1),
        ("big", 0, 7),
        ("big", 1, 7),
    ]


def test_counts_that_are_none_never_win() -> None:
    usages = [{"input_tokens": n, "output_tokens": o} for n, o in ((1, "x"), (2, -3), (3, 10**30), (4, "5"), (5, None))]
    parsed, _ = parse_rows(*(assistant("a", usage=usage, second=n) for n, usage in enumerate(usages)))
    assert [(request.input_tokens, request.output_tokens) for request in parsed.requests] == [(4, 5)]


def test_small_fields_of_usage(tmp_path: Path) -> None:
    files, _ = parse_case("claude-recent-records", tmp_path)
    first = next(request for file in files for request in file.requests if request.response_id == "msg_602a")
    assert (first.service_tier, first.speed, first.inference_geo) == ("standard", "fast", "us")
    assert (first.reasoning_tokens, first.web_search_requests) == (70, 1)
    unknown = assistant("a", usage={"input_tokens": 1, "speed": "", "inference_geo": "not_available"})
    (request,) = parse_rows(unknown)[0].requests
    assert (request.service_tier, request.speed, request.inference_geo) == (None, None, None)


@pytest.mark.parametrize(
    ("version", "stop", "partial"),
    [("2.1.33", None, True), ("2.1.98", None, False), ("2.1.33", "tool_use", False), (None, None, False)],
)
def test_a_placeholder_for_the_output_is_marked(version: str | None, stop: str | None, partial: bool) -> None:
    (request,) = parse_rows(assistant("a", stop=stop, version=version))[0].requests
    assert request.is_output_partial is partial


def test_costs_and_durations_on_rows(tmp_path: Path) -> None:
    (parsed,), _ = parse_case("claude-costs-and-inline-sidechain", tmp_path)
    assert [(r.reported_usd, r.duration_ms) for r in parsed.requests if not r.is_subagent] == [
        (0.0125, 2900),
        (0.006, 3100),
    ]


def test_requests_are_in_order_of_time_and_events_follow_the_file() -> None:
    parsed, _ = parse_rows(
        user("late", 10),
        assistant("late", second=20),
        user("early", 1),
        assistant("early", second=2),
        assistant("untimed", second=3, timestamp=None),
        user("last", 30),
    )
    assert [(request.response_id, request.seq) for request in parsed.requests] == [
        ("msg_early", 0),
        ("msg_untimed", 1),
        ("msg_late", 2),
    ]
    assert [prompt.seq for prompt in parsed.prompts] == [2, 0, 3]
    assert parsed.requests[1].ts is None


def test_between_two_rows_of_a_response_is_before_the_next() -> None:
    parsed, _ = parse_rows(
        assistant("a", second=1),
        attachment(2, type="date_change", newDate="2026-03-02"),
        assistant("a", second=3),
        assistant("b", second=4),
    )
    assert [(event.item, event.seq, event.chars) for event in parsed.context_events] == [("date_change", 1, None)]


def test_copy_rank() -> None:
    side = {"type": "last-prompt", "lastPrompt": "q", "sessionId": SESSION}
    parsed, _ = parse_rows(
        side,
        user("q"),
        assistant("a", second=1),
        assistant("b", second=2, sessionKind="bg"),
        side,
        assistant("a", second=3),
        assistant("c", second=4),
    )
    assert [request.copy_rank for request in parsed.requests] == [1, 2, 0]


# --- tool calls


def test_each_way_a_call_ends() -> None:
    tools = [use(name, "Bash", command="x") for name in ("ok", "error", "wrapped", "denied", "kind", "cut", "open")]
    rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    parsed, _ = parse_rows(
        assistant("a", *tools),
        user([result("ok", "fine"), result("error", "exit 1", is_error=True)], 1),
        user([result("wrapped", "<tool_use_error>no</tool_use_error>")], 2),
        user([result("denied", rejected, is_error=True)], 3),
        user([result("kind", "no", is_error=True)], 4, toolDenialKind="permission-rule"),
        user([result("cut", "half")], 5, toolUseResult={"interrupted": True}),
        user([result("ok", "again", is_error=True)], 6),
    )
    assert {call.call_id: call.outcome for call in parsed.tool_calls} == {
        "ok": "ok",
        "error": "error",
        "wrapped": "error",
        "denied": "denied",
        "kind": "denied",
        "cut": "interrupted",
        "open": "pending",
    }
    assert parsed.prompts == []


def test_an_interruption_ends_what_is_open() -> None:
    parsed, _ = parse_rows(
        assistant("a", use("t", "Bash", command="x")),
        user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], 1),
        assistant("b", use("u", "Bash", command="x"), second=2),
    )
    assert [(call.outcome, call.seq, call.request_id) for call in parsed.tool_calls] == [
        ("interrupted", 0, "msg_a:req_a"),
        ("pending", 1, "msg_b:req_b"),
    ]
    assert parsed.prompts == []


def test_sizes_of_a_result_are_those_of_its_text() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo"}}
    parsed, _ = parse_rows(
        assistant("a", use("t", "Read", file_path="/é"), use("i", "Read", file_path="/i"), use("e", "Bash")),
        user([result("t", [{"type": "text", "text": "né\ne"}, picture]), result("i", [picture]), result("e", "")], 1),
    )
    sizes = {call.call_id: (call.result_chars, call.result_bytes) for call in parsed.tool_calls}
    assert sizes == {"t": (4, 5), "i": (None, None), "e": (0, 0)}


def test_durations_are_the_clients_own() -> None:
    tools = [use(name, name) for name in ("Grep", "WebSearch", "Agent", "mcp__a_b__c_d", "Bash")]
    sidecars: list[Any] = [
        {"durationMs": 5},
        {"durationSeconds": 1.5},
        {"totalDurationMs": 900},
        {"durationMs": 5},
        {"durationMs": -5},
    ]
    answers = [
        user([result(t["id"], "x")], n, toolUseResult=s) for n, (t, s) in enumerate(zip(tools, sidecars, strict=True))
    ]
    parsed, _ = parse_rows(assistant("a", *tools), *answers)
    assert [call.duration_ms for call in parsed.tool_calls] == [5, 1500, 900, None, None]
    assert [(call.kind, call.mcp_server, call.mcp_tool) for call in parsed.tool_calls][2:4] == [
        ("agent", None, None),
        ("mcp", "a_b", "c_d"),
    ]


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ({"file_path": "/w/a.py", "content": "x"}, "/w/a.py"),
        ({"notebook_path": "/w/a.ipynb"}, "/w/a.ipynb"),
        ({"url": "https://user:pass@example.org:8080/p?key=1"}, "example.org"),
        ({"url": "http://[bad"}, None),
        ({"pattern": "x"}, None),
        ({"file_path": 7}, None),
        ([], None),
    ],
)
def test_targets(arguments: object, target: str | None) -> None:
    call = {"type": "tool_use", "id": "t", "name": "Any", "input": arguments}
    (bare,) = parse_rows(assistant("a", {"type": "tool_use", "id": "t", "name": "Any"}))[0].tool_calls
    assert bare.input_bytes is None
    (found,) = parse_rows(assistant("a", call))[0].tool_calls
    assert found.target == target
    assert found.input_bytes == len(json.dumps(arguments))


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("git push", "git"),
        ("  A=1 B='x y' make test", "make"),
        ('KEY="s \\" t" ./run.sh', "./run.sh"),
        ("ls;rm x", "ls"),
        ("TOKEN=secret", None),
        ("TOKEN=$(cat secret file) run", None),
        ("TOKEN=`cat secret` run", None),
        ('TOKEN="secret and more', None),
        ("$(secret)", None),
        ("'quoted secret' x", None),
        ("", None),
    ],
)
def test_the_first_word_of_a_command_never_holds_a_secret(command: str, word: str | None) -> None:
    assert _first_word(command) == word


def test_names_of_skills() -> None:
    given_names = [{"skill": "acme:pdf"}, {"command": "/rev 12"}, {"name": "x"}, {"skill": ""}]
    calls: list[Row] = [use(f"t{n}", "Skill", **arguments) for n, arguments in enumerate(given_names)]
    parsed, _ = parse_rows(assistant("a", *calls))
    assert [(call.kind, call.skill) for call in parsed.tool_calls] == [
        ("skill", "acme:pdf"),
        ("skill", "rev"),
        ("skill", "x"),
        ("skill", None),
    ]


def test_server_tools_end_within_the_response() -> None:
    blocks: list[Row] = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result"}]},
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s2", "content": {"type": "web_search_tool_result_error"}},
    ]
    parsed, _ = parse_rows(assistant("a", *blocks))
    assert [call.outcome for call in parsed.tool_calls] == ["ok", "error"]


# --- prompts


def test_odd_texts_are_no_prompts() -> None:
    parsed, _ = parse_rows(
        user("<command-name>  </command-name>", 1),
        envelope("user", 2, message={"role": "user", "content": [{"type": "text", "text": 7}]}),
        envelope("user", 3),
        user("<local-command-caveat>x", 4, isMeta=True),
        user("", 5, isMeta=True),
        user("shown only", 6, isVisibleInTranscriptOnly=True),
        envelope("system", 7, subtype="local_command", content="<local-command-stdout>x</local-command-stdout>"),
        envelope("system", 8, subtype="local_command"),
        envelope("system", 9, subtype="compact_boundary", compactMetadata=[]),
        envelope("system", 10, subtype="compact_boundary"),
        {"type": "custom-title", "customTitle": "", "sessionId": SESSION},
    )
    assert [(prompt.kind, prompt.chars) for prompt in parsed.prompts] == [("command", 31), ("typed", None)]
    assert [event.event for event in parsed.context_events] == ["compacted", "compacted"]


def test_a_call_of_no_response_is_kept() -> None:
    row = assistant("s", use("t", "Bash", command="x"))
    row["message"]["model"] = "<synthetic>"
    (call,) = parse_rows(row)[0].tool_calls
    assert (call.request_id, call.outcome, call.session_id) == (None, "pending", SESSION)


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    line = json.dumps(user([{"type": "text", "text": "aXb"}])).encode().replace(b"X", b"\xff")
    assert parse(line + b"\n")[0].prompts[0].chars == 3


def test_a_sidechain_without_ids() -> None:
    row = assistant("a", isSidechain=True, uuid=None)
    assert parse_rows(row)[0].sessions[0].session_id == f"{SESSION}/sidechain-row1"
    nameless = assistant("a", isSidechain=True, sessionId=None)
    path = "/p/-w/root/subagents/workflows/wf/agent-a.jsonl"
    assert parse_rows(nameless, path=path)[0].sessions[0].session_id == "root/agent-a"


def test_what_a_person_put_in() -> None:
    parsed, _ = parse_rows(
        user("typed", 1),
        user([{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "words"}], 2),
        user("<ide_selection>code</ide_selection>\nexplain", 3),
        user([{"type": "image", "source": {}}], 4),
        user("<command-name>/model</command-name>", 5),
        user("<local-command-stdout>done</local-command-stdout>", 6),
        user("<bash-input>ls</bash-input>", 7),
        user("<bash-stdout>x</bash-stdout>", 8),
        user("<task-notification>x</task-notification>", 9),
        user("notice", 10, isMeta=True),
        user("summary", 11, isCompactSummary=True),
        user("told", 12, promptSource="system"),
        attachment(13, type="queued_command", prompt=[{"type": "text", "text": "also"}], commandMode="prompt"),
        attachment(14, type="queued_command", prompt="done", commandMode="task-notification"),
        envelope("system", 15, subtype="local_command", content="<command-name>/clear</command-name>"),
        user("typed", 1),
        user(None, 16),
    )
    assert [(prompt.kind, prompt.chars) for prompt in parsed.prompts] == [
        ("typed", 5),
        ("typed", 5),
        ("typed", 7),
        ("typed", None),
        ("command", 35),
        ("command", 27),
        ("queued", 4),
        ("command", 35),
    ]
    assert [event.item or event.event for event in parsed.context_events] == [
        "bash_output",
        "task_notification",
        "client_message",
        "compact_summary",
        "client_message",
        "task_notification",
        "cleared",
    ]


def test_the_prompt_of_an_agent() -> None:
    row = user("look", isSidechain=True, agentId="a")
    assert [prompt.kind for prompt in parse_rows(row)[0].prompts] == ["agent"]


# --- the context


def test_listing_entries() -> None:
    text = "Skills:\n- acme:one: First.\n  - a bullet: of it\n- two\n- three: Third\n"
    assert listing_entries(text, ["acme:one", "two", "three"], 3) == [
        ("acme:one", "- acme:one: First.\n  - a bullet: of it"),
        ("two", "- two"),
        ("three", "- three: Third"),
    ]
    bullets = "- one: First\n- use it for\n- two: Second"
    assert [name for name, _ in listing_entries(bullets, [], 2)] == ["one", "two"]
    assert [name for name, _ in listing_entries(bullets, ["one"], 2)] == ["one"]
    assert [name for name, _ in listing_entries(bullets, ["other"], None)] == ["one", "use it for", "two"]
    assert [name for name, _ in listing_entries("- My Skill: words", [], 1)] == ["My Skill"]
    assert listing_entries("", [], None) == []


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z]+(:[a-z]+)?", fullmatch=True), st.text("ab :-\n")), unique_by=lambda e: e[0]
    )
)
def test_a_listing_is_its_entries_and_the_rest(entries: list[tuple[str, str]]) -> None:
    content = "\n".join(f"- {name}: {text}" for name, text in entries)
    names = [name for name, _ in entries]
    raw = msgspec.Raw(msgspec.json.encode({"type": "skill_listing", "content": content, "names": names}))
    items = read_attachment(raw, NOTHING, None).items
    assert sum(len(item.text or "") for item in items) == len(content)


def test_listings_and_their_removal() -> None:
    parsed, _ = parse_rows(
        attachment(
            1,
            type="agent_listing_delta",
            addedTypes=["rev"],
            addedLines=["- rev: reviews"],
            removedTypes=["old"],
            rendered=[{"content": "Agents:\n- rev: reviews"}],
        ),
        attachment(
            2,
            type="deferred_tools_delta",
            addedNames=["A", "B"],
            addedLines=["A"],
            removedNames=["mcp__x__y"],
            rendered=[{"content": "A\nB"}],
        ),
        attachment(
            3,
            type="mcp_instructions_delta",
            addedNames=["db"],
            addedBlocks=["## db"],
            removedNames=["gone"],
            rendered=[{"content": "<r>## db</r>"}],
        ),
        attachment(4, type="dynamic_skill", skillDir="/w/ui/.claude/skills", skillNames=["ui:theme"]),
        attachment(5, type="dynamic_skill", skillNames=["x"], rendered=[{"content": "New:\n- x: y"}]),
        attachment(6, type="agent_listing_delta", addedTypes=["a"], addedLines=["- a"], rendered=[{"content": "b"}]),
    )
    assert shown(parsed.context_events) == [
        ("listed", None, "agent", "rev", 14),
        ("removed", None, "agent", "old", None),
        ("listed", None, "listing", "agents", 8),
        ("listed", None, "tool", "A", None),
        ("listed", None, "tool", "B", None),
        ("removed", None, "tool", "mcp__x__y", None),
        ("listed", None, "listing", "tools", 2),
        ("instructions", None, "mcp_server", "db", 5),
        ("removed", None, "mcp_server", "gone", None),
        ("listed", None, "listing", "mcp_instructions", 7),
        ("listed", None, "skill", "ui:theme", None),
        ("listed", None, "skill", "x", 6),
        ("listed", None, "agent", "a", 3),
        ("listed", None, "listing", "agents", 1),
    ]


def test_the_texts_of_a_recent_file(tmp_path: Path) -> None:
    files, _ = parse_case("claude-recent-records", tmp_path)
    events = [event for file in files for event in file.context_events]
    assert [(*row, event.seq) for row, event in zip(shown(events), events, strict=True)] == [
        ("instructions", None, "instruction", "CLAUDE.md", 13, 0),
        ("instructions", None, "memory", "/h/.claude/projects/-w-demo/memory/MEMORY.md", 10, 0),
        ("instructions", None, "system", "system_prompt", 12, 0),
        ("tool_definitions", None, "tool", "Bash", 48, 0),
        ("listed", None, "skill", "pdf", 16, 0),
        ("listed", None, "skill", "rev", 20, 0),
        ("listed", None, "listing", "skills", 38, 0),
        ("listed", None, "tool", "WebFetch", 8, 0),
        ("listed", None, "tool", "mcp__db__query", 14, 0),
        ("attachment", None, "attachment", "hook_success", 8, 0),
        ("loaded", "tool", "tool", "mcp__db__query", 76, 1),
        ("loaded", "tool", "skill_body", "pdf", 59, 2),
        ("compacted", None, None, None, None, 3),
        ("attachment", None, "attachment", "compact_summary", 31, 3),
        ("loaded", "compaction", "skill_body", "pdf", 5, 3),
    ]
    assert [event.reported_tokens for event in events if event.event == "compacted"] == [300]


BODY = "Base directory for this skill: /h/.claude/skills/pdf\n\n# PDF"


def test_how_a_skill_comes_in() -> None:
    call = assistant("a", use("t", "Skill", skill="acme:pdf"))
    other = assistant("b", use("o", "Skill", skill="other"), second=1)
    for body in (user(BODY, 2, isMeta=True, sourceToolUseID="t"), user(BODY, 2, isMeta=True)):
        assert shown(parse_rows(call, other, body)[0].context_events) == [
            ("loaded", "tool", "skill_body", "acme:pdf", 59)
        ]
        assert shown(parse_rows(call, body)[0].context_events) == [("loaded", "tool", "skill_body", "acme:pdf", 59)]
    assert shown(parse_rows(user(BODY, isMeta=True))[0].context_events) == [
        ("loaded", "injected", "skill_body", "pdf", 59)
    ]


def test_how_a_command_comes_in() -> None:
    command = user("<command-message>x</command-message>\n<command-name>/acme:go</command-name>", 1)
    between = attachment(2, type="command_permissions", allowedTools=[])
    between["parentUuid"] = command["uuid"]
    expanded = user("Do this", 3, isMeta=True, parentUuid=between["uuid"])
    load = ("loaded", "slash", "skill_body", "acme:go", 7)
    assert shown(parse_rows(command, between, expanded)[0].context_events) == [load]
    assert shown(parse_rows(command, user(BODY, 3, isMeta=True))[0].context_events) == [
        ("loaded", "slash", "skill_body", "acme:go", 59)
    ]
    assert shown(parse_rows({**command, "uuid": None}, user(BODY, 3, isMeta=True))[0].context_events) == [
        ("loaded", "slash", "skill_body", "acme:go", 59)
    ]
    later = parse_rows(command, user("typed", 2), user("Do this", 3, isMeta=True))[0]
    assert shown(later.context_events) == [("attachment", None, "attachment", "client_message", 7)]


def test_a_skill_that_is_read_is_a_load_unless_it_is_loaded() -> None:
    call = assistant("a", use("t", "Read", file_path="/h/.claude/skills/pdf/SKILL.md"))
    read = user([result("t", "# PDF")], 1)
    assert shown(parse_rows(call, read)[0].context_events) == [("loaded", "read", "skill_body", "pdf", 5)]
    other = assistant("a", use("t", "Read", file_path="/w/MY-SKILL.md"))
    assert parse_rows(other, read)[0].context_events == []
    loaded = parse_rows(call, read, user(BODY, 2, isMeta=True))[0].context_events
    assert [event.cause for event in loaded] == ["injected"]


def test_attachments_that_are_sent_and_those_that_are_not() -> None:
    parsed, report = parse_rows(
        attachment(1, type="edited_text_file", filename="/w/a", snippet="1\tx"),
        attachment(2, type="hook_additional_context", content=["be", "brief"], hookEvent="UserPromptSubmit"),
        attachment(3, type="hook_success", content="x", hookEvent="PostToolUse"),
        attachment(4, type="hook_system_message", content="shown to the person"),
        attachment(5, type="command_permissions", allowedTools=[]),
        attachment(6, type="task_reminder", content=[], itemCount=0),
        attachment(7, type="diagnostics", files=[{"uri": "u", "diagnostics": [{"message": "unused"}]}]),
        attachment(8, type="file", content={"type": "text", "file": {"filePath": "/w/a", "content": "abc"}}),
        attachment(9, type="file", content={"type": "image", "file": {"base64": "iVBO"}}),
        attachment(10, type="date_change", newDate="x", rendered=[{"content": "<r>now</r>"}]),
        attachment(11, type="nested_memory", path="/w/demo/ui/CLAUDE.md", content={"content": "css"}),
        attachment(12, type="skill_listing", content=7),
        attachment(13, type="invoked_skills", skills="x"),
        envelope("attachment", 14, attachment=[1]),
        attachment(15, type="prompt_snapshot", systemPrompt="You are"),
        attachment(16, type="prompt_snapshot"),
        attachment(17, type="hook_blocking_error", blockingError={"blockingError": "no", "command": "c"}),
        envelope("attachment", 18),
        attachment(19, type="plan_mode", content={"reminderType": "full"}),
    )
    assert [(event.item, event.chars) for event in parsed.context_events] == [
        ("edited_text_file", 3),
        ("hook_additional_context", 8),
        ("task_reminder", None),
        ("diagnostics", 6),
        ("file", 3),
        ("file", None),
        ("date_change", 10),
        ("ui/CLAUDE.md", 3),
        ("system_prompt", 7),
        ("hook_blocking_error", 2),
        ("plan_mode", None),
    ]
    assert len(report.warnings) == 3


@pytest.mark.parametrize("raw", [b'{"content":"x"}', b"[]", b'{"type":"file","n":1e999}', b'{"type":7}'])
def test_an_attachment_that_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(ShapeError):
        read_attachment(msgspec.Raw(raw), NOTHING, None)


def test_a_tool_whose_definition_is_not_recorded_has_no_size() -> None:
    record = attachment(
        3, type="deferred_tools_record", entries=[{"name": "B", "sameAs": "C"}, {"description": "x"}, 1]
    )
    loads = user([result("t", [{"type": "tool_reference", "tool_name": "B"}])], 2)
    parsed, _ = parse_rows(assistant("a", use("t", "ToolSearch", query="x")), loads, record, record)
    assert shown(parsed.context_events) == [("loaded", "tool", "tool", "B", None)]


def test_a_row_that_stands_twice_counts_once() -> None:
    row = attachment(1, type="edited_text_file", snippet="x")
    assert len(parse_rows(row, row)[0].context_events) == 1


def test_the_newer_of_two_versions_is_the_greater_number() -> None:
    assert _newer("2.1.9", "2.1.10") == _newer("2.1.10", "2.1.9") == _newer(None, "2.1.10") == "2.1.10"
