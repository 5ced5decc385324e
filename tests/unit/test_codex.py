"""The Codex client, over the bytes of its cases and over rollouts made row by row."""

from __future__ import annotations

import io
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipeline import codex_context
from pipeline.client import Home, Parsed, Report, Source, absent
from pipeline.clients.codex import CLIENT
from pipeline.errors import UnknownFormatError
from pipeline.schema import PACKED, TABLES, Request
from tests.cases.materialise import materialise

ROOT = Path(__file__).resolve().parent.parent
CASES = sorted(path.parent for path in (ROOT / "cases" / "codex").glob("*/case.json"))
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
THREAD = "019ca8a0-3e80-7000-8000-0000000000a1"
OTHER = "019ca8a0-3e80-7000-8000-0000000000b2"
Row = dict[str, Any]


# --- helpers ---------------------------------------------------------------------------------------------------------


def parse(data: bytes, name: str = f"rollout-2026-03-01T09-00-00-{THREAD}.jsonl") -> tuple[Parsed, Report]:
    report = Report()
    source = Source(Path("/h/.codex/sessions") / name, "source", len(data), 0)
    return CLIENT.parse(source, io.BytesIO(data), report), report


def rollout(*rows: Row, name: str = f"rollout-2026-03-01T09-00-00-{THREAD}.jsonl") -> tuple[Parsed, Report]:
    return parse(b"".join(json.dumps(row).encode() + b"\n" for row in rows), name)


def at(second: float) -> str:
    return f"2026-03-01T{9 + int(second) // 3600:02}:{int(second) // 60 % 60:02}:{second % 60:06.3f}Z"


def meta(second: float = 0, thread: str = THREAD, **fields: Any) -> Row:
    payload = {"id": thread, "timestamp": at(second), "cwd": "/w/demo", "cli_version": "0.144.1", "source": "cli"}
    return {"timestamp": at(second), "type": "session_meta", "payload": payload | fields}


def item(second: float, kind: str, **fields: Any) -> Row:
    return {"timestamp": at(second), "type": "response_item", "payload": {"type": kind, **fields}}


def event(second: float, kind: str, **fields: Any) -> Row:
    return {"timestamp": at(second), "type": "event_msg", "payload": {"type": kind, **fields}}


def turn(second: float, turn_id: str | None = "t1", **fields: Any) -> Row:
    return {
        "timestamp": at(second),
        "type": "turn_context",
        "payload": {"turn_id": turn_id, "model": "gpt-5.4", **fields},
    }


def message(second: float, role: str, *texts: str, kinds: list[str] | None = None) -> Row:
    labels = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": kinds}} if kinds else {}
    return item(second, "message", role=role, content=[{"type": "input_text", "text": t} for t in texts], **labels)


def usage(whole: int, cached: int = 0, output: int = 10, reasoning: int = 0) -> Row:
    parts = {"input_tokens": whole, "cached_input_tokens": cached, "output_tokens": output}
    return parts | {"reasoning_output_tokens": reasoning, "total_tokens": whole + output}


def count(second: float, total: Row | None, last: Row | None) -> Row:
    info = {"total_token_usage": total, "last_token_usage": last}
    return event(second, "token_count", info={name: value for name, value in info.items() if value is not None})


def record(second: float, response: str, used: Row) -> Row:
    payload = {"response_id": response, "usage": used}
    return {"timestamp": at(second), "type": "token_usage_record", "payload": payload}


def call(second: float, call_id: str, arguments: Row, name: str = "exec_command", **fields: Any) -> Row:
    return item(second, "function_call", name=name, arguments=json.dumps(arguments), call_id=call_id, **fields)


def output(second: float, call_id: str, value: Any) -> Row:
    return item(second, "function_call_output", call_id=call_id, output=value)


@cache
def case_files(case: Path) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        home = materialise(case, Path(folder) / "case")
        return {str(path): plain(path) for path in CLIENT.discover(Home(home, {}))}


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data


def case_rows(case: Path) -> list[tuple[Parsed, Report]]:
    return [parse(data, Path(path).name) for path, data in case_files(case).items()]


def distinct(parsed: list[Parsed]) -> list[Request]:
    """Each response once, the row that is the least likely to be a copy."""
    found: dict[str, Request] = {}
    for request in sorted((r for p in parsed for r in p.requests), key=lambda r: r.copy_rank):
        found.setdefault(request.request_id, request)
    return list(found.values())


def tokens(requests: list[Request], field: str) -> int:
    return sum(getattr(request, field) or 0 for request in requests)


SMALL = [case for case in CASES if "huge" not in case.name]


# --- the cases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    expect = json.loads((case / "case.json").read_text(encoding="utf-8"))["expect"]
    read = case_rows(case)
    requests = distinct([parsed for parsed, _ in read])
    calls = {c.call_id: c for parsed, _ in read for c in parsed.tool_calls}
    found: dict[str, Any] = {
        "requests": len(requests),
        "sessions": len({s.session_id for parsed, _ in read for s in parsed.sessions}),
        "skipped_lines": sum(report.skipped_lines for _, report in read),
        "subagent_requests": sum(r.is_subagent for r in requests),
        "max_context_tokens": max((r.context_tokens or 0 for r in requests if not r.is_subagent), default=0),
        **{field: tokens(requests, field) for field in TOKENS},
    }
    assert {key: found[key] for key in expect if key in found} == {key: expect[key] for key in expect if key in found}
    assert sum(len(report.warnings) for _, report in read) >= expect.get("warnings_at_least", 0)
    for model, numbers in expect.get("by_model", {}).items():
        of_model = [r for r in requests if r.model == model]
        assert numbers["requests"] == len(of_model)
        assert numbers["output_tokens"] == tokens(of_model, "output_tokens")
    if "tool_calls" in expect:
        names = [c.tool for c in calls.values()]
        assert {name: names.count(name) for name in names} == expect["tool_calls"]
    for call_id, chars in expect.get("tool_result_text_chars", {}).items():
        assert calls[call_id].result_chars == chars


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_of_a_case_hold_together(case: Path) -> None:
    for parsed, report in case_rows(case):
        assert [r.seq for r in parsed.requests] == list(range(len(parsed.requests)))
        for request in parsed.requests:
            parts = (request.input_tokens, request.cache_read_tokens, request.cache_write_tokens)
            if not report.warnings:
                assert request.context_tokens == sum(part or 0 for part in parts)
        ids = {r.request_id for r in parsed.requests}
        assert all(c.request_id in ids for c in parsed.tool_calls if c.request_id)
        events = [e.event_id for e in parsed.context_events] + [p.event_id for p in parsed.prompts]
        assert len(set(events)) == len(events)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reading_twice_gives_the_same_rows(case: Path) -> None:
    assert case_rows(case) == case_rows(case)


def test_absent_fields_are_null_and_measured_ones_are_set_somewhere() -> None:
    seen: set[str] = set()
    for case in CASES:
        for parsed, _ in case_rows(case):
            for table in ("sessions", "requests", "tool_calls", "prompts", "context_events"):
                for row in getattr(parsed, table):
                    seen |= {f"{table}.{name}" for name in row.__struct_fields__ if getattr(row, name) is not None}
    assert seen.isdisjoint(absent(CLIENT))
    measured = {name for name, support in CLIENT.supports.items() if support == "measured"}
    on_this_disk_only = {"sessions.repo_root"}
    assert measured - seen == on_this_disk_only


def test_every_field_of_the_lake_is_declared() -> None:
    set_by_others = {"source_id", "position"}
    tables = {name: TABLES[name] for name in PACKED if name != "sources"}
    fields = {f"{table}.{name}" for table, row in tables.items() for name in row.__struct_fields__}
    assert set(CLIENT.supports) == {name for name in fields if name.partition(".")[2] not in set_by_others}


@given(st.sampled_from(SMALL), st.data())
def test_no_prefix_makes_it_fail(case: Path, data: st.DataObject) -> None:
    path, whole = data.draw(st.sampled_from(sorted(case_files(case).items())))
    cut = data.draw(st.integers(0, len(whole)))
    parsed, report = parse(whole[:cut], Path(path).name)
    assert report.skipped_lines <= whole.count(b"\n") + 1
    assert len(parsed.requests) <= len(parse(whole, Path(path).name)[0].requests)


@given(st.sampled_from(SMALL), st.data())
def test_no_flipped_byte_makes_it_fail(case: Path, data: st.DataObject) -> None:
    path, whole = data.draw(st.sampled_from(sorted(case_files(case).items())))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed, _ = parse(bytes(damaged), Path(path).name)
    except UnknownFormatError:
        return  # no line of a short file is left
    assert [r.seq for r in parsed.requests] == list(range(len(parsed.requests)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    (row, name)
    for case in SMALL
    if case.name in {"codex-tool-calls", "codex-token-usage-records", "context-codex-skills"}
    for data in case_files(case).values()
    for row in map(json.loads, data.splitlines())
    for name in row["payload"]
]


@given(st.sampled_from(PLACES), VALUES)
def test_no_value_of_a_field_makes_it_fail(place: tuple[Row, str], value: Any) -> None:
    row, name = place
    strange = row | {"payload": row["payload"] | {name: value}}
    parsed, _ = rollout(meta(), turn(1), strange, count(9, usage(100), usage(100)), strange)
    numbers = [getattr(r, field) for r in parsed.requests for field in TOKENS]
    assert all(number is None or 0 <= number < 2**63 for number in numbers)
    assert all(c.duration_ms is None or 0 <= c.duration_ms < 2**53 for c in parsed.tool_calls)


RAW = {
    "session_meta": ("source", "thread_source", "base_instructions", "dynamic_tools"),
    "event_msg": ("message", "invocation", "result", "duration", "item", "status"),
    "response_item": ("content", "arguments", "output", "tools", "internal_chat_message_metadata_passthrough"),
    "compacted": ("message", "replacement_history"),
}


@pytest.mark.parametrize(
    "value", [b'"\xff"', b'{"text":"\xff"}', b'[{"type":"message","text":"\xff"}]', b'"{\\"a"', b"7"]
)
def test_bad_bytes_and_other_types_in_what_stays_undecoded(value: bytes) -> None:
    kinds: dict[str, tuple[str, ...]] = {
        "event_msg": ("user_message", "mcp_tool_call_end", "exec_command_end", "item_completed")
    }
    kinds["response_item"] = (
        "message",
        "function_call",
        "function_call_output",
        "additional_tools",
        "tool_search_output",
    )
    rows = [json.dumps(row).encode() for row in (meta(), turn(1), call(2, "c1", {"cmd": "x"}))]
    for record, names in RAW.items():
        for kind in kinds.get(record, ("",)):
            fields = b",".join(b'"%s":%s' % (name.encode(), value) for name in names)
            known = b'"call_id":"c1","role":"user","started_at_ms":1,"completed_at_ms":2,"id":"%s"' % THREAD.encode()
            head = b'{"timestamp":"%s","type":"%s","payload":{"type":"%s",' % (
                at(3).encode(),
                record.encode(),
                kind.encode(),
            )
            rows.append(head + known + b"," + fields + b"}}")
    again = [rows[3], *rows[1:3], *rows[4:]]  # with the odd meta row as the file's own
    for lines in (rows, again):
        parsed, report = parse(b"\n".join([*lines, json.dumps(count(9, usage(100), usage(100))).encode(), b""]))
        assert (len(parsed.requests), report.skipped_lines) == (1, 0)
        assert [c.call_id for c in parsed.tool_calls] == ["c1"]


# --- files -----------------------------------------------------------------------------------------------------------


def test_discovery(tmp_path: Path) -> None:
    day = tmp_path / ".codex" / "sessions" / "2026" / "03" / "01"
    archive = tmp_path / ".codex" / "archived_sessions"
    for folder in (day, archive):
        folder.mkdir(parents=True)
    for path in ("a.jsonl", "a.jsonl.zst", "b.jsonl.zst", "c.jsonl.tmp", "d.jsonl.zst.tmp"):
        (day / f"rollout-{path}").touch()
    (day / "history.jsonl").touch()
    (archive / "rollout-e.jsonl").touch()
    names = [path.name for path in CLIENT.discover(Home(tmp_path, {}))]
    assert sorted(names) == ["rollout-a.jsonl", "rollout-b.jsonl.zst", "rollout-e.jsonl"]
    elsewhere = {"CODEX_HOME": str(tmp_path / ".codex")}
    assert len(list(CLIENT.discover(Home(tmp_path / "nobody", elsewhere)))) == 3
    assert list(CLIENT.discover(Home(tmp_path / "nobody", {}))) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"thread.started","thread_id":"T1"}\n{"type":"turn.completed","usage":{"input_tokens":5}}\n',
        b'{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}\n',
        b'{"type":"message","id":"m","message":{"role":"user","content":"hi"}}\n',
        b'{"type":"session","id":"s","timestamp":"2026-03-01T09:00:00Z","cwd":"/w"}\n',
        b"\x7fELF\x02\x01\n\x00\xff\n",
        b"[1, 2]\n",
    ],
)
def test_other_files_are_not_claimed(data: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        parse(data)


@pytest.mark.parametrize("data", [b"", b"\n\n", b'{"timestamp":"2026-03-01T09:00:00Z","type":"session_me'])
def test_a_file_with_nothing_in_it_yet_is_no_session(data: bytes) -> None:
    parsed, report = parse(data)
    assert parsed == Parsed()
    assert not report.warnings


def test_the_session_is_named_by_its_own_meta_row_or_the_file() -> None:
    parsed, _ = rollout(turn(1), count(2, usage(100), usage(100)))
    assert (parsed.sessions[0].session_id, parsed.sessions[0].parent_session_id) == (THREAD, None)
    parsed, _ = rollout(meta(thread=OTHER), meta(5, thread=OTHER, cli_version="0.145.0"))
    assert (parsed.sessions[0].session_id, parsed.client_version) == (OTHER, "0.145.0")
    parsed, _ = parse(b"{torn\n" + json.dumps(meta(1, thread=OTHER)).encode() + b"\n")
    assert parsed.sessions[0].session_id == THREAD  # what follows a torn first row may be the parent's


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"source": "vscode"}, (None, False, None)),
        ({"forked_from_id": "P"}, ("P", False, None)),
        ({"source": {"subagent": "review"}, "parent_thread_id": "P"}, ("P", True, "review")),
        ({"source": {"subagent": {"other": "guardian"}}, "session_id": "R"}, ("R", True, "guardian")),
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "P"}}}}, ("P", True, None)),
        ({"source": {"subagent": {"thread_spawn": {"agent_role": "rev"}}}, "agent_role": "doc"}, (None, True, "doc")),
        ({"thread_source": "subagent", "forked_from_id": "P"}, ("P", True, None)),
        ({"source": {"subagent": 5}}, (None, True, None)),
    ],
)
def test_subagents_and_forks(fields: Row, expected: tuple[str | None, bool, str | None]) -> None:
    session = rollout(meta(**fields))[0].sessions[0]
    assert (session.parent_session_id, session.is_subagent, session.agent) == expected


# --- counters --------------------------------------------------------------------------------------------------------


def test_repeated_totals_are_no_requests() -> None:
    first, second = count(2, usage(100), usage(100)), count(3, usage(300, 90, 30), usage(200, 90, 20))
    parsed, report = rollout(meta(), turn(1), event(1, "token_count", info=None), first, first, second, second)
    assert [r.context_tokens for r in parsed.requests] == [100, 200]
    assert [r.input_tokens for r in parsed.requests] == [100, 110]
    assert report.warnings == []


def test_what_the_counter_grew_beyond_the_response_is_counted_with_it() -> None:
    rows = [meta(), turn(1), count(2, usage(100), usage(100)), count(3, usage(1100, 500, 60), usage(400, 300, 20))]
    parsed, report = rollout(*rows)
    second = parsed.requests[1]
    assert (second.input_tokens, second.cache_read_tokens, second.output_tokens) == (500, 500, 50)
    assert (second.context_tokens, second.n_requests) == (400, 1)
    assert report.warnings == [
        "record 4: the running total grew by 630 tokens more than its response; they are counted with it"
    ]


def test_what_a_skipped_line_hides_is_in_no_request() -> None:
    rows = [meta(), turn(1), count(2, usage(100), usage(100)), count(3, usage(1100, 500, 60), usage(400, 300, 20))]
    lines = [json.dumps(row).encode() for row in rows]
    parsed, report = parse(b"\n".join([*lines[:3], b"{torn", lines[3], b""]))
    assert tokens(parsed.requests, "output_tokens") == 30
    assert report.warnings[1].startswith("record 4: the running total grew by 630 tokens")


def test_more_torn_lines_than_warnings() -> None:
    rows = [meta(), turn(1), count(2, usage(100), usage(100)), count(3, usage(1100), usage(400))]
    lines = [json.dumps(row).encode() for row in rows]
    parsed, report = parse(b"\n".join([*lines[:3], *[b"{torn"] * 25, lines[3], b""]))
    assert [r.context_tokens for r in parsed.requests] == [100, 400]
    assert (report.skipped_lines, tokens(parsed.requests, "input_tokens")) == (25, 500)


def test_a_counter_may_begin_anew() -> None:
    parsed, report = rollout(
        meta(),
        turn(1),
        count(2, usage(5000, 0, 50), usage(5000, 0, 50)),
        count(3, usage(700), usage(700)),  # lower than before
        count(4, usage(9000, 0, 90), usage(9000, 0, 90)),  # higher, and yet only this response
        count(5, usage(0, 0, 0), usage(0, 0, 0)),
    )
    assert [r.context_tokens for r in parsed.requests] == [5000, 700, 9000]
    assert report.warnings == []


def test_estimates_of_the_client_are_no_requests_but_sizes_of_the_context() -> None:
    estimate = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 51293}
    full = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 258400}
    parsed, report = rollout(
        meta(),
        turn(1),
        count(2, usage(5000), usage(5000)),
        {"timestamp": at(3), "type": "compacted", "payload": {"message": "in short"}},
        count(4, usage(5000), estimate),
        count(5, full, full),  # the context overflowed
        count(6, usage(600), usage(600)),
    )
    assert [r.context_tokens for r in parsed.requests] == [5000, 600]
    (compaction,) = parsed.context_events
    assert (compaction.event, compaction.chars, compaction.seq) == ("compacted", 8, 1)
    assert compaction.reported_tokens == 51293
    assert report.warnings == []


def test_totals_alone_and_last_alone() -> None:
    parsed, _ = rollout(meta(), turn(1), count(2, usage(100), None), count(3, usage(350, 50, 30), None))
    assert [(r.input_tokens, r.cache_read_tokens, r.output_tokens) for r in parsed.requests] == [
        (100, 0, 10),
        (200, 50, 20),
    ]
    same = count(2, None, usage(100))
    parsed, report = rollout(meta(), turn(1), same, same)
    assert len({r.request_id for r in parsed.requests}) == 2
    assert len(report.warnings) == 1


def test_a_total_that_the_file_does_not_explain() -> None:
    parsed, report = rollout(meta(), turn(1), count(2, usage(9000, 0, 90), usage(400)))
    assert [r.context_tokens for r in parsed.requests] == [400]
    assert "begins with 8680 tokens" in report.warnings[0]
    assert rollout(meta(forked_from_id=OTHER), turn(1), count(2, usage(9000), usage(400)))[1].warnings == []


def test_numbers_in_quotes_and_numbers_not_recorded() -> None:
    odd = {"input_tokens": "200", "cache_read_input_tokens": 50.0, "output_tokens": -3}
    parsed, report = rollout(meta(), turn(1), count(2, odd, odd))
    (request,) = parsed.requests
    assert (request.input_tokens, request.cache_read_tokens, request.output_tokens) == (150, 50, None)
    assert (request.reasoning_tokens, request.cache_write_tokens) == (None, None)
    assert report.warnings
    assert report.skipped_lines == 0
    parsed, _ = rollout(meta(), turn(1), count(2, {"output_tokens": 5}, {"output_tokens": 5}))
    (request,) = parsed.requests
    assert (request.input_tokens, request.output_tokens, request.context_tokens) == (None, 5, None)


def test_model_and_directory_are_those_of_the_turn(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    parsed, _ = rollout(
        meta(cwd=str(tmp_path)),
        count(1, usage(100), usage(100)),
        turn(2, cwd="/w/demo/.worktrees/x"),
        count(3, usage(200, 0, 20), usage(100)),
        event(4, "token_count", info={"total_token_usage": usage(300, 0, 30), "model": "gpt-5.4-mini"}),
    )
    assert [r.model for r in parsed.requests] == [None, "gpt-5.4", "gpt-5.4-mini"]
    assert [r.project for r in parsed.requests] == [str(tmp_path), "/w/demo", "/w/demo"]
    assert parsed.sessions[0].repo_root == str(tmp_path)


def test_a_response_begins_with_its_first_item() -> None:
    parsed, _ = rollout(meta(), turn(1), item(3, "reasoning"), item(5, "reasoning"), count(9, usage(100), usage(100)))
    assert parsed.requests[0].ts == 1_772_355_603_000_000


@pytest.mark.parametrize("order", ["count first", "record first", "alone"])
def test_a_usage_record_and_a_count_are_one_request(order: str) -> None:
    counts = [count(2, usage(100), usage(100)), count(4, usage(300, 90, 30), usage(200, 90, 20))]
    records = [record(2, "resp_1", usage(100)), record(4, "resp_2", usage(200, 90, 20))]
    plan = {
        "count first": [counts[0], records[0], counts[1], records[1]],
        "record first": [records[0], counts[0], records[1], counts[1]],
        "alone": records,
    }
    turn_id = "019ca8a0-4268-7000-8000-0000000000c3"
    parsed, _ = rollout(meta(), turn(1, turn_id), *plan[order])
    assert [r.response_id for r in parsed.requests] == ["resp_1", "resp_2"]
    assert [r.context_tokens for r in parsed.requests] == [100, 200]
    copied, _ = rollout(meta(9, OTHER, forked_from_id=THREAD), meta(), turn(1, turn_id), *counts)
    same = [r.request_id for r in parsed.requests] == [r.request_id for r in copied.requests]
    assert same == (order != "alone")


# --- copies ----------------------------------------------------------------------------------------------------------


def test_copies_share_ids_and_rank_last() -> None:
    for name in ("codex-fork-of-fork-original-times", "codex-fork-replay-over-seconds", "codex-fork-without-turn-ids"):
        files = [parsed for parsed, _ in case_rows(ROOT / "cases" / "codex" / name)]
        files.sort(key=lambda parsed: parsed.sessions[0].started_at or 0)
        for elder, younger in pairwise(files):
            known = [r.request_id for r in elder.requests]
            assert [r.request_id for r in younger.requests][: len(known)] == known
            assert {r.copy_rank for r in younger.requests[: len(known)]} == {2}
            assert {r.copy_rank for r in younger.requests[len(known) :]} == {1}
        assert {r.copy_rank for r in files[0].requests} == {0}


def test_turns_older_than_the_thread_are_copies() -> None:
    (parsed,) = (
        parsed
        for parsed, _ in case_rows(ROOT / "cases" / "codex" / "codex-subagent-replays-parent")
        if parsed.sessions[0].is_subagent
    )
    assert [(r.copy_rank, r.is_subagent) for r in parsed.requests] == [(2, False), (2, False), (0, True)]
    assert [p.kind for p in parsed.prompts] == ["typed", "typed", "agent"]
    assert parsed.sessions[0].agent == "rev"


def test_a_missing_parent_loses_nothing() -> None:
    files = [parsed for parsed, _ in case_rows(ROOT / "cases" / "codex" / "codex-fork-replay-over-seconds")]
    fork = next(parsed for parsed in files if parsed.sessions[0].parent_session_id)
    assert tokens(distinct([fork]), "output_tokens") == tokens(distinct(files), "output_tokens")


def test_equal_numbers_of_two_threads_are_two_requests() -> None:
    one, _ = rollout(meta(), turn(1), count(2, usage(100), usage(100)))
    two, _ = rollout(meta(thread=OTHER), turn(1), count(2, usage(100), usage(100)))
    assert one.requests[0].request_id != two.requests[0].request_id


def test_a_resumed_file_is_no_fork() -> None:
    parsed, _ = rollout(
        meta(),
        turn(1),
        count(2, usage(100), usage(100)),
        meta(90),
        turn(91, "t2"),
        count(92, usage(200, 0, 20), usage(100)),
    )
    assert [r.copy_rank for r in parsed.requests] == [0, 0]


def test_a_meta_row_of_another_thread_after_own_requests_copies_nothing() -> None:
    parsed, _ = rollout(
        meta(), turn(1), count(2, usage(100), usage(100)), meta(3, OTHER), count(4, usage(200, 0, 20), usage(100))
    )
    assert [r.copy_rank for r in parsed.requests] == [0, 0]


def test_an_archived_copy_has_the_same_ids() -> None:
    rows = [meta(), turn(1), message(2, "user", "hi"), count(3, usage(100), usage(100))]
    longer, _ = rollout(*rows, item(4, "web_search_call", status="completed"), count(5, usage(200, 0, 20), usage(100)))
    shorter, _ = rollout(*rows)
    assert longer.requests[:1] == shorter.requests
    assert longer.prompts == shorter.prompts
    assert longer.tool_calls[0].call_id.startswith("x")


# --- positions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_result_enters_after_the_request_that_called(is_fast: bool) -> None:
    asked = call(3, "c1", {"cmd": "cat /h/skills/pdf/SKILL.md"})
    result, counted = output(4, "c1", "---\nname: pdf"), count(5, usage(100), usage(100))
    middle = [result, counted] if is_fast else [counted, result]
    parsed, _ = rollout(meta(), turn(1), asked, *middle, count(6, usage(250, 90, 20), usage(150, 90, 10)))
    (body,) = parsed.context_events
    assert (body.seq, body.event, body.cause, body.item, body.chars) == (1, "loaded", "read", "pdf", 13)
    assert (parsed.tool_calls[0].seq, parsed.tool_calls[0].request_id) == (0, parsed.requests[0].request_id)


def test_what_comes_while_the_model_answers_is_part_of_the_request_after() -> None:
    parsed, _ = rollout(
        meta(),
        turn(1),
        message(2, "user", "one"),
        item(3, "reasoning"),
        message(4, "user", "two"),
        event(4, "user_message", message="two"),
        count(5, usage(100), usage(100)),
        message(6, "user", "<environment_context>x</environment_context>"),
    )
    assert [(p.chars, p.seq) for p in parsed.prompts] == [(3, 1)]
    assert [(e.item, e.seq) for e in parsed.context_events] == [("environment_context", 1)]


def test_calls_of_an_unfinished_response_belong_to_none() -> None:
    parsed, _ = rollout(
        meta(),
        turn(1),
        call(2, "c1", {"cmd": "sleep 9"}),
        event(3, "turn_aborted", reason="interrupted"),
        turn(4, "t2"),
        message(5, "user", "again"),
        count(6, usage(100), usage(100)),
    )
    (lost,) = parsed.tool_calls
    assert (lost.seq, lost.request_id, lost.outcome) == (None, None, "interrupted")
    assert parsed.prompts[0].seq == 0


# --- prompts and context ---------------------------------------------------------------------------------------------


def test_prompts_are_counted_once() -> None:
    parsed, _ = rollout(
        meta(),
        turn(1),
        message(2, "user", "hello"),
        event(2, "user_message", message="hello"),
        turn(5, "t2"),
        message(6, "user", "no event", "<image name=[Image #1]>"),
        message(7, "user", "<skill>a label says that it was typed", kinds=["user.text"]),
    )
    assert [(p.chars, p.kind) for p in parsed.prompts] == [(5, "typed"), (8, "typed"), (37, "typed")]


def test_a_tag_that_a_person_typed_is_no_injected_text() -> None:
    typed = "<skill><name>x</name> what does this tag do?"
    parsed, _ = rollout(meta(), turn(1), message(2, "user", typed), event(2, "user_message", message=typed))
    assert parsed.context_events == []
    assert [p.chars for p in parsed.prompts] == [len(typed)]


def test_each_part_of_a_message_is_sized_alone() -> None:
    parsed, _ = rollout(
        meta(base_instructions={"text": "Be good."}, dynamic_tools=[{"name": "t", "description": "d"}]),
        message(1, "developer", "<permissions instructions>no</permissions instructions>", "## Memory\nold", "Hi"),
        message(
            1, "user", "# AGENTS.md instructions for /w/demo\n\n<INSTRUCTIONS>x</INSTRUCTIONS>", "<environment_context>"
        ),
        turn(2, user_instructions="x", base_instructions="Be good."),
        message(3, "developer", "hook said so", kinds=["hooks.additional_context"]),
    )
    found = [(e.event, e.item_kind, e.item, e.path) for e in parsed.context_events]
    assert found == [
        ("instructions", "system", "base_instructions", None),
        ("tool_definitions", "tool", "t", None),
        ("attachment", "attachment", "permissions", None),
        ("memory", "memory", "memories", None),
        ("attachment", "attachment", "developer_instructions", None),
        ("instructions", "instruction", "AGENTS.md", "/w/demo/AGENTS.md"),
        ("attachment", "attachment", "environment_context", None),
        ("attachment", "attachment", "hooks.additional_context", None),
    ]
    assert parsed.context_events[1].chars == len('{"name":"t","description":"d"}')
    assert {e.seq for e in parsed.context_events} == {0}


def test_old_turns_say_the_instructions_themselves() -> None:
    first = turn(1, user_instructions="Test it.", base_instructions="Be good.")
    parsed, _ = rollout(meta(), first, turn(2, "t2", user_instructions="Test it."))
    assert [(e.item, e.chars) for e in parsed.context_events] == [("base_instructions", 8), ("AGENTS.md", 8)]


def test_a_skill_listing_is_sized_by_the_entry() -> None:
    text = (
        "<skills_instructions>\n## Skills\n### Skill roots\n- `r0` = `/h/.agents/skills`\n### Available skills\n"
        "- pdf: Read: PDFs (file: r0/pdf/SKILL.md)\n- sp:plan: Plan (file: /p/plan/SKILL.md)\n- bare\n"
        "### How to use skills\n- not an entry: x\n</skills_instructions>"
    )
    *entries, around = codex_context.injected(text)
    assert [(e.item, e.path) for e in entries] == [
        ("pdf", "/h/.agents/skills/pdf/SKILL.md"),
        ("sp:plan", "/p/plan/SKILL.md"),
        ("bare", None),
    ]
    assert (around.item_kind, around.item) == ("listing", "skills")
    assert sum(piece.chars or 0 for piece in (*entries, around)) == len(text)


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("sed -n '1,220p' /h/skills/pdf/SKILL.md", ["/h/skills/pdf/SKILL.md"]),
        ("cd x && cat a/SKILL.md; head -5 'b/SKILL.md'", ["a/SKILL.md", "b/SKILL.md"]),
        ("rg -l x | grep /h/pdf/SKILL.md", []),
        ("cat > a/SKILL.md <<EOF", []),
        ("sed -i s/a/b/ a/SKILL.md", []),
        ('await tools.exec_command({cmd:"cat /h/a/SKILL.md"})', ["/h/a/SKILL.md"]),
        (r"Get-Content C:\skills\pdf\SKILL.md", [r"C:\skills\pdf\SKILL.md"]),
    ],
)
def test_reads_of_skill_files(command: str, paths: list[str]) -> None:
    assert list(codex_context.skill_files_read(command)) == paths


def test_several_skills_in_one_result_have_no_size_each() -> None:
    parsed, _ = rollout(
        meta(), turn(1), call(2, "c1", {"cmd": "cat a/SKILL.md b/SKILL.md"}), output(3, "c1", "text of both")
    )
    assert [(e.item, e.chars) for e in parsed.context_events] == [("a", None), ("b", None)]
    failed, _ = rollout(
        meta(), call(2, "c1", {"cmd": "cat a/SKILL.md"}), output(3, "c1", "Exit code: 1\nOutput:\nno file")
    )
    assert failed.context_events == []


def test_a_compaction_brings_texts_again() -> None:
    skill = "<skill>\n<name>pdf</name>\n<path>/h/pdf/SKILL.md</path>\nbody</skill>"
    kept = [
        message(0, role, text)["payload"] for role, text in (("user", "fix it"), ("user", skill), ("developer", "Hi"))
    ]
    kept.append({"type": "compaction", "encrypted_content": "gAAA"})
    parsed, _ = rollout(
        meta(),
        turn(1),
        count(2, usage(100), usage(100)),
        {"timestamp": at(3), "type": "compacted", "payload": {"message": "", "replacement_history": kept}},
    )
    assert [(e.event, e.cause, e.item, e.seq) for e in parsed.context_events] == [
        ("compacted", None, None, 1),
        ("loaded", "compaction", "pdf", 1),
        ("attachment", None, "developer_instructions", 1),
    ]
    assert parsed.context_events[0].chars is None
    assert parsed.prompts == []


def test_labels_say_what_a_part_is() -> None:
    def found(text: str, kind: str | None) -> tuple[str, str | None]:
        (piece,) = codex_context.injected(text, kind)
        return piece.event, piece.item

    assert found("You are", "model.base_instructions") == ("instructions", "base_instructions")
    assert found("Test it", "agents_md.instructions") == ("instructions", "AGENTS.md")
    assert found("Notes", "memories.instructions") == ("memory", "memories")
    summary = "Another language model started to solve this problem and wrote"
    assert found(summary, None) == ("attachment", "compaction.summary")
    assert not codex_context.is_typed(summary, None)
    assert found("# AGENTS.md instructions\n", None) == ("instructions", "AGENTS.md")


def test_tools_that_come_late() -> None:
    query = {"type": "function", "name": "query", "description": "Run SQL"}
    found = [{"type": "namespace", "name": "mcp__db", "tools": [query]}]
    parsed, _ = rollout(
        meta(),
        turn(1),
        item(
            2,
            "additional_tools",
            role="developer",
            tools=[{"type": "web_search"}, "odd", {"name": "n", "tools": ["odd"]}],
        ),
        item(3, "tool_search_call", call_id="c1", arguments={"query": "sql"}),
        count(4, usage(100), usage(100)),
        item(5, "tool_search_output", call_id="c1", tools=found),
        item(6, "tool_search_output", call_id="unknown", tools=[]),
    )
    assert [(e.event, e.item_kind, e.item, e.seq) for e in parsed.context_events] == [
        ("tool_definitions", "tool", "web_search", 0),
        ("tool_definitions", "listing", "n", 0),
        ("loaded", "listing", "mcp__db", 1),
        ("loaded", "tool", "mcp__db__query", 1),
    ]
    assert parsed.tool_calls[0].outcome == "ok"


# --- tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ({"cmd": "rg -n x"}, "rg"),
        ({"command": ["bash", "-lc", "git status"]}, "git"),
        ({"command": ["ls", "-l"]}, "ls"),
        ({"cmd": "bash -lc 'make test'"}, "make"),
        ({"cmd": "TOKEN='a b' API=s3cr3t curl x"}, "curl"),
        ({"cmd": "TOKEN=s3cr3t"}, None),
        ({"cmd": '"$SECRET" x'}, None),
        ({"cmd": ""}, None),
        ({"path": "/w/a.png"}, "/w/a.png"),
        ({"url": "https://u:p@docs.example.org/x?key=1"}, "docs.example.org"),
        ({"url": "https://[bad"}, None),
        ({"plan": []}, None),
        ({"cmd": 5}, None),
    ],
)
def test_targets_hold_no_secrets(arguments: Row, target: str | None) -> None:
    parsed, _ = rollout(meta(), call(1, "c1", arguments))
    assert parsed.tool_calls[0].target == target
    assert parsed.tool_calls[0].input_bytes == len(json.dumps(arguments))


@pytest.mark.parametrize(
    ("value", "outcome", "duration"),
    [
        ("plain text", "ok", None),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nx", "error", 100),
        (
            "Command: x\nChunk ID: 1\nWall time: 1.5 seconds\nProcess exited with code 0\nOutput:\nExit code: 1",
            "ok",
            1500,
        ),
        ("a file that says Exit code: 1", "ok", None),
        ('{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.25}}', "error", 250),
        ('{"output":"' + "x" * 3000 + '","metadata":{"exit_code":3,"duration_seconds":0.25}}', "error", 250),
        ({"content": "x", "success": False}, "error", None),
        ({"content": [{"type": "input_text", "text": "x"}], "success": True}, "ok", None),
        ([{"type": "input_text", "text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}], "ok", 100),
        ([{"type": "input_text", "text": "Script failed\nWall time 0.1 seconds"}], "error", None),
        ("exec command rejected by user", "denied", None),
        ("aborted by user after 3.2s", "interrupted", None),
        ("apply_patch verification failed: no such file", "error", None),
        ({"content": "x", "success": "no"}, "ok", None),
        (None, "ok", None),
    ],
)
def test_outcomes(value: Any, outcome: str, duration: int | None) -> None:
    parsed, _ = rollout(meta(), call(1, "c1", {"cmd": "x"}), output(2, "c1", value))
    (made,) = parsed.tool_calls
    assert (made.outcome, made.duration_ms) == (outcome, duration)


def test_result_sizes_are_of_text_only() -> None:
    parts = [
        {"type": "input_text", "text": "fine ✓"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    parsed, _ = rollout(meta(), call(1, "c1", {"cmd": "x"}), output(2, "c1", parts), output(3, "c1", "said again"))
    assert (parsed.tool_calls[0].result_chars, parsed.tool_calls[0].result_bytes) == (6, 8)
    parsed, _ = rollout(meta(), call(1, "c1", {"cmd": "x"}), output(2, "c1", parts[1:]))
    assert (parsed.tool_calls[0].result_chars, parsed.tool_calls[0].result_bytes) == (None, None)


def test_events_say_more_about_a_call() -> None:
    parsed, _ = rollout(
        meta(),
        call(1, "c1", {"cmd": "x"}),
        event(2, "exec_command_end", call_id="c1", exit_code=1, duration="1.2s", status="failed"),
        output(2, "c1", "text"),
        call(3, "c2", {}, "apply_patch"),
        event(3, "patch_apply_end", call_id="c2", success=False, status="declined"),
        call(4, "c3", {"cmd": "y"}),
        event(
            5, "item_completed", item={"type": "CommandExecution", "id": "c3"}, started_at_ms=100, completed_at_ms=350
        ),
        event(6, "exec_command_end", call_id="unknown", exit_code=1),
    )
    assert [(c.outcome, c.duration_ms) for c in parsed.tool_calls] == [
        ("error", 1200),
        ("denied", None),
        ("pending", 250),
    ]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ({"secs": 2, "nanos": 500_000}, 2000),
        ({"secs": "2"}, None),
        ({"secs": -1}, None),
        ("1.2s", 1200),
        ("2 m", 120_000),
        ("1.2.3s", None),
        ("9" * 400 + "s", None),
        ("soon", None),
        (7, None),
    ],
)
def test_durations(duration: Any, expected: int | None) -> None:
    parsed, _ = rollout(meta(), call(1, "c1", {}), event(2, "exec_command_end", call_id="c1", duration=duration))
    assert parsed.tool_calls[0].duration_ms == expected


def test_events_without_their_call_are_passed_over() -> None:
    parsed, _ = rollout(
        meta(),
        output(1, "c1", "x"),
        event(2, "mcp_tool_call_end", call_id="c2"),
        event(3, "mcp_tool_call_end", call_id="c3", invocation={"server": "s", "tool": "t"}, result={"Ok": {}}),
        event(4, "item_completed", item={"id": "c4"}, started_at_ms=1, completed_at_ms=2),
        event(4, "item_completed", item={"id": "c3"}, started_at_ms=2, completed_at_ms=1),
        event(5, "thread_name_updated", thread_name=None),
        event(6, "exec_command_end", call_id="c3", exit_code=0, status="completed"),
    )
    assert [(c.call_id, c.outcome, c.duration_ms) for c in parsed.tool_calls] == [("c3", "ok", None)]


def test_mcp_calls_by_their_invocation() -> None:
    invocation = {"server": "my-db", "tool": "query", "arguments": {"q": "1"}}
    parsed, _ = rollout(
        meta(),
        turn(1),
        call(2, "c1", {"q": "1"}, "mcp__my_db__query_1a2b"),
        item(2, "custom_tool_call", name="exec", input="await tools.mcp()", call_id="c2"),
        count(3, usage(100), usage(100)),
        event(
            4,
            "mcp_tool_call_end",
            call_id="c1",
            invocation=invocation,
            duration={"secs": 0, "nanos": 5_000_000},
            result={"Err": "x"},
        ),
        event(
            5,
            "mcp_tool_call_end",
            call_id="c9",
            invocation=invocation,
            duration="35ms",
            result={"Ok": {"isError": False}},
        ),
        count(6, usage(250, 90, 20), usage(150, 90, 10)),
    )
    named, program, nested = parsed.tool_calls
    assert (named.kind, named.mcp_server, named.mcp_tool, named.outcome, named.duration_ms) == (
        "mcp",
        "my-db",
        "query",
        "error",
        5,
    )
    assert (nested.tool, nested.seq, nested.outcome, nested.duration_ms) == ("mcp__my-db__query", 0, "ok", 35)
    assert (nested.result_chars, nested.input_bytes) == (None, len(json.dumps(invocation["arguments"])))
    assert (program.kind, program.target) == ("builtin", None)
