"""Codex (CLI, IDE extension, desktop app): one rollout a thread, JSON Lines below ~/.codex/sessions/YYYY/MM/DD/.

A rollout counts tokens cumulatively, repeats its counts, and a forked or spawned thread's file begins with a copy of
its parent's rows. docs/clients/codex.md tells the evidence for every rule in here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from pipeline import client, codex_context, codex_items, retrieval
from pipeline.client import MOST_TOKENS, Home, Parsed, Report, Source, Support, short_id
from pipeline.codex_context import Piece
from pipeline.config import ConfigFiles, Found
from pipeline.errors import UnknownFormatError
from pipeline.jsonl import read_rows
from pipeline.schema import ContextEvent, Prompt, Request, Session, ToolCall

Number = int | float | str | None
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)] | float | str | None
_Raw = msgspec.Raw
_NONE = _Raw(b"")


class _Counts(msgspec.Struct, frozen=True, gc=False):
    """A count as recorded: `whole` is all input, the cached and the written parts in it."""

    whole: int | None
    cached: int | None
    written: int | None
    output: int | None
    reasoning: int | None
    total: int | None

    def is_spent(self) -> bool:
        """Whether any kind of token was used."""
        return bool(self.whole or self.cached or self.written or self.output or self.reasoning)

    def parts(self) -> tuple[int | None, ...]:
        """All of them, the total last."""
        return self.whole, self.cached, self.written, self.output, self.reasoning, self.total


class _Usage(msgspec.Struct, gc=False):
    input_tokens: _Count = None
    cached_input_tokens: _Count = None
    cache_read_input_tokens: _Count = None  # as some other writers of this format call it
    cache_write_input_tokens: _Count = None
    output_tokens: _Count = None
    reasoning_output_tokens: _Count = None
    total_tokens: _Count = None


class _Info(msgspec.Struct, gc=False):
    total_token_usage: _Usage | None = None
    last_token_usage: _Usage | None = None
    model: str | None = None
    model_name: str | None = None


class _Git(msgspec.Struct, gc=False):
    branch: str | None = None


class _Payload(msgspec.Struct, gc=False):
    """The fields in use of every type of record; what may be big or of several types stays undecoded."""

    type: str | None = None
    role: str | None = None
    content: _Raw = _NONE
    name: str | None = None
    namespace: str | None = None
    arguments: _Raw = _NONE
    input: _Raw = _NONE
    call_id: str | None = None
    output: _Raw = _NONE
    status: _Raw = _NONE
    action: _Raw = _NONE
    tools: _Raw = _NONE
    internal_chat_message_metadata_passthrough: _Raw = _NONE
    info: _Info | None = None
    model: str | None = None
    model_name: str | None = None
    message: _Raw = _NONE
    turn_id: str | int | None = None
    cwd: str | None = None
    user_instructions: _Raw = _NONE
    id: str | int | None = None
    session_id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    timestamp: Number = None
    cli_version: str | None = None
    source: _Raw = _NONE
    thread_source: _Raw = _NONE
    agent_role: str | None = None
    model_provider: str | None = None
    base_instructions: _Raw = _NONE
    instructions: _Raw = _NONE
    dynamic_tools: _Raw = _NONE
    git: _Git | None = None
    invocation: _Raw = _NONE
    duration: _Raw = _NONE
    result: _Raw = _NONE
    exit_code: Number = None
    success: bool | None = None
    item: _Raw = _NONE
    started_at_ms: Number = None
    completed_at_ms: Number = None
    replacement_history: _Raw = _NONE
    thread_name: str | None = None
    response_id: str | None = None
    usage: _Usage | None = None


class _Record(msgspec.Struct, gc=False):
    timestamp: Number = None
    type: str | None = None
    payload: _Payload | None = None
    role: str | None = None  # of a bare item, before rollouts had an envelope
    call_id: str | None = None
    instructions: _Raw = _NONE


class _Item(msgspec.Struct, gc=False):
    """An item of a compaction's replacement history."""

    type: str | None = None
    role: str | None = None
    content: _Raw = _NONE
    internal_chat_message_metadata_passthrough: _Raw = _NONE


class _Invocation(msgspec.Struct, gc=False):
    server: str
    tool: str
    arguments: _Raw = _NONE


class _Ok(msgspec.Struct, gc=False):
    isError: bool | None = None  # noqa: N815 - the field's own name
    is_error: bool | None = None
    content: _Raw = _NONE


class _Result(msgspec.Struct, gc=False):
    Ok: _Ok | None = None
    Err: _Raw = _NONE


class _Completed(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None


_RECORDS = msgspec.json.Decoder(_Record)
_ITEMS = msgspec.json.Decoder(list[_Item])

_ENVELOPES = frozenset(
    ("session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state", "token_usage_record")
)
_BARE_ITEMS = frozenset(("message", "reasoning", "function_call", "function_call_output", "local_shell_call"))
_NAME = re.compile(r"rollout-.*?([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_AGENT_TOOL = "spawn_agent"
_RUN_BY_VENDOR = frozenset(("web_search_call", "image_generation_call"))  # these have no result row
_SHORT_GAP = 2_000_000  # microseconds: rows that a program copies follow one another at least so quickly


_MEASURED = {
    "sessions": "session_id parent_session_id is_subagent agent project repo_root git_branch title started_at ended_at "
    "client_version",
    "requests": "session_id request_id response_id seq ts project n_requests model provider input_tokens output_tokens "
    "cache_read_tokens cache_write_tokens reasoning_tokens context_tokens is_subagent is_error is_output_partial "
    "copy_rank",
    "tool_calls": "session_id call_id request_id seq ts tool kind mcp_server mcp_tool target input_bytes result_bytes "
    "result_chars outcome ended_at duration_ms result_paths result_handles",
    "prompts": "session_id event_id seq ts kind chars",
    "context_events": "session_id event_id seq ts event cause item_kind item path chars sha256 reported_tokens",
}
_ABSENT = {
    "sessions": "reported_usd",
    "requests": "cache_write_5m_tokens cache_write_1h_tokens reported_usd service_tier speed inference_geo "
    "web_search_requests premium_requests stop_reason duration_ms",
    "tool_calls": "skill",
}
_SUPPORTS: Mapping[str, Support] = {
    **{f"{table}.{column}": "measured" for table, columns in _MEASURED.items() for column in columns.split()},
    **{f"{table}.{column}": "absent" for table, columns in _ABSENT.items() for column in columns.split()},
}


class Codex:
    """Rollouts of the Codex clients, active, archived and compressed."""

    name = "codex"
    parser_version = 2
    config_variables = codex_items.VARIABLES
    supports: Mapping[str, Support] = _SUPPORTS

    def discover(self, home: Home) -> Iterator[Path]:
        """Yield the rollouts below `sessions` and `archived_sessions`; a plain file hides its compressed sibling."""
        seen: set[Path] = set()
        for root in home.roots("CODEX_HOME", ".codex"):
            for folder in ("sessions", "archived_sessions"):
                found = [
                    path
                    for path in client.walk(root / folder, (".jsonl", ".jsonl.zst"), home.unreadable)
                    if path.name.startswith("rollout-") and path not in seen
                ]
                seen.update(found)
                yield from (path for path in found if path.suffix != ".zst" or path.with_suffix("") not in seen)

    def items(self, home: Home, projects: Iterable[str], config: ConfigFiles) -> Iterator[Found]:
        """Yield what is installed for the person and for the projects."""
        return codex_items.read(home, home.roots("CODEX_HOME", ".codex"), projects, config)

    def parse(self, source: Source, stream: BinaryIO, report: Report) -> Parsed:
        """Turn one rollout into rows; raises UnknownFormatError where no row is one of a rollout."""
        rollout = _Rollout(source, report)
        for records in read_rows(stream, _RECORDS, report):
            rollout.read(records)
        return rollout.finish()


class _Rollout:
    """What is known of one file while its rows go by, in file order."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source_id, self.report = source.source_id, report
        self.out = Parsed()
        named = _NAME.match(source.path.name)
        self.named = named[1].lower() if named else None
        self.session_id = self.named or source.path.name.removesuffix(".zst").removesuffix(".jsonl")
        self.session: Session | None = None
        # where we are in the file
        self.row = -1
        self.gaps: list[int] = []  # a row's number for each skipped line right before it
        self.recognised = self.bare = 0
        self.first_ts: int | None = None
        self.last_ts: int | None = None
        # whose rows these are
        self.lineage: dict[str, None] = {}  # ids of the threads whose history is copied here, the eldest last
        self.is_forked = self.has_own_requests = False
        self.rank = 0
        self.turn_seen: int | None = None  # time of the last turn or count, to see a copy's end by
        # the running turn and response
        self.turn: str | None = None
        self.is_turn_unique = False
        self.model: str | None = None
        self.provider: str | None = None
        self.project: str | None = None
        self.is_answering = False
        self.answer_ts: Number = None
        self.calls: dict[str, ToolCall] = {}
        self.unanswered: dict[str, ToolCall] = {}
        self.open_calls: list[ToolCall] = []  # of the running response
        self.turn_calls = 0  # calls before the running turn
        self.commands: dict[str, str] = {}  # of calls that read a SKILL.md
        # counters
        self.total: _Counts | None = None
        self.total_row = -1
        self.keys: dict[str, int] = {}
        self.record_turns: set[str | None] = set()  # turns whose responses have a record each
        self.unpaired: list[tuple[Request, _Counts]] = []  # records whose count is still to come
        self.held: list[tuple[str, _Counts]] = []  # counts whose record is still to come
        self.is_from_count = False  # the last request came from a count and has no record yet
        self.last_counts: _Counts | None = None
        # prompts and context
        self.prompts: list[tuple[int, Prompt]] = []
        self.maybe_prompts: list[tuple[int, str | None, Prompt]] = []
        self.prompted_turns: set[str | None] = set()
        self.last_injected: tuple[list[str], slice] = ([], slice(0))  # the last message: texts, events made of them
        self.skill_names: dict[str, str] = {}  # by path, as listed
        self.has_base = self.has_agents = False
        self.compaction: ContextEvent | None = None  # the last one, until the next request
        self.warned: set[str] = set()

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, records: list[_Record]) -> None:
        """Take a batch of records in."""
        if self.report.skipped_lines > len(self.gaps):
            self._note_gaps(len(records))
        for record in records:
            self.row += 1
            payload = record.payload
            if payload is None:
                self._bare(record)
                continue
            kind = record.type
            if kind == "response_item":
                handler = _ON_ITEM.get(payload.type)  # type: ignore[arg-type]
            elif kind == "event_msg":
                handler = _ON_EVENT.get(payload.type)  # type: ignore[arg-type]
            else:
                handler = _ON_RECORD.get(kind)  # type: ignore[arg-type]
                if kind not in _ENVELOPES:
                    continue
            self.recognised += 1
            if handler is not None:
                handler(self, record, payload)
        if records:
            self._see_time(records[0].timestamp)
            self._see_time(records[-1].timestamp)

    def _note_gaps(self, records: int) -> None:
        """Learn from the report before which rows of the batch at hand its skipped lines stand."""
        first, known = self.row + 1, len(self.gaps)
        lines = [int(found[1]) for text in self.report.warnings if (found := re.match(r"line (\d+): skipped", text))]
        for position, line in enumerate(lines[known:], known):
            self.gaps.append(min(max(line - 1 - position, first), first + records))
        while len(self.gaps) < self.report.skipped_lines:  # warnings beyond the report's limit name no line
            self.gaps.append(first)

    def _see_time(self, raw: Number) -> None:
        moment = client.timestamp(raw)
        if moment is not None and self.rank != 2:
            if self.first_ts is None or moment < self.first_ts:
                self.first_ts = moment
            if self.last_ts is None or moment > self.last_ts:
                self.last_ts = moment

    def _bare(self, record: _Record) -> None:
        """Rows of the first rollouts, before September 2025, had no envelope (and no tokens)."""
        if record.type in _BARE_ITEMS:
            self.bare += record.role is not None or record.call_id is not None or record.type == "reasoning"
        elif record.type is None and len(record.instructions):
            self.bare += 1

    def _warn_once(self, text: str) -> None:
        about = text.partition(": ")[2]
        if about not in self.warned:
            self.warned.add(about)
            self.report.warn(text)

    # -- the thread and its turns -----------------------------------------------------------------------------------

    def meta(self, record: _Record, payload: _Payload) -> None:
        """The first meta row is this file's own; one of another thread begins a copy of that thread's history."""
        identity = str(payload.id or payload.session_id or self.session_id).lower()
        own = self.session_id if self.session or (self.report.skipped_lines and self.named) else identity
        if identity != own:
            self._copied_meta(identity)
        elif self.session is None:
            self._own_meta(record, payload, identity)
        elif payload.cli_version:
            self.session.client_version = payload.cli_version
        if self.project is None and payload.cwd:
            self.project = client.fold_project(payload.cwd)
        if not self.has_base:
            text = codex_context.text_in(payload.base_instructions, "text") or codex_context.text_in(
                payload.instructions, "text"
            )
            if text:
                self.has_base = True
                self._add([codex_context.base_instructions(text)], record, self._next_seq())
            self._add(codex_context.tools(payload.dynamic_tools, "tool_definitions"), record, self._next_seq())

    def _own_meta(self, record: _Record, payload: _Payload, identity: str) -> None:
        self.session_id = identity
        parent, is_subagent, agent = _origin(payload, identity)
        self.is_forked = self.is_forked or parent is not None
        self.rank = max(self.rank, int(self.is_forked))
        self.provider = payload.model_provider
        project = client.fold_project(payload.cwd) if payload.cwd else None
        created = client.timestamp(payload.timestamp)
        self.session = Session(
            source_id=self.source_id,
            session_id=identity,
            parent_session_id=parent,
            is_subagent=is_subagent,
            agent=agent,
            project=project,
            repo_root=client.repo_root(project) if project else None,
            git_branch=payload.git.branch if payload.git else None,
            started_at=created if created is not None else client.timestamp(record.timestamp),
            client_version=payload.cli_version,
        )

    def _copied_meta(self, identity: str) -> None:
        if identity in self.lineage:
            return  # the copied thread was resumed
        self.lineage[identity] = None
        self.is_forked = True
        if not self.has_own_requests:
            self.rank = 2

    def turn_started(self, record: _Record, payload: _Payload) -> None:
        """A turn begins: what the last one left open belongs to no response."""
        turn = None if payload.turn_id is None else str(payload.turn_id)
        if turn is not None and turn == self.turn:
            return
        self.turn = turn
        self.is_turn_unique = turn is not None and _UUID.fullmatch(turn) is not None
        self._end_response()
        self.turn_calls = len(self.out.tool_calls)
        self.is_from_count, self.unpaired, self.held = False, [], []
        moment = client.timestamp(record.timestamp)
        if self.is_forked:
            self.rank = self._rank(moment)
        self.turn_seen = moment

    def turn_context(self, record: _Record, payload: _Payload) -> None:
        """Model and directory of the turn; it begins one where no `task_started` row did."""
        if payload.turn_id is not None or self.turn is None:
            self.turn_started(record, payload)
        if payload.model:
            self.model = payload.model
        if payload.cwd:
            self.project = client.fold_project(payload.cwd)
        if not self.has_base and (text := codex_context.text_in(payload.base_instructions, "text")):
            self.has_base = True
            self._add([codex_context.base_instructions(text)], record, self._next_seq())
        if not self.has_agents and (text := codex_context.text_in(payload.user_instructions, "text")):
            self.has_agents = True  # later rows say it again, and so does a message of newer clients
            self._add(codex_context.injected(text, "agents_md.instructions"), record, self._next_seq())

    def _rank(self, moment: int | None) -> int:
        """Is the turn that begins now a copy (2), surely this thread's own (0), or is there no sign (1)?"""
        created = self.session.started_at if self.session else None
        if created is not None and moment is not None and moment < created:
            return 2  # a copy that kept its time
        born = _uuid_time(self.turn) if self.turn and self.is_turn_unique else None
        if created is not None and moment is not None and born is not None and born <= moment + 60_000_000:
            return 2 if born < created else 0
        is_burst = moment is not None and self.turn_seen is not None and moment - self.turn_seen <= _SHORT_GAP
        is_first = self.turn_seen is None
        return 2 if self.rank == 2 and (is_burst or is_first) else 1

    def turn_aborted(self, _record: _Record, _payload: _Payload) -> None:
        """The person stopped the turn: calls without a result will get none."""
        for call in self.unanswered.values():
            if call.outcome is None:
                call.outcome = "interrupted"
        self.unanswered.clear()

    def thread_name(self, _record: _Record, payload: _Payload) -> None:
        """The thread was named, by the person or by the client."""
        if self.session and payload.thread_name:
            self.session.title = payload.thread_name

    # -- requests ---------------------------------------------------------------------------------------------------

    def token_count(self, record: _Record, payload: _Payload) -> None:
        """A running total: a request only if it moved, and not by an estimate of the client."""
        info = payload.info
        if info is None:
            return
        total, last = self._counts(info.total_token_usage), self._counts(info.last_token_usage)
        if total is not None and total == self.total:
            self._estimate(last)
            return
        before, before_row = self.total, self.total_row
        if total is not None:
            self.total, self.total_row = total, self.row
        if self._estimate(last):
            return
        spent = self._spent(before, total, last, before_row)
        if spent is None:
            return
        key = self._key(total or spent)
        counts = last or spent
        if self._pair_with_record(key, counts):
            return
        context = counts.whole if last is None or last.is_spent() else None
        model = payload.model or payload.model_name or info.model or info.model_name
        self._request(record, key, spent, context, model)
        self.is_from_count, self.last_counts = True, counts

    def usage_record(self, record: _Record, payload: _Payload) -> None:
        """One row a response (0.154 and later). Its count names the same response; the two make one request."""
        counts = self._counts(payload.usage)
        if counts is None or payload.response_id is None:
            return
        first_of_turn = self.turn not in self.record_turns
        self.record_turns.add(self.turn)
        if first_of_turn and self.is_from_count and self._same(self.last_counts, counts):
            self.out.requests[-1].response_id = payload.response_id
            self.is_from_count = False
            return
        key = next((key for key, held in self.held if self._same(held, counts)), None)
        self.held = [(held_key, held) for held_key, held in self.held if held_key != key]
        request = self._request(record, key or payload.response_id, counts, counts.whole, payload.model)
        request.response_id = payload.response_id
        if key is None:
            self.unpaired.append((request, counts))
        self.is_from_count = False

    def _pair_with_record(self, key: str, counts: _Counts) -> bool:
        """Give a count to the record of the same response, so that a fork, which copies only counts, shares its id."""
        if self.turn not in self.record_turns:
            return False
        for position, (request, recorded) in enumerate(self.unpaired):
            if self._same(recorded, counts):
                request.request_id = key
                del self.unpaired[position]
                return True
        self.held.append((key, counts))
        return True

    @staticmethod
    def _same(one: _Counts | None, other: _Counts) -> bool:
        return one is not None and (one.whole, one.output) == (other.whole, other.output)

    def _counts(self, usage: _Usage | None) -> _Counts | None:
        """Input, cached, cache write, output, reasoning, total, as recorded; None if none of them is."""
        if usage is None:
            return None
        cached = usage.cached_input_tokens
        if cached is None:
            cached = usage.cache_read_input_tokens
        whole, output, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
        written, reasoning = usage.cache_write_input_tokens, usage.reasoning_output_tokens
        if type(whole) is type(cached) is type(output) is type(reasoning) is type(total) is int and written is None:
            return _Counts(whole, cached, None, output, reasoning, total)
        values = (whole, cached, written, output, reasoning, total)
        known = [client.count(value, self.report, "token count") for value in values]
        return None if known == [None] * 6 else _Counts(*known)

    def _estimate(self, last: _Counts | None) -> bool:
        """After a compaction or an overflow the client puts its own estimate of the context: no response."""
        if last is None or last.whole or last.output or not last.total:
            return False
        if self.compaction is not None and self.compaction.reported_tokens is None:
            self.compaction.reported_tokens = last.total
        return True

    def _spent(
        self, before: _Counts | None, total: _Counts | None, last: _Counts | None, before_row: int
    ) -> _Counts | None:
        """What the response of a moved counter used, or None if there was no response."""
        used = last if last is not None and last.is_spent() else None
        if total is None:
            if used:
                self._warn_once(f"record {self.row + 1}: no running total: repeated counts cannot be told apart")
            return used
        if before is None:
            return self._first_spent(total, last)
        if last is not None and _explains(last, before, total):
            return used
        pairs = zip(total.parts(), before.parts(), strict=True)
        delta = _Counts(*(None if new is None else new - (old or 0) for new, old in pairs))
        if any((part or 0) < 0 for part in delta.parts()[:5]):  # the counter began anew
            return used if last is not None else total
        if last is None:
            return delta if delta.is_spent() else None
        missing = [(grown or 0) - (part or 0) for grown, part in zip(delta.parts()[:4], last.parts()[:4], strict=True)]
        if min(missing) < 0:  # the counter began anew, above the old one
            return used
        lost = missing[0] + missing[3]
        where = f"record {self.row + 1}: the running total grew by {lost} tokens more than its response"
        if bisect_right(self.gaps, before_row) < bisect_right(self.gaps, self.row):
            self.report.warn(f"{where}; they were of a skipped line and are in no request")
            return used
        self.report.warn(f"{where}; they are counted with it")
        return delta

    def _first_spent(self, total: _Counts, last: _Counts | None) -> _Counts | None:
        """The first count of a file: what its total holds beyond the last response was spent elsewhere."""
        if last is None:
            return total if total.is_spent() else None
        beyond = (total.whole or 0) + (total.output or 0) - (last.whole or 0) - (last.output or 0)
        if beyond > 0 and not self.is_forked:
            self.report.warn(
                f"record {self.row + 1}: the running total begins with {beyond} tokens that no row explains"
            )
        return last if last.is_spent() else None

    def _key(self, counts: _Counts) -> str:
        """The identity of a response: equal in every file that copies it.

        Turn ids are unique and copied, and the total moves with every response. Old clients numbered turns, or named
        none: then the thread stands for it, and the response's first call.
        """
        if self.is_turn_unique:
            c = counts
            key = short_id(f"{self.turn} {c.whole} {c.cached} {c.written} {c.output} {c.reasoning} {c.total}")
        else:
            call = self.open_calls[0].call_id if self.open_calls else None
            key = short_id("thread", self._thread(), self.turn, call, *counts.parts())
        again = self.keys.get(key, 0)  # the counter began anew and came by here again
        self.keys[key] = again + 1
        return short_id(key, again) if again else key

    def _thread(self) -> str:
        """The thread whose history this is: in a copy the eldest that it names."""
        return next(reversed(self.lineage), self.session_id)

    def _request(self, record: _Record, key: str, spent: _Counts, context: int | None, model: str | None) -> Request:
        whole, cached, written = spent.whole, spent.cached, spent.written
        if whole is not None:
            cached = self._within(whole, cached, "cached input")
            written = self._within(whole - (cached or 0), written, "cache writes")
        moment = client.timestamp(record.timestamp)
        answered = client.timestamp(self.answer_ts) if self.is_answering else None
        request = Request(
            source_id=self.source_id,
            session_id=self.session_id,
            request_id=key,
            seq=len(self.out.requests),
            ts=moment if answered is None else answered,
            project=self.project,
            model=model or self.model,
            provider=self.provider,
            input_tokens=None if whole is None else whole - (cached or 0) - (written or 0),
            output_tokens=spent.output,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=spent.reasoning,
            context_tokens=context,
            is_subagent=self.session is not None and self.session.is_subagent and self.rank != 2,
            copy_rank=self.rank,
        )
        self.out.requests.append(request)
        self.has_own_requests = self.has_own_requests or self.rank < 2
        self.turn_seen = moment
        self.is_answering = False
        self.open_calls = []
        self.compaction = None
        return request

    def _within(self, limit: int, part: int | None, what: str) -> int | None:
        if part is None or part <= limit:
            return part
        self.report.warn(f"record {self.row + 1}: {what} of {part} tokens in an input of {limit}; cut to the input")
        return limit

    def _next_seq(self) -> int:
        """The request that an item which enters now is first part of: not of the response that is being given."""
        return len(self.out.requests) + self.is_answering

    def _end_response(self) -> None:
        for call in self.open_calls:
            call.seq = None  # the response ended without a count
        self.open_calls = []
        self.is_answering = False

    def model_item(self, record: _Record, _payload: _Payload) -> None:
        """Something of the model's own: a response is being given."""
        if not self.is_answering:
            self.is_answering, self.answer_ts = True, record.timestamp

    # -- messages ---------------------------------------------------------------------------------------------------

    def message(self, record: _Record, payload: _Payload) -> None:
        """Instructions of the client, or a prompt; the model's own words are measured by its output tokens."""
        if payload.role == "assistant":
            self.model_item(record, payload)
            return
        seq = self._next_seq()
        before = len(self.out.context_events)
        labels = payload.internal_chat_message_metadata_passthrough
        pieces, typed, texts = codex_context.parts_of(payload.role, payload.content, labels)
        self._add(pieces, record, seq)
        self.last_injected = (texts, slice(before, len(self.out.context_events)))
        if typed:
            prompt = self._prompt(record, seq, sum(map(len, typed)))
            self.maybe_prompts.append((self.row, self.turn, prompt))

    def user_message(self, record: _Record, payload: _Payload) -> None:
        """What the person typed. It repeats the message right before, which so is no injected text."""
        text = codex_context.text_of(payload.message)
        texts, injected = self.last_injected
        if text and text in texts:
            del self.out.context_events[injected]
        self.last_injected = ([], slice(0))
        self.prompted_turns.add(self.turn)
        self.prompts.append((self.row, self._prompt(record, self._next_seq(), len(text or ""))))

    def _prompt(self, record: _Record, seq: int, chars: int) -> Prompt:
        is_agents = self.session is not None and self.session.is_subagent and self.rank != 2
        return Prompt(
            source_id=self.source_id,
            session_id=self.session_id,
            event_id=short_id(self.session_id, "prompt", self.row),
            seq=seq,
            ts=client.timestamp(record.timestamp),
            kind="agent" if is_agents else "typed",
            chars=chars,
        )

    def compacted(self, record: _Record, payload: _Payload) -> None:
        """The history is replaced: by a summary and by what is kept of it."""
        self.is_answering = False
        seq = self._next_seq()
        pieces = [codex_context.compacted(codex_context.text_of(payload.message))]
        try:
            kept = _ITEMS.decode(payload.replacement_history) if len(payload.replacement_history) else []
        except codex_context.UNFIT:
            kept = []
        for item in kept:
            if item.type == "message" and item.role != "assistant":
                labels = item.internal_chat_message_metadata_passthrough
                again, _, _ = codex_context.parts_of(item.role, item.content, labels)
                pieces += (replace(p, cause="compaction") if p.event == "loaded" else p for p in again)
        start = len(self.out.context_events)
        self._add(pieces, record, seq)
        self.compaction = self.out.context_events[start]

    def _add(self, pieces: Iterable[Piece], record: _Record, seq: int) -> None:
        moment = None
        for position, piece in enumerate(pieces):
            moment = moment or client.timestamp(record.timestamp)
            if piece.item_kind == "skill" and piece.path and piece.item:
                self.skill_names[piece.path] = piece.item
            self.has_agents = self.has_agents or piece.item_kind == "instruction"
            self.report.show(piece.sha256, piece.text)
            self.out.context_events.append(
                ContextEvent(
                    source_id=self.source_id,
                    session_id=self.session_id,
                    event_id=short_id(self.session_id, self.row, position),
                    seq=seq,
                    ts=moment,
                    event=piece.event,
                    cause=piece.cause,
                    item_kind=piece.item_kind,
                    item=piece.item,
                    path=piece.path,
                    chars=piece.chars,
                    sha256=piece.sha256,
                )
            )

    # -- tools ------------------------------------------------------------------------------------------------------

    def tool_call(self, record: _Record, payload: _Payload) -> None:
        """A call of any kind; its response is the one whose count comes next."""
        self.model_item(record, payload)
        kind = payload.type or ""
        call_id = payload.call_id or (str(payload.id) if payload.id is not None else self._unnamed_call())
        if call_id in self.calls:
            return
        raw = payload.arguments or payload.input or payload.action
        name = payload.name or kind.removesuffix("_call")
        text = codex_context.text_of(raw)
        target, command = codex_context.target_of(name, text, raw)
        tool = codex_context.full_name(payload.namespace, name)
        call = self._call(record, call_id, tool, target, codex_context.input_bytes(text, raw))
        if kind in _RUN_BY_VENDOR and (status := codex_context.text_of(payload.status)):
            call.outcome = "ok" if status in ("completed", "generating") else "error"
        if command and "SKILL.md" in command:
            self.commands[call_id] = command

    def _unnamed_call(self) -> str:
        turn = self.turn if self.is_turn_unique else self._thread()
        return short_id("call", turn, self.turn, len(self.out.tool_calls) - self.turn_calls)

    def _call(self, record: _Record, call_id: str, tool: str, target: str | None, size: int | None) -> ToolCall:
        mcp = retrieval.mcp_name(tool)
        call = ToolCall(
            source_id=self.source_id,
            session_id=self.session_id,
            call_id=call_id,
            seq=len(self.out.requests),
            ts=client.timestamp(record.timestamp),
            tool=tool,
            kind="mcp" if mcp else "agent" if tool == _AGENT_TOOL else "builtin",
            mcp_server=mcp[0] if mcp else None,
            mcp_tool=mcp[1] if mcp else None,
            target=target,
            input_bytes=size,
        )
        self.calls[call_id] = self.unanswered[call_id] = call
        self.open_calls.append(call)
        self.out.tool_calls.append(call)
        return call

    def tool_output(self, record: _Record, payload: _Payload) -> None:
        """A result: it is input of the request after the one that made the call, wherever its row stands."""
        call = self.calls.get(payload.call_id or "")
        if call is None:
            return
        self.unanswered.pop(call.call_id, None)
        raw = payload.output
        outcome, duration = codex_context.outcome_of(raw)
        if call.ended_at is None:
            call.result_chars, call.result_bytes = codex_context.size_of(raw)
            call.ended_at = client.timestamp(record.timestamp)
            if call.kind == "mcp":
                retrieval.note(call, codex_context.texts_of(raw))
        _settle(call, outcome)
        if call.duration_ms is None:
            call.duration_ms = duration
        command = self.commands.pop(call.call_id, None)
        if command is not None and call.outcome == "ok":
            self._add(self._skills_read(command, raw), record, self._seq_after(call))

    def _skills_read(self, command: str, raw: _Raw) -> Iterator[Piece]:
        files = codex_context.skill_files_read(command)
        # of several files in one result nobody can tell the sizes apart
        text = "".join(codex_context.texts_of(raw)) if len(files) == 1 else None
        for path, folder in files.items():
            digest = client.sha256(text) if text is not None else None
            name = self.skill_names.get(path, folder)
            yield Piece("loaded", "skill_body", name, None if text is None else len(text), digest, path, "read")

    def _seq_after(self, call: ToolCall) -> int:
        return len(self.out.requests) if call.seq is None else call.seq + 1

    def tools_found(self, record: _Record, payload: _Payload) -> None:
        """Tool definitions that came late, by a search of the model or by the client itself."""
        call = self.calls.get(payload.call_id or "")
        if payload.type == "additional_tools":
            self._add(codex_context.tools(payload.tools, "tool_definitions"), record, self._next_seq())
            return
        seq = self._next_seq() if call is None else self._seq_after(call)
        self._add(codex_context.tools(payload.tools, "loaded", "tool"), record, seq)
        if call is not None:
            call.ended_at = client.timestamp(record.timestamp)
            _settle(call, "ok")

    def mcp_end(self, record: _Record, payload: _Payload) -> None:
        """Server, tool, duration and outcome of an MCP call, in the client's own words."""
        try:
            made = msgspec.json.decode(payload.invocation, type=_Invocation)
        except codex_context.UNFIT:
            made = None
        call = self.calls.get(payload.call_id or "")
        if call is None:
            if made is None or payload.call_id is None:
                return
            call = self._nested_call(record, payload.call_id, made)
        if made is not None:
            call.kind, call.mcp_server, call.mcp_tool = "mcp", made.server, made.tool
        call.duration_ms = codex_context.milliseconds(payload.duration)
        try:
            result = msgspec.json.decode(payload.result, type=_Result)
        except codex_context.UNFIT:
            return
        if result.Ok and call.result_bytes is not None and call.result_handles is None:
            # The name is known only now; what the client sent is the whole result, if it is not shorter.
            texts = codex_context.texts_of(result.Ok.content)
            if sum(map(client.text_bytes, texts)) <= call.result_bytes:
                retrieval.note(call, texts)
        failed = len(result.Err) or (result.Ok and (result.Ok.isError or result.Ok.is_error))
        _settle(call, "error" if failed else "ok")

    def _nested_call(self, record: _Record, call_id: str, made: _Invocation) -> ToolCall:
        """A call that a program of the `exec` tool made: its result went to the program, not to the context."""
        programs = [call for call in self.out.tool_calls[-20:] if call.tool == "exec" and call.ended_at is None]
        call = self._call(record, call_id, f"mcp__{made.server}__{made.tool}", None, len(made.arguments) or None)
        call.ended_at = client.timestamp(record.timestamp)
        if programs:
            self.open_calls.pop()
            call.seq = programs[-1].seq
        return call

    def exec_end(self, _record: _Record, payload: _Payload) -> None:
        """Exit code and duration of a shell command, or success of a patch."""
        call = self.calls.get(payload.call_id or "")
        if call is None:
            return
        duration = codex_context.milliseconds(payload.duration)
        call.duration_ms = call.duration_ms if duration is None else duration
        if codex_context.text_of(payload.status) == "declined":
            call.outcome = "denied"
        elif payload.success is False or payload.exit_code not in (None, 0, "0"):
            _settle(call, "error")

    def item_completed(self, _record: _Record, payload: _Payload) -> None:
        """Start and end of a command (0.149 and later)."""
        start, end = payload.started_at_ms, payload.completed_at_ms
        if not isinstance(start, (int, float)) or not isinstance(end, (int, float)) or end < start:
            return
        try:
            item = msgspec.json.decode(payload.item, type=_Completed)
        except codex_context.UNFIT:
            return
        call = self.calls.get(item.id or "")
        if call is not None:
            call.duration_ms = codex_context.whole_ms(end - start)

    # -- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> Parsed:
        """The rows of the whole file."""
        if not self.recognised and not self.bare:
            if self.report.lines:
                raise UnknownFormatError("no row of a Codex rollout in it")
            return self.out
        if self.bare and not self.recognised:
            self.report.warn("a rollout from before September 2025: it records no tokens, so its requests are n/a")
        for call in self.out.tool_calls:
            if call.seq is not None and call.seq < len(self.out.requests):
                call.request_id = self.out.requests[call.seq].request_id
            else:
                call.seq = None
            if call.outcome is None:
                call.outcome = "pending"
        self._finish_prompts()
        session = self.session or Session(source_id=self.source_id, session_id=self.session_id, project=self.project)
        session.started_at = self.first_ts if session.started_at is None else session.started_at
        session.ended_at = session.started_at if self.last_ts is None else self.last_ts
        self.out.sessions.append(session)
        self.out.client_version = session.client_version
        return self.out

    def _finish_prompts(self) -> None:
        """Messages count as prompts in turns whose prompts have no event of their own."""
        rest = [(row, prompt) for row, turn, prompt in self.maybe_prompts if turn not in self.prompted_turns]
        self.out.prompts = [prompt for _, prompt in sorted([*self.prompts, *rest], key=lambda pair: pair[0])]


_Handler = Callable[[_Rollout, _Record, _Payload], None]
_ON_RECORD: dict[str, _Handler] = {
    "session_meta": _Rollout.meta,
    "turn_context": _Rollout.turn_context,
    "compacted": _Rollout.compacted,
    "token_usage_record": _Rollout.usage_record,
}
_ON_ITEM: dict[str, _Handler] = {
    "message": _Rollout.message,
    "reasoning": _Rollout.model_item,
    "function_call": _Rollout.tool_call,
    "custom_tool_call": _Rollout.tool_call,
    "local_shell_call": _Rollout.tool_call,
    "web_search_call": _Rollout.tool_call,
    "image_generation_call": _Rollout.tool_call,
    "tool_search_call": _Rollout.tool_call,
    "function_call_output": _Rollout.tool_output,
    "custom_tool_call_output": _Rollout.tool_output,
    "tool_search_output": _Rollout.tools_found,
    "additional_tools": _Rollout.tools_found,
}
_ON_EVENT: dict[str, _Handler] = {
    "token_count": _Rollout.token_count,
    "user_message": _Rollout.user_message,
    "task_started": _Rollout.turn_started,
    "turn_started": _Rollout.turn_started,
    "turn_aborted": _Rollout.turn_aborted,
    "thread_name_updated": _Rollout.thread_name,
    "mcp_tool_call_end": _Rollout.mcp_end,
    "exec_command_end": _Rollout.exec_end,
    "patch_apply_end": _Rollout.exec_end,
    "item_completed": _Rollout.item_completed,
}


def _origin(payload: _Payload, identity: str) -> tuple[str | None, bool, str | None]:
    """Parent, whether it is a subagent, and of what type."""
    try:
        source = msgspec.json.decode(payload.source) if len(payload.source) else None
    except codex_context.UNFIT:
        source = None
    subagent = source.get("subagent") if isinstance(source, dict) else None
    if subagent is None and codex_context.text_of(payload.thread_source) != "subagent":
        return payload.forked_from_id, False, None
    kind, detail = subagent, None
    if isinstance(subagent, dict):
        kind, detail = next(iter(subagent.items()), (None, None))
    spawn = detail if isinstance(detail, dict) else {}
    root = payload.session_id if payload.session_id != identity else None
    parent = payload.parent_thread_id or spawn.get("parent_thread_id") or payload.forked_from_id or root
    role = payload.agent_role or spawn.get("agent_role")
    if kind == "other" and isinstance(detail, str):
        kind = detail
    agent = role or (kind if kind != "thread_spawn" else None)
    return (str(parent) if parent else None), True, (agent if isinstance(agent, str) else None)


def _explains(last: _Counts, before: _Counts, total: _Counts) -> bool:
    """Whether a response's own count is what the running total grew by."""
    return (
        (total.whole or 0) - (before.whole or 0) == (last.whole or 0)
        and (total.cached or 0) - (before.cached or 0) == (last.cached or 0)
        and (total.output or 0) - (before.output or 0) == (last.output or 0)
        and (total.written or 0) - (before.written or 0) == (last.written or 0)
    )


def _uuid_time(identity: str) -> int | None:
    """Microseconds since 1970 that a UUID of version 7 was made at."""
    return int(identity[:8] + identity[9:13], 16) * 1000 if identity[14] == "7" else None


def _settle(call: ToolCall, outcome: str) -> None:
    """The first bad news about a call stays."""
    if call.outcome in (None, "ok", "interrupted"):
        call.outcome = outcome


CLIENT = Codex()
