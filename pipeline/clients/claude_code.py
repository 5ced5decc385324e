"""Claude Code: one JSON Lines file a conversation, below ~/.claude/projects/<slug>/, a subagent's in a file of its own.

Where files lie, what makes a request unique and what is not recorded: docs/clients/claude-code.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import msgspec

from pipeline import claude_items, client, retrieval
from pipeline.claude_context import (
    INTERRUPTED,
    UNREADABLE,
    Block,
    Context,
    File,
    Iteration,
    Message,
    Number,
    Part,
    Row,
    Sidecar,
    Split,
    Usage,
)
from pipeline.client import MOST_TOKENS, Home, Parsed, Report, Source, Support, count, timestamp
from pipeline.config import ConfigFiles, Found
from pipeline.errors import UnknownFormatError
from pipeline.jsonl import read_rows
from pipeline.schema import Request, Session, ToolCall

SYNTHETIC = "<synthetic>"  # model of rows that the client writes itself
FINAL_OUTPUT_SINCE = (2, 1, 98)  # before, a response whose rows have no stop reason holds only a placeholder
_REJECTIONS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "The agent proposed a plan that was rejected by the user",
    "Permission to use ",
)
# The first word of a shell command behind its assignments. Where an assignment's value is more than a plain word or
# a quoted text, nothing matches: part of a secret must never pass for the command's name.
_FIRST_WORD = re.compile(
    r"\s*(?:[A-Za-z_]\w*=(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[\w./:@%+,~-]*)\s+)*(?P<word>[\w./~+@%:-]{1,200})(?=[\s;|&<>)]|$)"
)
_SIDE_ROWS = frozenset(
    {
        "agent-color", "agent-name", "agent-setting", "ai-title", "atis-latch", "bridge-session", "content-replacement",
        "cost-state", "custom-title", "file-history-delta", "file-history-snapshot", "fork-context-ref", "frame-link",
        "history-suppression", "last-prompt", "mode", "permission-mode", "pr-link", "queue-operation", "relocated",
        "saved_hook_context", "summary", "worktree-state",
    }
)  # fmt: skip
_TITLES = {"custom-title": 3, "ai-title": 2, "agent-name": 1, "summary": 1}  # the higher one wins, then the later one
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = 1 << 63  # a time later than any


class _Progress(msgspec.Struct, gc=False, rename="camel"):
    """A progress row's data. One of an agent may embed a whole row of that agent."""

    type: str | None = None
    agent_id: str | None = None
    message: Row | None = None


class _Input(msgspec.Struct, gc=False):
    """The few arguments of a tool that may be named: never contents, never a whole command."""

    file_path: object = None
    path: object = None
    notebook_path: object = None
    url: object = None
    command: object = None
    skill: object = None
    name: object = None


class _AgentInput(msgspec.Struct, gc=False):
    subagent_type: object = None
    prompt: object = None


class _AgentMeta(msgspec.Struct, gc=False, rename="camel"):
    agent_type: str | None = None


_ROWS = msgspec.json.Decoder(Row)
_PROGRESS = msgspec.json.Decoder(_Progress)
_INPUT = msgspec.json.Decoder(_Input)
_AGENT_INPUT = msgspec.json.Decoder(_AgentInput)
_AGENT_META = msgspec.json.Decoder(_AgentMeta)


class _Response(msgspec.Struct, gc=False):
    """One response, gathered from its rows."""

    request_id: str
    response_id: str | None
    ts: int | None
    order: int
    cwd: str | None
    version: str | None
    model: str | None
    copy_rank: int
    is_error: bool
    usage: Usage | None = None
    output: float = -2
    stop_reason: str | None = None
    reported_usd: float | None = None
    duration_ms: int | None = None
    calls: list[ToolCall] | None = None


class _Session:
    """A conversation while its rows come in: the main one of the file, or one of its subagents."""

    __slots__ = (
        "agent", "context", "cwd", "first_ts", "git_branch", "has_rows", "is_in_order", "is_subagent", "last_ts",
        "latest", "loose_calls", "open_calls", "responses", "suffix", "version",
    )  # fmt: skip

    def __init__(self, file: File, suffix: str, is_subagent: bool) -> None:
        self.suffix = suffix  # what follows the root session's id in this one's
        self.is_subagent = is_subagent
        self.context = Context(file, is_subagent)
        self.has_rows = False
        self.agent: str | None = None
        self.cwd: str | None = None
        self.git_branch: str | None = None
        self.version: str | None = None
        self.first_ts = _NEVER
        self.last_ts = -_NEVER
        self.responses: list[_Response] = []
        self.latest = -_NEVER
        self.is_in_order = True
        self.open_calls: dict[str, ToolCall] = {}
        self.loose_calls: list[ToolCall] = []  # of no response

    def touch(self, row: Row, ts: int | None) -> None:
        """Learn from a row what its envelope says."""
        self.has_rows = True
        if ts is not None:
            if ts > self.last_ts:  # noqa: PLR1730 - max() takes three times as long, once a row
                self.last_ts = ts
            if ts < self.first_ts:  # noqa: PLR1730
                self.first_ts = ts
        if row.version != self.version:
            self.version = _newer(self.version, row.version)
        if self.cwd is None:
            self.cwd = row.cwd
        if self.git_branch is None:
            self.git_branch = row.git_branch


class _Transcript:
    """One file, read row by row."""

    def __init__(self, source: Source, report: Report) -> None:
        self.path = source.path
        self.report = report
        self.file = File(source.source_id, report)
        self.own_agent = source.path.stem[6:] if source.path.name.startswith("agent-") else None
        suffix = "" if self.own_agent is None else f"/agent-{self.own_agent}"
        self.main = _Session(self.file, suffix, self.own_agent is not None)
        self.agents: dict[str, _Session] = {}
        self.chains: dict[str, _Session] = {}  # old sidechains, whose rows name no agent, by row
        self.sidechains: list[_Session] = []
        self.session_ids: dict[str, None] = {}
        self.responses: dict[str, _Response] = {}
        self.calls: set[str] = set()
        self.agent_calls: dict[str, str] = {}  # type of subagent by call
        self.titles: dict[int, str] = {}
        self.reported_usd: float | None = None
        self.clock = -_NEVER  # time of the last row that has one
        self.is_known = False
        self.is_conversing = False
        self.has_side_rows = False  # since the conversation began
        self.has_warned_of_identity = False

    def read(self, stream: BinaryIO) -> None:
        file, main = self.file, self.main
        for rows in read_rows(stream, _ROWS, self.report):
            for row in rows:
                file.rows += 1
                try:  # the usual form without the calls that the others need
                    ts = (datetime.fromisoformat(row.timestamp) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]
                except (TypeError, ValueError):
                    ts = timestamp(row.timestamp)  # type: ignore[assignment]
                if ts is not None:
                    self.clock = ts
                if row.session_id not in self.session_ids and row.session_id is not None:
                    self.session_ids[row.session_id] = None
                kind = row.type
                session = main if not row.is_sidechain or self.own_agent is not None else self._sidechain(row)
                if kind == "assistant":
                    session.touch(row, ts)
                    self._assistant(session, row, ts)
                elif kind == "user":
                    session.touch(row, ts)
                    self._user(session, row, ts)
                else:
                    self._other(session, row, ts)
                if not self.is_known:
                    self._recognise(row)

    def _other(self, session: _Session, row: Row, ts: int | None) -> None:
        kind = row.type
        if kind not in {"attachment", "system", "progress"}:
            self._side_row(row, ts)
            return
        self.is_conversing = True
        session.touch(row, ts)
        if kind == "attachment":
            session.context.attachment(row, ts)
        elif kind == "system":
            session.context.system(row, ts)
        elif b'"agent_progress"' in bytes(row.data):
            self._progress(row)

    def _side_row(self, row: Row, ts: int | None) -> None:
        """Rows beside the conversation: titles, snapshots, the client's own notes."""
        if row.uuid is None and self.is_conversing:
            self.has_side_rows = True
        if ts is not None:
            self.main.first_ts, self.main.last_ts = min(ts, self.main.first_ts), max(ts, self.main.last_ts)
        if row.type in _TITLES:
            title = row.custom_title or row.ai_title or row.summary or row.agent_name
            if title:
                self.titles[_TITLES[row.type]] = title
        elif row.type == "cost-state" and row.total_cost_usd is not None:
            self.reported_usd = client.amount(row.total_cost_usd)

    def _recognise(self, row: Row) -> None:
        """Is this a row of Claude Code's? Other clients write rows of type `user` too, without these fields."""
        message = row.message
        self.is_known = (
            row.is_sidechain is not None
            or row.type in _SIDE_ROWS
            or bool(row.type == "attachment" and row.attachment)
            or (message is not None and (message.content is not None or message.usage is not None))
        )

    # --- which session a row belongs to

    def _sidechain(self, row: Row) -> _Session:
        if row.agent_id:
            return self._agent(row.agent_id)
        session = self.chains.get(row.parent_uuid or "")
        if session is None:
            session = _Session(self.file, f"/sidechain-{row.uuid or f'row{self.file.rows}'}", is_subagent=True)
            self.sidechains.append(session)
        if row.uuid:
            self.chains[row.uuid] = session
        return session

    def _agent(self, agent_id: str) -> _Session:
        if agent_id == self.own_agent:
            return self.main
        session = self.agents.get(agent_id)
        if session is None:
            session = self.agents[agent_id] = _Session(self.file, f"/agent-{agent_id}", is_subagent=True)
        return session

    def _progress(self, row: Row) -> None:
        """Old progress rows may embed a row of a subagent: the same response as in its file, or its only copy."""
        try:
            progress = _PROGRESS.decode(row.data)
        except UNREADABLE:
            self.report.warn(f"record {self.file.rows}: an agent's progress is not of the expected form; not counted")
            return
        inner = progress.message
        if inner is None or inner.message is None or not progress.agent_id:
            return  # it only says that the agent goes on
        session = self._agent(progress.agent_id)
        inner.cwd, inner.version = inner.cwd or row.cwd, inner.version or row.version
        inner.git_branch = inner.git_branch or row.git_branch
        ts = timestamp(inner.timestamp)
        session.touch(inner, ts)
        if inner.type == "assistant":
            self._assistant(session, inner, ts)
        elif inner.type == "user" and type(inner.message.content) is list:
            for block in inner.message.content:
                if block.type == "tool_result":
                    self._result(session, inner, block, ts)

    # --- responses, tool calls and their results

    def _assistant(self, session: _Session, row: Row, ts: int | None) -> None:
        self.is_conversing = True
        message = row.message
        if message is None:
            return
        response = self._response(session, row, message, ts)
        if type(message.content) is list:
            for block in message.content:
                kind = block.type
                if kind == "tool_use" or kind == "server_tool_use":  # noqa: PLR1714 - quicker than a set
                    self._call(session, response, block, ts)
                elif block.tool_use_id is not None:
                    self._result(session, row, block, ts)

    def _response(self, session: _Session, row: Row, message: Message, ts: int | None) -> _Response | None:
        """The response that a row belongs to, brought up to date; None for what the client wrote itself."""
        usage = message.usage
        if message.model == SYNTHETIC or (row.is_api_error_message and _is_zero(usage)):
            return None
        if usage is None and not message.id and not row.request_id:
            return None  # nothing says that there was a response
        key = f"{message.id}:{row.request_id}" if message.id and row.request_id else self._identity(row, message)
        response = self.responses.get(key)
        if response is None:
            response = self.responses[key] = self._begin(session, key, row, message, ts)
        if usage is not None:
            output = usage.output_tokens
            size = output if type(output) is int and 0 <= output <= MOST_TOKENS else _loose(output)
            if size >= response.output:
                response.usage, response.output = usage, size
        if message.stop_reason:
            response.stop_reason = message.stop_reason
        if row.cost_usd is not None:
            response.reported_usd = _largest(response.reported_usd, client.amount(row.cost_usd))
        if row.duration_ms is not None:
            response.duration_ms = count(row.duration_ms, self.report, f"durationMs of {key}")
        return response

    def _identity(self, row: Row, message: Message) -> str:
        """The identity of a response that lacks one of the two ids."""
        if message.id or row.request_id:
            return message.id or row.request_id or ""
        if not self.has_warned_of_identity:
            self.has_warned_of_identity = True
            self.report.warn(f"record {self.file.rows}: a response without an id; it is counted by its row")
        return row.uuid or f"{self.path.stem}/row{self.file.rows}"

    def _begin(self, session: _Session, key: str, row: Row, message: Message, ts: int | None) -> _Response:
        order = self.clock if ts is None else ts
        rank = 2 if row.session_kind == "bg" else 0 if self.has_side_rows else 1
        response = _Response(
            key,
            message.id or None,
            ts,
            order,
            row.cwd,
            row.version,
            message.model,
            rank,
            bool(row.is_api_error_message),
        )
        session.responses.append(response)
        session.context.begun += 1
        session.context.command = None
        if order < session.latest:
            session.is_in_order = False
        session.latest = order
        if session.agent is None:
            session.agent = row.attribution_agent
        return response

    def _call(self, session: _Session, response: _Response | None, block: Block, ts: int | None) -> None:
        call_id = block.id
        if not call_id or call_id in self.calls:
            return
        self.calls.add(call_id)
        tool = block.name or ""
        kind, server, mcp_tool = _tool_kind(tool)
        call = ToolCall(
            source_id=self.file.source_id,
            call_id=call_id,
            ts=ts,
            tool=tool,
            kind=kind,
            mcp_server=server,
            mcp_tool=mcp_tool,
        )
        if block.input:
            call.input_bytes = len(block.input)
            self._name_arguments(call, block.input)
        session.open_calls[call_id] = call
        if kind == "skill":
            session.context.skill_calls[call_id] = call
        if response is None:
            session.loose_calls.append(call)
        elif response.calls is None:
            response.calls = [call]
        else:
            response.calls.append(call)

    def _name_arguments(self, call: ToolCall, given: msgspec.Raw) -> None:
        """Name what a call is about, where its arguments have one of the known forms."""
        try:
            if call.kind == "agent":
                self._name_agent(call, _AGENT_INPUT.decode(given))
                return
            arguments = _INPUT.decode(given)
        except UNREADABLE:
            return  # arguments of another form name nothing; their size is known all the same
        if call.kind == "skill":
            call.skill = _skill(arguments)
        else:
            call.target = _target(arguments)

    def _name_agent(self, call: ToolCall, arguments: _AgentInput) -> None:
        if isinstance(arguments.subagent_type, str):
            self.agent_calls[call.call_id] = arguments.subagent_type
            if isinstance(arguments.prompt, str):
                self.file.agent_types[arguments.prompt] = arguments.subagent_type

    def _result(self, session: _Session, row: Row, block: Block, ts: int | None) -> None:
        call = session.open_calls.pop(block.tool_use_id or "", None)
        if call is None:
            return  # written twice, or of a call in another file
        content = block.content
        text = content if type(content) is str else None
        texts: tuple[str, ...] = () if text is None else (text,)
        if type(content) is list:
            texts = tuple(part.text for part in content if part.text is not None and part.type == "text")
            text = "".join(texts) if texts else None
            session.context.result_parts(row, ts, content)
        if text is not None:
            call.result_chars = len(text)
            call.result_bytes = client.text_bytes(text)
        call.ended_at = ts
        call.outcome = _outcome(row, block, text)
        if call.kind == "mcp":
            retrieval.note(call, texts)
        sidecar = row.tool_use_result
        if type(sidecar) is Sidecar:
            if call.kind != "mcp":  # there the sidecar is the server's own
                call.duration_ms = _duration(sidecar)
            if call.kind == "agent":
                self._started(call, sidecar)
        if (
            call.tool == "Read"
            and text is not None
            and call.outcome == "ok"
            and (call.target or "").endswith("SKILL.md")
        ):
            session.context.read_file(row, ts, call.target, text)

    def _started(self, call: ToolCall, sidecar: Sidecar) -> None:
        """Remember the type of the subagent that a call started."""
        kind = sidecar.agent_type if isinstance(sidecar.agent_type, str) else self.agent_calls.get(call.call_id)
        if kind and isinstance(sidecar.agent_id, str):
            self.file.agent_types[sidecar.agent_id] = kind

    def _user(self, session: _Session, row: Row, ts: int | None) -> None:
        self.is_conversing = True
        message = row.message
        if message is None:
            return
        content = message.content
        has_result = False
        if type(content) is list:
            for block in content:
                if block.type == "tool_result":
                    self._result(session, row, block, ts)
                    has_result = True
        if not has_result and session.context.user(row, ts, content):
            for call in session.open_calls.values():
                call.outcome = "interrupted"

    # --- the end of the file

    def finish(self) -> Parsed:
        parsed = Parsed()
        root = self._root_id()
        if self.own_agent is not None:
            self.main.agent = self._agent_type() or self.main.agent
        for agent_id, session in self.agents.items():
            session.agent = session.agent or self.file.agent_types.get(agent_id)
        for session in (self.main, *self.agents.values(), *self.sidechains):
            if session.has_rows:
                self._finish_session(parsed, session, root)
                parsed.client_version = _newer(parsed.client_version, session.version)
        return parsed

    def _root_id(self) -> str:
        """The session whose conversation the file holds, or that started the subagent whose file it is."""
        stem, folders = self.path.stem, self.path.parts[:-1]
        if self.own_agent is None and stem in self.session_ids:
            return stem
        if self.session_ids:
            return next(iter(self.session_ids))
        if self.own_agent is not None and "subagents" in folders[1:]:
            return folders[len(folders) - folders[::-1].index("subagents") - 2]
        return stem

    def _agent_type(self) -> str | None:
        try:
            with open(self.path.with_suffix(".meta.json"), "rb") as file:
                return _AGENT_META.decode(file.read(1 << 20)).agent_type
        except (OSError, ValueError, *UNREADABLE):
            return None  # older versions write none

    def _finish_session(self, parsed: Parsed, session: _Session, root: str) -> None:
        is_main = session is self.main and not session.is_subagent
        session_id = root + session.suffix
        project = client.fold_project(session.cwd) if session.cwd else None
        row = Session(
            source_id=self.file.source_id,
            session_id=session_id,
            parent_session_id=root if session.is_subagent else None,
            is_subagent=session.is_subagent,
            agent=session.agent or session.context.agent if session.is_subagent else None,
            project=project,
            repo_root=client.repo_root(project) if project else None,
            git_branch=session.git_branch,
            title=self.titles[max(self.titles)] if self.titles and is_main else None,
            started_at=session.first_ts if session.first_ts < _NEVER else None,
            ended_at=session.last_ts if session.first_ts < _NEVER else None,
            client_version=session.version,
            reported_usd=self.reported_usd if is_main else None,
        )
        parsed.sessions.append(row)
        seq_of = self._finish_requests(parsed, session, row)
        for call in session.loose_calls:
            _finish_call(parsed, call, session_id)
        prompts, events = session.context.finish(session_id, seq_of)
        parsed.prompts += prompts
        parsed.context_events += events

    def _finish_requests(self, parsed: Parsed, session: _Session, of: Session) -> list[int]:
        """Write a session's requests in order of time; returns the seq of each place in the file, the end included."""
        responses = session.responses
        places = list(range(len(responses)))
        if not session.is_in_order:
            places.sort(key=lambda place: responses[place].order)
        seq_of = [*places, len(places)]
        requests = Requests(self.file.source_id, self.report, of)
        for seq, place in enumerate(places):
            seq_of[place] = seq
            response = responses[place]
            parsed.requests.append(requests.request(response, seq))
            for call in response.calls or ():
                call.request_id, call.seq = response.request_id, seq
                _finish_call(parsed, call, of.session_id)
        if requests.advisors:
            parsed.sessions.append(_advisor_session(of, requests.advisors))
            parsed.requests += requests.advisors
        return seq_of


def _finish_call(parsed: Parsed, call: ToolCall, session_id: str | None) -> None:
    call.session_id = session_id
    if call.outcome is None:
        call.outcome = "pending"
    parsed.tool_calls.append(call)


class Requests:
    """Turns the responses of one session into requests."""

    def __init__(self, source_id: str, report: Report, session: Session) -> None:
        self.source_id = source_id
        self.report = report
        self.session_id = session.session_id
        self.is_subagent = session.is_subagent
        self.advisors: list[Request] = []

    def request(self, response: _Response, seq: int) -> Request:
        usage = response.usage or Usage()
        fresh = self._count(usage.input_tokens, response, "input_tokens")
        output = self._count(usage.output_tokens, response, "output_tokens")
        read = self._count(usage.cache_read_input_tokens, response, "cache_read_input_tokens")
        write, write_5m, write_1h = self._cache_writes(response, usage)
        context = None if fresh is None else fresh + (read or 0) + (write or 0)  # a part that is not recorded adds none
        request = Request(
            source_id=self.source_id,
            session_id=self.session_id,
            request_id=response.request_id,
            response_id=response.response_id,
            seq=seq,
            ts=response.ts,
            project=client.fold_project(response.cwd) if response.cwd else None,
            model=response.model,
            input_tokens=fresh,
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=write,
            cache_write_5m_tokens=write_5m,
            cache_write_1h_tokens=write_1h,
            context_tokens=context,
            reported_usd=response.reported_usd,
            service_tier=_recorded(usage.service_tier),
            speed=_recorded(usage.speed),
            inference_geo=_recorded(usage.inference_geo),
            stop_reason=response.stop_reason,
            is_subagent=self.is_subagent,
            is_error=response.is_error,
            is_output_partial=response.stop_reason is None and output is not None and _is_placeholder(response.version),
            duration_ms=response.duration_ms,
            copy_rank=response.copy_rank,
        )
        if usage.server_tool_use is not None:
            searches = usage.server_tool_use.web_search_requests
            request.web_search_requests = self._count(searches, response, "web_search_requests")
        if usage.output_tokens_details is not None:
            thinking = usage.output_tokens_details.thinking_tokens
            request.reasoning_tokens = self._count(thinking, response, "thinking_tokens")
        if usage.iterations and (len(usage.iterations) > 1 or usage.iterations[0].type == "advisor_message"):
            self._inner_calls(request, response, usage.iterations)
        return request

    def _count(self, value: Number, response: _Response, name: str) -> int | None:
        if value is None or (type(value) is int and 0 <= value <= MOST_TOKENS):
            return value
        return count(value, self.report, f"{name} of {response.request_id}")

    def _cache_writes(self, response: _Response, usage: Usage) -> tuple[int | None, int | None, int | None]:
        """Tokens written to the cache, and the parts that live 5 minutes and 1 hour where the split is sound."""
        flat = self._count(usage.cache_creation_input_tokens, response, "cache_creation_input_tokens")
        if usage.cache_creation is None:
            return flat, None, None
        short, long = self._split(response, usage.cache_creation)
        if short is None and long is None:
            return flat, None, None
        parts = (short or 0) + (long or 0)
        if flat is None or parts >= flat:  # before 2.1.152 the total may be 0 while the split holds the tokens
            return parts, short, long
        if usage.iterations:  # the split may be that of the last inner call alone
            inner = [call.cache_creation for call in usage.iterations if call.type != "advisor_message"]
            splits = [self._split(response, split) for split in inner if split is not None]
            short, long = sum(part or 0 for part, _ in splits), sum(part or 0 for _, part in splits)
            if short + long == flat:
                return flat, short, long
        self.report.warn(f"cache writes of {response.request_id}: 5m + 1h is not the total; their life is not recorded")
        return flat, None, None

    def _split(self, response: _Response, split: Split) -> tuple[int | None, int | None]:
        return (
            self._count(split.ephemeral_5m_input_tokens, response, "ephemeral_5m_input_tokens"),
            self._count(split.ephemeral_1h_input_tokens, response, "ephemeral_1h_input_tokens"),
        )

    def _inner_calls(self, request: Request, response: _Response, iterations: list[Iteration]) -> None:
        """A record may sum several inner calls: its context is that of the last one.

        Calls of an advisor model are not in the sum; each is a request of its own.
        """
        own = [call for call in iterations if call.type == "message"]
        if len(own) > 1:
            request.context_tokens = self.request(_inner(request, "", own[-1]), 0).context_tokens
        advice = [call for call in iterations if call.type == "advisor_message"]
        if not advice:
            return
        advisor = Session(source_id=self.source_id, session_id=f"{self.session_id}/advisor", is_subagent=True)
        requests = Requests(self.source_id, self.report, advisor)
        for number, call in enumerate(advice):
            answer = requests.request(_inner(request, f"#advisor{number}", call), len(self.advisors))
            answer.project = request.project
            self.advisors.append(answer)


def _inner(request: Request, suffix: str, call: Iteration) -> _Response:
    usage = Usage(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cache_creation_input_tokens=call.cache_creation_input_tokens,
        cache_read_input_tokens=call.cache_read_input_tokens,
        cache_creation=call.cache_creation,
    )
    identity = request.request_id + suffix
    return _Response(
        identity, None, request.ts, 0, None, None, call.model, request.copy_rank, is_error=False, usage=usage
    )


def _advisor_session(of: Session, advisors: list[Request]) -> Session:
    times = [request.ts for request in advisors if request.ts is not None]
    return Session(
        source_id=of.source_id,
        session_id=f"{of.session_id}/advisor",
        parent_session_id=of.session_id,
        is_subagent=True,
        agent="advisor",
        project=of.project,
        repo_root=of.repo_root,
        git_branch=of.git_branch,
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        client_version=of.client_version,
    )


def _is_zero(usage: Usage | None) -> bool:
    return usage is None or not any(
        _loose(value) > 0
        for value in (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
        )
    )


def _loose(value: Number) -> float:
    """A count for comparing only; what is none comes last."""
    if value is None:
        return -1
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return -1
    return number if 0 <= number <= MOST_TOKENS else -1


def _largest(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def _recorded(text: str | None) -> str | None:
    return text if text and text != "not_available" else None


@lru_cache(maxsize=1024)
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d{1,9}", version)[:4])


@lru_cache(maxsize=1024)
def _newer(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    return other if _numbers(other) > _numbers(one) else one


def _is_placeholder(version: str | None) -> bool:
    return version is not None and () < _numbers(version) < FINAL_OUTPUT_SINCE


@lru_cache(maxsize=4096)
def _tool_kind(tool: str) -> tuple[str, str | None, str | None]:
    named = retrieval.mcp_name(tool)
    if named is not None:
        return "mcp", *named
    return {"Skill": "skill", "Agent": "agent", "Task": "agent"}.get(tool, "builtin"), None, None


def _skill(arguments: _Input) -> str | None:
    """The name of the skill that a call asks for; older versions wrote it as a command, with a slash and arguments."""
    for name in (arguments.skill, arguments.command, arguments.name):
        words = name.strip().lstrip("/").split() if isinstance(name, str) else []
        if words:
            return words[0]
    return None


def _target(arguments: _Input) -> str | None:
    for path in (arguments.file_path, arguments.notebook_path, arguments.path):
        if isinstance(path, str) and path:
            return path
    if isinstance(arguments.url, str):
        try:
            return urlsplit(arguments.url).hostname
        except ValueError:
            return None  # no URL
    return _first_word(arguments.command) if isinstance(arguments.command, str) else None


def _first_word(command: str) -> str | None:
    found = _FIRST_WORD.match(command)
    return found["word"] if found else None


def _outcome(row: Row, block: Block, text: str | None) -> str:
    said, sidecar = text or "", row.tool_use_result
    if row.tool_denial_kind or (block.is_error and said.startswith(_REJECTIONS)):
        return "denied"
    if said.startswith(INTERRUPTED) or (type(sidecar) is Sidecar and sidecar.interrupted is True):
        return "interrupted"
    if block.is_error or said.startswith("<tool_use_error>"):
        return "error"
    if type(block.content) is Part and (block.content.type or "").endswith("_error"):
        return "error"
    return "ok"


def _duration(sidecar: Sidecar) -> int | None:
    """The duration that the client measured, in milliseconds; a clock that jumped gives none."""
    for value, scale in ((sidecar.duration_ms, 1), (sidecar.total_duration_ms, 1), (sidecar.duration_seconds, 1000)):
        if value is not None and type(value) in {int, float} and 0 <= value < 1e12:  # type: ignore[operator]
            return round(value * scale)  # type: ignore[operator]
    return None


class ClaudeCode:
    """The client. Its files are append-only, but a fork copies the rows of another file into a new one."""

    name = "claude-code"
    parser_version = 2
    config_variables = claude_items.VARIABLES
    supports: Mapping[str, Support] = {
        "sessions.session_id": "measured",
        "sessions.parent_session_id": "measured",
        "sessions.is_subagent": "measured",
        "sessions.agent": "measured",
        "sessions.project": "measured",
        "sessions.repo_root": "measured",
        "sessions.git_branch": "measured",
        "sessions.title": "measured",
        "sessions.started_at": "measured",
        "sessions.ended_at": "measured",
        "sessions.client_version": "measured",
        "sessions.reported_usd": "measured",
        "requests.session_id": "measured",
        "requests.request_id": "measured",
        "requests.seq": "measured",
        "requests.response_id": "measured",
        "requests.ts": "measured",
        "requests.project": "measured",
        "requests.n_requests": "measured",
        "requests.model": "measured",
        "requests.provider": "absent",
        "requests.input_tokens": "measured",
        "requests.output_tokens": "measured",
        "requests.cache_read_tokens": "measured",
        "requests.cache_write_tokens": "measured",
        "requests.cache_write_5m_tokens": "measured",
        "requests.cache_write_1h_tokens": "measured",
        "requests.reasoning_tokens": "measured",
        "requests.context_tokens": "measured",
        "requests.reported_usd": "measured",
        "requests.service_tier": "measured",
        "requests.speed": "measured",
        "requests.inference_geo": "measured",
        "requests.web_search_requests": "measured",
        "requests.premium_requests": "absent",
        "requests.stop_reason": "measured",
        "requests.is_subagent": "measured",
        "requests.is_error": "measured",
        "requests.is_output_partial": "measured",
        "requests.duration_ms": "measured",
        "requests.copy_rank": "measured",
        "tool_calls.session_id": "measured",
        "tool_calls.call_id": "measured",
        "tool_calls.request_id": "measured",
        "tool_calls.seq": "measured",
        "tool_calls.ts": "measured",
        "tool_calls.tool": "measured",
        "tool_calls.kind": "measured",
        "tool_calls.mcp_server": "measured",
        "tool_calls.mcp_tool": "measured",
        "tool_calls.skill": "measured",
        "tool_calls.target": "measured",
        "tool_calls.input_bytes": "measured",
        "tool_calls.result_bytes": "measured",
        "tool_calls.result_chars": "measured",
        "tool_calls.outcome": "measured",
        "tool_calls.ended_at": "measured",
        "tool_calls.duration_ms": "measured",
        "tool_calls.result_paths": "measured",
        "tool_calls.result_handles": "measured",
        "prompts.session_id": "measured",
        "prompts.event_id": "measured",
        "prompts.seq": "measured",
        "prompts.ts": "measured",
        "prompts.kind": "measured",
        "prompts.chars": "measured",
        "context_events.session_id": "measured",
        "context_events.event_id": "measured",
        "context_events.seq": "measured",
        "context_events.ts": "measured",
        "context_events.event": "measured",
        "context_events.cause": "measured",
        "context_events.item_kind": "measured",
        "context_events.item": "measured",
        "context_events.path": "measured",
        "context_events.chars": "measured",
        "context_events.sha256": "measured",
        "context_events.reported_tokens": "measured",
    }

    def discover(self, home: Home) -> Iterator[Path]:
        for root in _roots(home):
            for path in client.walk(root, (".jsonl",), home.unreadable):
                if path.name != "journal.jsonl" and "tool-results" not in path.parts:
                    yield path
        for root in _desktop_roots(home):
            for path in client.walk(root, (".jsonl",), home.unreadable):
                if path.name != "journal.jsonl" and ".claude" in path.parts and "tool-results" not in path.parts:
                    yield path

    def items(self, home: Home, projects: Iterable[str], config: ConfigFiles) -> Iterator[Found]:
        return claude_items.read(home, [root.parent for root in _roots(home)], projects, config)

    def parse(self, source: Source, stream: BinaryIO, report: Report) -> Parsed:
        transcript = _Transcript(source, report)
        transcript.read(stream)
        if report.lines and not transcript.is_known:
            raise UnknownFormatError(f"{source.path} is no transcript of Claude Code", path=source.path)
        return transcript.finish()


def _roots(home: Home) -> Iterator[Path]:
    """The `projects` folders, each once. A folder that a variable names may be one itself."""
    folders = home.roots("CLAUDE_CONFIG_DIR", ".claude", ".config/claude")
    if not home.environ.get("CLAUDE_CONFIG_DIR") and home.environ.get("XDG_CONFIG_HOME"):
        folders.append(Path(home.environ["XDG_CONFIG_HOME"]) / "claude")
    seen = set()
    for folder in folders:
        root = folder if folder.name == "projects" else folder / "projects"
        real = os.path.realpath(root)
        if real not in seen:
            seen.add(real)
            yield root


def _desktop_roots(home: Home) -> Iterator[Path]:
    """Where the desktop app keeps the sessions that its agent mode runs."""
    roaming = Path(home.environ.get("APPDATA") or home.path / "AppData/Roaming")
    local = Path(home.environ.get("LOCALAPPDATA") or home.path / "AppData/Local")
    packaged = sorted((local / "Packages").glob("Claude_*/LocalCache/Roaming"))
    for folder in (home.path / "Library/Application Support", home.path / ".config", roaming, *packaged):
        yield folder / "Claude/local-agent-mode-sessions"


CLIENT = ClaudeCode()
