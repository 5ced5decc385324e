"""The records of a Claude Code transcript, and what they put into the context or take out of it.

Prompts, skill bodies and the client's own words stand in rows of the user; listings (skills, agents, tools, MCP
instructions) come as attachments from about 2.1.90 on, from about 2.1.267 on with the very text that was sent
(`rendered`). Sizes are those of the text that stands in the file; what is sent without its text has no size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from pipeline import client
from pipeline.client import Report, count, relative_item
from pipeline.schema import ContextEvent, Prompt, ToolCall

Number = int | float | str | None  # gateways write counts in quotes, re-serialised logs as floats
NOTHING = msgspec.Raw()
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Split(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: Number = None
    ephemeral_1h_input_tokens: Number = None


class Iteration(msgspec.Struct, gc=False):
    """An inner call of a response."""

    type: str | None = None
    model: str | None = None
    input_tokens: Number = None
    output_tokens: Number = None
    cache_read_input_tokens: Number = None
    cache_creation_input_tokens: Number = None
    cache_creation: Split | None = None


class ServerTools(msgspec.Struct, gc=False):
    web_search_requests: Number = None


class OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: Number = None


class Usage(msgspec.Struct, gc=False):
    input_tokens: Number = None
    cache_creation_input_tokens: Number = None
    cache_read_input_tokens: Number = None
    cache_creation: Split | None = None
    output_tokens: Number = None
    output_tokens_details: OutputDetails | None = None
    server_tool_use: ServerTools | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    iterations: list[Iteration] | None = None
    speed: str | None = None


class Part(msgspec.Struct, gc=False):
    """A part of a tool's result."""

    type: str | None = None
    text: str | None = None
    tool_name: str | None = None


class Block(msgspec.Struct, gc=False):
    """A block of a message. What is only measured stays raw; a tool's result is text in nearly every case."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: str | list[Part] | Part | None = None
    is_error: bool | None = None
    text: msgspec.Raw = NOTHING


class Message(msgspec.Struct, gc=False):
    model: str | None = None
    id: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Sidecar(msgspec.Struct, gc=False, rename="camel"):
    """What the client notes beside a result for its own display. MCP servers may put anything here."""

    duration_ms: object = None
    duration_seconds: object = None
    total_duration_ms: object = None
    interrupted: object = None
    agent_id: object = None
    agent_type: object = None


class Row(msgspec.Struct, gc=False, rename="camel"):
    """A line of a transcript: the fields that are used, in the order in which they are usually written."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    git_branch: str | None = None
    agent_id: str | None = None
    type: str | None = None
    message: Message | None = None
    uuid: str | None = None
    timestamp: str | int | float | None = None
    request_id: str | None = None
    tool_use_result: Sidecar | str | list[msgspec.Raw] | int | float | bool | None = None
    attachment: msgspec.Raw = NOTHING
    rendered: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING
    subtype: str | None = None
    content: msgspec.Raw = NOTHING
    compact_metadata: msgspec.Raw = NOTHING
    session_kind: str | None = None
    attribution_agent: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    is_api_error_message: bool | None = None
    prompt_source: str | None = None
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    tool_denial_kind: str | None = None
    duration_ms: Number = None
    cost_usd: Number = msgspec.field(default=None, name="costUSD")
    total_cost_usd: Number = msgspec.field(default=None, name="totalCostUSD")
    custom_title: str | None = None
    ai_title: str | None = None
    agent_name: str | None = None
    summary: str | None = None


class _Compaction(msgspec.Struct, gc=False, rename="camel"):
    post_tokens: Number = None


_COMPACTION = msgspec.json.Decoder(_Compaction)


Attachment = Mapping[str, Any]

PROMPT_BOUNDARY = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"  # stands between the fixed and the variable half of the prompt
# Kept for the person or for the client itself; by difference of context sizes none of them is sent.
NOT_SENT = frozenset(
    {
        "command_permissions",
        "hook_cancelled",
        "hook_non_blocking_error",
        "hook_permission_decision",
        "hook_system_message",
        "prompt_render_point",
        "structured_output",
        "thinking_drop",
        "thinking_stripped",
    }
)
_HOOKS_THAT_SPEAK = frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"})  # their output goes to the model
_ENTRY = re.compile(r"- (?P<name>.+?)(?::(?= |$)|$)")


class ShapeError(ValueError):
    """An attachment that does not look as its type lets expect."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that entered or left the context; without a text its size is not in the file."""

    event: str
    item_kind: str | None
    item: str | None
    text: str | None = None
    cause: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """What an attachment row holds: items, a prompt that a person typed during a turn, or definitions of tools."""

    items: list[Item] = field(default_factory=list)
    prompt: str | None = None
    definitions: dict[str, str] = field(default_factory=dict)


def read_attachment(raw: msgspec.Raw, rendered: msgspec.Raw, cwd: str | None) -> Attached:
    """Turn an attachment into items. Raises ShapeError where it cannot be understood."""
    attachment = lenient(raw)
    if not isinstance(attachment, dict) or not isinstance(attachment.get("type"), str):
        raise ShapeError("an attachment without a type")
    kind = attachment["type"]
    sent = flat_text(lenient(rendered)) if rendered else None
    if kind == "deferred_tools_record":
        return Attached(definitions=_definitions(attachment))
    if kind in NOT_SENT or (kind == "hook_success" and sent is None and not _hook_speaks(attachment)):
        return Attached()
    if kind == "queued_command":
        return _queued(attachment, sent)
    reader = _READERS.get(kind)
    if reader is not None:
        return Attached(list(reader(attachment, sent, cwd)))
    return Attached([Item("attachment", "attachment", kind, sent if sent is not None else _own_text(attachment))])


def _definitions(attachment: Attachment) -> dict[str, str]:
    """Definitions of tools that are loaded when they are needed: compact JSON, as the model would get it."""
    entries = [entry for entry in _objects(attachment, "entries") if "description" in entry or "schema" in entry]
    return {name: _compact(entry) for entry in entries if (name := _name(entry)) is not None}


def listing_entries(content: str, names: list[str], count: int | None) -> list[tuple[str, str]]:
    """Cut a skill listing into (name, text as it stands, without the newline that parts it from the next entry).

    An entry begins with `- name: description` or `- name`; lines that begin none belong to the entry before. A name
    may hold colons. Where the listing's own `names` are not known, a `- ` line inside a description is told from
    an entry by the number of skills that the client gives.
    """
    starts = list(_starts(content, lambda name: name in known)) if (known := set(names)) else []
    if not starts:
        starts = list(_starts(content, lambda _: True))
        if count is not None and len(starts) != count:
            starts = list(_starts(content, lambda name: not any(map(str.isspace, name)))) or starts
    ends = [*(start for start, _ in starts[1:]), len(content) + 1]
    return [(name, content[start : end - 1].rstrip("\n")) for (start, name), end in zip(starts, ends, strict=False)]


def _starts(content: str, accept: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    position = 0
    for line in content.split("\n"):
        found = _ENTRY.match(line)
        if found and accept(found["name"]):
            yield position, found["name"]
        position += len(line) + 1


def _skill_listing(attachment: Attachment, sent: str | None, _: str | None) -> Iterator[Item]:
    content = attachment.get("content")
    if not isinstance(content, str):
        raise ShapeError("its content is not text")
    count = attachment.get("skillCount")
    entries = listing_entries(content, _names(attachment, "names"), count if isinstance(count, int) else None)
    for name, text in entries:
        yield Item("listed", "skill", name, text)
    yield from _wrapping("skills", sent if sent is not None else content, [text for _, text in entries])


def _dynamic_skill(attachment: Attachment, sent: str | None, _: str | None) -> Iterator[Item]:
    names = _names(attachment, "skillNames")
    texts = dict(listing_entries(sent, names, None)) if sent is not None else {}
    path = attachment.get("skillDir")
    for name in names:
        yield Item("listed", "skill", name, texts.get(name), path=path if isinstance(path, str) else None)


def _agent_listing(attachment: Attachment, sent: str | None, _: str | None) -> Iterator[Item]:
    yield from _delta(attachment, ("addedTypes", "addedLines", "removedTypes"), "agent", "listed")
    if sent is not None:
        yield from _wrapping("agents", sent, _names(attachment, "addedLines"))


def _deferred_tools(attachment: Attachment, sent: str | None, _: str | None) -> Iterator[Item]:
    yield from _delta(attachment, ("addedNames", "addedLines", "removedNames"), "tool", "listed")
    if sent is not None:
        yield from _wrapping("tools", sent, _names(attachment, "addedLines"))


def _mcp_instructions(attachment: Attachment, sent: str | None, _: str | None) -> Iterator[Item]:
    yield from _delta(attachment, ("addedNames", "addedBlocks", "removedNames"), "mcp_server", "instructions")
    if sent is not None:
        yield from _wrapping("mcp_instructions", sent, _names(attachment, "addedBlocks"))


def _delta(attachment: Attachment, keys: tuple[str, str, str], item_kind: str, event: str) -> Iterator[Item]:
    names, texts, removed = (_names(attachment, key) for key in keys)
    for position, name in enumerate(names):
        yield Item(event, item_kind, name, texts[position] if len(texts) == len(names) else None)
    for name in removed:
        yield Item("removed", item_kind, name)


def _wrapping(item: str, whole: str, parts: list[str]) -> Iterator[Item]:
    """The text around a listing's entries: a heading, the tags, the newlines."""
    position, rest = 0, []
    for part in parts:
        found = whole.find(part, position)
        if found >= 0:
            rest.append(whole[position:found])
            position = found + len(part)
    text = "".join((*rest, whole[position:]))
    if text:
        yield Item("listed", "listing", item, text)


def _invoked_skills(attachment: Attachment, _: str | None, __: str | None) -> Iterator[Item]:
    for skill in _objects(attachment, "skills"):
        text = skill.get("content")
        yield Item(
            "loaded", "skill_body", _name(skill), text if isinstance(text, str) else None, "compaction", _path(skill)
        )


def _nested_memory(attachment: Attachment, sent: str | None, cwd: str | None) -> Iterator[Item]:
    content = attachment.get("content")
    inner = content if isinstance(content, dict) else {}
    path = _path(attachment) or _path(inner)
    shown = attachment.get("displayPath")
    item = shown if isinstance(shown, str) else relative_item(path, cwd) if path else None
    text = inner.get("content") if inner else content
    text = sent if sent is not None else text if isinstance(text, str) else None
    yield Item("loaded", _instruction_kind(inner), item, text, "read", path)


def _instructions(attachment: Attachment, _: str | None, cwd: str | None) -> Iterator[Item]:
    for file in _objects(attachment, "files"):
        path, text = _path(file), file.get("content")
        item = relative_item(path, cwd) if path else None
        yield Item("instructions", _instruction_kind(file), item, text if isinstance(text, str) else None, path=path)


def _prompt_snapshot(attachment: Attachment, _: str | None, __: str | None) -> Iterator[Item]:
    prompt = attachment.get("systemPrompt")
    parts = [prompt] if isinstance(prompt, str) else _names(attachment, "systemPrompt")
    if parts:
        text = "\n\n".join(part for part in parts if part != PROMPT_BOUNDARY)
        yield Item("instructions", "system", "system_prompt", text)
    for tool in _objects(attachment, "tools"):
        yield Item("tool_definitions", "tool", _name(tool), _compact(tool))


def _queued(attachment: Attachment, sent: str | None) -> Attached:
    prompt = flat_text(attachment.get("prompt"))
    if attachment.get("commandMode") in (None, "prompt"):
        return Attached(prompt=prompt or "")
    name = str(attachment["commandMode"]).replace("-", "_")[:50]
    return Attached([Item("attachment", "attachment", name, sent if sent is not None else prompt)])


_Reader = Callable[[Attachment, str | None, str | None], Iterator[Item]]
_READERS: dict[str, _Reader] = {
    "skill_listing": _skill_listing,
    "dynamic_skill": _dynamic_skill,
    "invoked_skills": _invoked_skills,
    "agent_listing_delta": _agent_listing,
    "deferred_tools_delta": _deferred_tools,
    "mcp_instructions_delta": _mcp_instructions,
    "nested_memory": _nested_memory,
    "instructions": _instructions,
    "prompt_snapshot": _prompt_snapshot,
}


def _hook_speaks(attachment: Attachment) -> bool:
    return bool(attachment.get("content")) and attachment.get("hookEvent") in _HOOKS_THAT_SPEAK


def _own_text(attachment: Attachment) -> str | None:
    """The text of an attachment of no special kind, where one of its fields holds it."""
    for key in ("content", "snippet", "planContent", "blockingError", "text", "message"):
        text = flat_text(attachment.get(key))
        if text:
            return text
    diagnostics = [
        entry.get("message")
        for file in _objects(attachment, "files")
        for entry in _objects(file, "diagnostics")
        if isinstance(entry.get("message"), str)
    ]
    return "\n".join(map(str, diagnostics)) or None


def lenient(raw: msgspec.Raw) -> Any:
    """The value of a raw part of a record, bytes that are no UTF-8 replaced; None where it cannot be had."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        pass  # once more, as text
    try:
        return msgspec.json.decode(bytes(raw).decode("utf-8", "replace"))
    except UNREADABLE:
        return None


def flat_text(value: object) -> str | None:
    """A text, or the texts of a list, or the text inside a wrapping object; pictures and the like are none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [text for text in map(flat_text, value) if text]
        return "\n".join(texts) or None
    if isinstance(value, dict) and value.get("type") not in ("image", "pdf", "notebook"):
        for key in ("text", "content", "file", "blockingError"):
            text = flat_text(value.get(key))
            if text:
                return text
    return None


def _instruction_kind(file: Attachment) -> str:
    return "memory" if str(file.get("type", "")).startswith("AutoMem") else "instruction"


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _list(holder: Attachment, key: str) -> list[Any]:
    value = holder.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ShapeError(f"its {key} is no list")
    return value


def _objects(holder: Attachment, key: str) -> list[dict[str, Any]]:
    return [entry for entry in _list(holder, key) if isinstance(entry, dict)]


def _names(holder: Attachment, key: str) -> list[str]:
    return [entry for entry in _list(holder, key) if isinstance(entry, str)]


def _name(entry: Attachment) -> str | None:
    name = entry.get("name")
    return name if isinstance(name, str) else None


def _path(entry: Attachment) -> str | None:
    path = entry.get("path")
    return path if isinstance(path, str) else None


# --- what stands in rows of the user

SKILL_BODY = "Base directory for this skill:"
INTERRUPTED = "[Request interrupted by user"
# What the client puts before a person's words, in a block of its own or in the same text.
_WRAPPED = re.compile(r"(?:\s*<(system-reminder|ide_\w+)>.*?</\1>)+\s*", re.DOTALL)
_LOCAL = ("<local-command-", "Caveat: The messages below")  # of commands that the client carries out itself
_NO_PROMPT = {  # how a text begins that no person typed, and which attachment it is
    "<bash-stdout>": "bash_output",
    "<bash-stderr>": "bash_output",
    "<task-notification>": "task_notification",
}
_COMMAND = re.compile(r"\s*<command-(?:name|message|args)>")
_COMMAND_NAME = re.compile(r"<command-name>\s*/?([^<]*?)\s*</command-name>")


@dataclass(slots=True)
class File:
    """What the sessions of one file share while it is read."""

    source_id: str
    report: Report
    rows: int = 0
    seen: set[str] = field(default_factory=set)  # prompts and events, by id
    definitions: dict[str, str] = field(default_factory=dict)  # of tools that are loaded when they are needed
    agent_types: dict[str, str] = field(default_factory=dict)  # by agent id, or by the prompt that started it


class Context:
    """What a session's prompts and context events are, row by row.

    Until the file is read, their `seq` is the number of responses that were begun before them: `begun`, which the
    reader of the responses keeps up to date.
    """

    def __init__(self, file: File, is_subagent: bool) -> None:
        self.file = file
        self.is_subagent = is_subagent
        self.begun = 0
        self.agent: str | None = None  # the type of subagent, where its first prompt tells it
        self.prompts: list[Prompt] = []
        self.events: list[ContextEvent] = []
        self.skill_calls: dict[str, ToolCall] = {}  # whose body has not come yet
        self.loaded_skills: set[str] = set()
        self.commands: dict[str, str] = {}  # by the row that a body would follow
        self.command: str | None = None  # the last one, until something else follows

    def user(self, row: Row, ts: int | None, content: str | list[Block] | None) -> bool:
        """Take a row of the user that holds no results. True if it says that the person interrupted."""
        if type(content) is list:
            texts = [text for block in content if block.text and isinstance(text := lenient(block.text), str)]
        else:
            texts = [content] if type(content) is str else []
        if row.is_compact_summary:
            self.note(row, ts, Item("attachment", "attachment", "compact_summary", "".join(texts)))
        elif row.is_meta:
            self._client_text(row, ts, "".join(texts))
        elif content and not row.is_visible_in_transcript_only:
            return self._said(row, ts, texts)
        return False

    def _said(self, row: Row, ts: int | None, texts: list[str]) -> bool:
        own = [words for text in texts if (words := _WRAPPED.sub("", text, count=1) if text[:1] == "<" else text)]
        text = "".join(own)
        if text.startswith(INTERRUPTED):
            return True
        attachment = self._no_prompt(row, text if own or not texts else None)
        if text.startswith(_LOCAL):
            self.command = None
        elif attachment is not None:
            self.note(row, ts, Item("attachment", "attachment", attachment, text or "".join(texts)))
        else:
            self.command = None
            is_command = _COMMAND.match(text) is not None
            if is_command:
                self._typed_command(row, ts, text)
            if self.is_subagent and self.agent is None:
                self.agent = self.file.agent_types.get(text)
            kind = (
                "agent" if self.is_subagent else "command" if is_command or text.startswith("<bash-input>") else "typed"
            )
            self.prompt(row, ts, kind, len(text) if own else None)
        return False

    @staticmethod
    def _no_prompt(row: Row, text: str | None) -> str | None:
        """The kind of attachment that a text is which no person typed; None for a prompt."""
        if text is None or row.prompt_source == "system":
            return "client_message"
        return next((item for beginning, item in _NO_PROMPT.items() if text.startswith(beginning)), None)

    def _typed_command(self, row: Row, ts: int | None, text: str) -> None:
        found = _COMMAND_NAME.search(text)
        if found is None or not found[1]:
            return
        self.command = found[1]
        if row.uuid:
            self.commands[row.uuid] = found[1]
        if found[1] == "clear":
            self.note(row, ts, Item("cleared", None, None))

    def _client_text(self, row: Row, ts: int | None, text: str) -> None:
        """A row that the client wrote in the user's name: the body of a skill or command, or some notice."""
        if text.startswith(_LOCAL):
            return
        is_body = text.startswith(SKILL_BODY)
        base = text[len(SKILL_BODY) :].split("\n", 1)[0].strip() if is_body else None
        folder = re.split(r"[/\\]", base.rstrip("/\\"))[-1] if base else None
        call_id = row.source_tool_use_id
        command = self.commands.pop(row.parent_uuid or "", None) or (self.command if is_body else None)
        call = self.skill_calls.pop(call_id, None) if call_id else None
        if call is not None or (call_id and is_body):
            cause, item = "tool", (call.skill if call else None) or folder
        elif command is not None:
            cause, item = "slash", command
            self.command = None
        elif is_body:
            cause, item = self._unnamed_load(folder)
        else:
            if text:
                self.note(row, ts, Item("attachment", "attachment", "client_message", text))
            return
        self._load(row, ts, Item("loaded", "skill_body", item, text, cause, base))

    def _unnamed_load(self, folder: str | None) -> tuple[str, str | None]:
        """The cause of a body whose row names no call: the last Skill call for that folder, else the client itself."""
        for call_id, call in reversed(self.skill_calls.items()):
            if call.skill and folder and call.skill.rpartition(":")[2] == folder:
                del self.skill_calls[call_id]
                return "tool", call.skill
        return "injected", folder

    def _load(self, row: Row, ts: int | None, item: Item) -> None:
        self.loaded_skills.add((item.item or "").rpartition(":")[2])
        self.note(row, ts, item)

    # --- what comes as results, attachments and notices

    def read_file(self, row: Row, ts: int | None, path: str | None, text: str) -> None:
        """A skill's file that is read in the plain way counts as a load, unless the skill itself is loaded."""
        parts = re.split(r"[/\\]", path or "")
        if len(parts) > 1 and parts[-1] == "SKILL.md":
            self.note(row, ts, Item("loaded", "skill_body", parts[-2], text, "read", path))

    def result_parts(self, row: Row, ts: int | None, parts: list[Part]) -> None:
        """A tool's result may load the definitions of further tools."""
        for part in parts:
            if part.type == "tool_reference" and part.tool_name:
                self.note(row, ts, Item("loaded", "tool", part.tool_name, cause="tool"))

    def attachment(self, row: Row, ts: int | None) -> None:
        if row.parent_uuid in self.commands and row.uuid:
            self.commands[row.uuid] = self.commands[row.parent_uuid or ""]  # the command's body follows further down
        if not row.attachment:
            return
        try:
            attached = read_attachment(row.attachment, row.rendered, row.cwd)
        except ShapeError as error:
            self.file.report.warn(f"record {self.file.rows}: attachment not understood, not counted: {error}")
            return
        self.file.definitions.update(attached.definitions)
        if attached.prompt is not None:
            self.prompt(row, ts, "queued", len(attached.prompt))
        for item in attached.items:
            if item.cause == "compaction":
                self._load(row, ts, item)
            else:
                self.note(row, ts, item)

    def system(self, row: Row, ts: int | None) -> None:
        if row.subtype == "compact_boundary":
            self.note(row, ts, Item("compacted", None, None), self._tokens_after(row))
        elif row.subtype == "local_command" and row.content:
            text = flat_text(lenient(row.content)) or ""
            if _COMMAND.match(text):
                self._typed_command(row, ts, text)
                self.prompt(row, ts, "command", len(text))

    def _tokens_after(self, row: Row) -> int | None:
        if not row.compact_metadata:
            return None
        try:
            return count(_COMPACTION.decode(row.compact_metadata).post_tokens, self.file.report, "postTokens")
        except UNREADABLE:
            self.file.report.warn(f"record {self.file.rows}: compactMetadata is not of the expected form")
            return None

    # --- writing down

    def prompt(self, row: Row, ts: int | None, kind: str, chars: int | None) -> None:
        event_id = client.short_id(row.uuid or f"row{self.file.rows}", "prompt")
        if event_id in self.file.seen:
            return  # the same row stands in the file again
        self.file.seen.add(event_id)
        self.prompts.append(
            Prompt(source_id=self.file.source_id, event_id=event_id, seq=self.begun, ts=ts, kind=kind, chars=chars)
        )

    def note(self, row: Row, ts: int | None, item: Item, reported_tokens: int | None = None) -> None:
        """Write an event down, once."""
        event_id = client.short_id(row.uuid or f"row{self.file.rows}", item.event, item.item_kind, item.item)
        if event_id in self.file.seen:
            return
        self.file.seen.add(event_id)
        text = item.text
        digest = None if text is None else _sha256(text)
        self.file.report.show(digest, text)
        self.events.append(
            ContextEvent(
                source_id=self.file.source_id,
                event_id=event_id,
                seq=self.begun,
                ts=ts,
                event=item.event,
                cause=item.cause,
                item_kind=item.item_kind,
                item=item.item,
                path=item.path,
                chars=None if text is None else len(text),
                sha256=digest,
                reported_tokens=reported_tokens,
            )
        )

    def finish(self, session_id: str, seq_of: list[int]) -> tuple[list[Prompt], list[ContextEvent]]:
        """The prompts and events, once it is known which place each response has in the order of time."""
        for prompt in self.prompts:
            prompt.session_id, prompt.seq = session_id, seq_of[prompt.seq]
        events = [event for event in self.events if not self._is_loaded_properly(event)]
        for event in events:
            event.session_id, event.seq = session_id, seq_of[event.seq]
            if event.event == "loaded" and event.item_kind == "tool":
                definition = self.file.definitions.get(event.item or "")
                if definition is not None:
                    event.chars, event.sha256 = len(definition), client.sha256(definition)
        return self.prompts, events

    def _is_loaded_properly(self, event: ContextEvent) -> bool:
        return event.cause == "read" and event.item_kind == "skill_body" and event.item in self.loaded_skills


def _sha256(text: str) -> str:
    return _sha256_of_entry(text) if len(text) < 2048 else client.sha256(text)


@lru_cache(maxsize=4096)
def _sha256_of_entry(text: str) -> str:
    return client.sha256(text)  # the same listing stands in session after session
