"""What the texts of a Codex rollout tell: what they bring into the context, and how a tool call went.

One message holds several injected texts, one a content part, so everything here looks at one part. Newer clients label
the parts (`content_item_kinds`); before that, the text's first words say what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pipeline import client
from pipeline.client import sha256

_TAG = re.compile(r"\s*</?([A-Za-z][\w-]*)[\s>]")
_AGENTS = re.compile(r"\s*# AGENTS\.md instructions(?: for ([^\n]+))?")
_SKILL = re.compile(r"\s*<skill>\s*<name>([^<]*)</name>\s*(?:<path>([^<]*)</path>)?")
_SUMMARY = "Another language model started to solve this problem"
_ROOT_ALIAS = re.compile(r"^- `?([\w.-]+)`? ?= ?`?([^`\n]+?)`?$", re.MULTILINE)
_READER = re.compile(r"(?<![\w./-])(?:cat|sed|head|tail|nl|less|more|bat|awk|type|gc|get-content)\s", re.IGNORECASE)
_SKILL_FILE = re.compile(r"""[^\s'"`<>()]*?([^\s'"`<>()/\\]+)[/\\]+SKILL\.md""")
# Texts in the user's role that no person typed. A person may well begin a prompt with another tag, such as <div>.
_INJECTED = re.compile(
    r"\s*</?(?:skill|skills_instructions|user_instructions|instructions|environment_context|permissions"
    r"|collaboration_mode|personality_spec|model_switch|apps_instructions|plugins_instructions|recommended_plugins"
    r"|turn_aborted|user_shell_command|subagent_notification|image|codex_internal_context|goal_context|hook_prompt"
    r"|ide_context)[\s>]",
    re.IGNORECASE,
)
_HEADER = re.compile(
    rb'(?:\[\s*\{[^{}]*?"text":\s*)?"(?=Exit code:|Chunk ID:|Wall time|Command:|Process |Script |Total output)'
)
_EXIT_CODE = re.compile(rb"(?:Exit code:|exited with code) (-?\d+)")
_WALL_TIME = re.compile(rb"Wall time:? ([\d.]+) seconds")
_JSON_EXIT_CODE = re.compile(rb'\\"exit_code\\":\s*(-?\d+)')
_JSON_DURATION = re.compile(rb'\\"duration_seconds\\":\s*([\d.]+)')
_DENIED = re.compile(rb"rejected by (?:the )?user|user (?:rejected|denied|cancelled)|denied by (?:the )?user")
_FAILED = re.compile(
    rb'"(?:Script failed|Script error|apply_patch verification failed|exec_command failed|failed to '
    rb"|unsupported call|tool call error|execution error|err: )"
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_ASSIGNED = re.compile(r"""\s*(?:\w+=(?:"[^"]*"|'[^']*'|\S*)\s+)*""")
_SHELL = re.compile(r"""\S*?\b(?:bash|zsh|dash|sh)\s+-\w*c\s+["']?""")
_SHELLS = frozenset(("bash", "zsh", "dash", "sh"))
_PLAIN_WORD = re.compile(r"[\w./\\:+~@-]{1,200}(?=[\s;|&()<>\"']|$)")
UNFIT = (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError)


class _Part(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None


class _Arguments(msgspec.Struct, gc=False):
    cmd: str | list[str] | None = None
    command: str | list[str] | None = None
    path: str | None = None
    file_path: str | None = None
    url: str | None = None


class _Output(msgspec.Struct, gc=False):
    content: msgspec.Raw = msgspec.Raw(b"")
    success: bool | None = None


class _Labels(msgspec.Struct, gc=False):
    content_item_kinds: list[str] | None = None


_QUOTE = ord('"')
_TEXT = msgspec.json.Decoder(str)
_PARTS = msgspec.json.Decoder(list[_Part])
_ARGUMENTS = msgspec.json.Decoder(_Arguments)


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing that a text brings into the context: the words of a row of `context_events`."""

    event: str
    item_kind: str | None
    item: str | None
    chars: int | None
    sha256: str | None
    path: str | None = None
    cause: str | None = None
    text: str | None = None  # of what `--exact` may ask for


def is_typed(text: str, kind: str | None) -> bool:
    """Whether a part of a user message is what a person typed: by its label, else by its first words."""
    if kind is not None and kind != "unknown":
        return kind == "user.text"
    return not (_INJECTED.match(text) or _AGENTS.match(text) or text.startswith(_SUMMARY))


@lru_cache(maxsize=256)  # listings and instructions are the same in many sessions
def injected(text: str, kind: str | None = None) -> tuple[Piece, ...]:
    """What an injected part brings: a skill listing by the entry, anything else as one piece."""
    tag_match = _TAG.match(text)
    tag = tag_match[1].lower() if tag_match else ""
    kind = kind or ""
    if tag == "skills_instructions":
        return tuple(_skill_listing(text))
    skill = _SKILL.match(text)
    if skill:
        return (_whole(text, "loaded", "skill_body", skill[1].strip(), (skill[2] or "").strip(), "injected"),)
    agents = _AGENTS.match(text)
    if agents:
        path = _agents_file(agents[1].strip()) if agents[1] else None
        return (_whole(text, "instructions", "instruction", "AGENTS.md", path),)
    if tag == "user_instructions" or kind.startswith("agents_md."):
        return (_whole(text, "instructions", "instruction", "AGENTS.md"),)
    if kind == "model.base_instructions":
        return (base_instructions(text),)
    if kind.startswith("memories.") or tag.startswith("memor") or text.startswith("## Memory"):
        return (_whole(text, "memory", "memory", "memories"),)
    if text.startswith(_SUMMARY):
        kind = "compaction.summary"
    return (_whole(text, "attachment", "attachment", tag or kind or "developer_instructions"),)


def base_instructions(text: str) -> Piece:
    """The system prompt that goes with every request."""
    return _whole(text, "instructions", "system", "base_instructions")


def compacted(summary: str | None) -> Piece:
    """A compaction, with the size of its summary where that is readable."""
    return Piece("compacted", None, None, len(summary) if summary else None, sha256(summary) if summary else None)


def tools(raw: msgspec.Raw, event: str, cause: str | None = None) -> Iterator[Piece]:
    """One piece a tool definition, sized as compact JSON; a namespace's own words are a listing."""
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return
    for tool in found if isinstance(found, list) else ():
        if not isinstance(tool, dict):
            continue
        inner, name = tool.get("tools"), str(tool.get("name") or tool.get("type") or "tool")
        if not isinstance(inner, list):
            yield _definition(tool, event, "tool", name, cause)
            continue
        yield _definition({**tool, "tools": []}, event, "listing", name, cause)
        for one in inner:
            if isinstance(one, dict):
                yield _definition(one, event, "tool", full_name(name, str(one.get("name") or "tool")), cause)


def full_name(namespace: str | None, name: str) -> str:
    """A tool's name with its MCP server, where that stands apart: `mcp__db` and `query` are `mcp__db__query`."""
    if namespace and namespace.startswith("mcp__") and not name.startswith("mcp__"):
        return f"{namespace.removesuffix('__')}__{name}"
    return name


def skill_files_read(command: str) -> dict[str, str]:
    """The SKILL.md files that a shell command prints: path -> name of the folder it lies in."""
    found: dict[str, str] = {}
    for step in re.split(r"[;|\n]|&&|\\n", command):
        reader = _READER.search(step)
        if reader is None or "sed -i" in step:
            continue
        for path in _SKILL_FILE.finditer(step, reader.end()):
            if not step[: path.start()].rstrip().endswith(">"):
                found[path[0]] = path[1]
    return found


def _whole(
    text: str, event: str, item_kind: str, item: str, path: str | None = None, cause: str | None = None
) -> Piece:
    return Piece(event, item_kind, item, len(text), sha256(text), path or None, cause, text)


def _agents_file(folder: str) -> str:
    separator = "\\" if "\\" in folder and "/" not in folder else "/"
    return f"{folder.rstrip(separator)}{separator}AGENTS.md"


def _skill_listing(text: str) -> Iterator[Piece]:
    """One piece an entry line, and one for the words around them, which are there only because skills are."""
    head, _, rest = text.partition("### Available skills")
    roots = dict(_ROOT_ALIAS.findall(head))
    entries, mark, tail = rest.partition("### How to use skills")
    around = [head]
    for line in entries.split("\n"):
        if not line.startswith("- "):
            around.append(line)
            continue
        body, found, path = line[2:].rpartition(" (file: ")
        name = re.split(r":(?:\s|$)", body if found else path, maxsplit=1)[0].strip()
        full = _unaliased(path.removesuffix(")"), roots) if found else None
        yield Piece("listed", "skill", name, len(line), sha256(line), full, text=line)
    wrapping = "\n".join((*around, mark + tail))
    listed = sum(len(line) for line in entries.split("\n") if line.startswith("- "))
    yield Piece("listed", "listing", "skills", len(text) - listed, sha256(wrapping))


def _unaliased(path: str, roots: dict[str, str]) -> str:
    first, slash, rest = path.partition("/")
    return f"{roots[first].rstrip('/')}/{rest}" if slash and first in roots else path


def _definition(tool: dict[str, Any], event: str, item_kind: str, item: str, cause: str | None) -> Piece:
    text = msgspec.json.encode(tool).decode("utf-8", "replace")
    return Piece(event, item_kind, item, len(text), sha256(text), None, cause)


def text_of(raw: msgspec.Raw) -> str | None:
    """A raw JSON value as text, if it is a string."""
    if not raw:
        return None
    try:
        return _TEXT.decode(raw)
    except UNFIT:  # no string, or bad UTF-8, the one thing that a reader which passes over a value does not see
        return _TEXT.decode(bytes(raw).decode("utf-8", "replace")) if memoryview(raw)[0] == _QUOTE else None


def text_in(raw: msgspec.Raw, field: str) -> str | None:
    """A text that stands alone, or in a field of an object."""
    if bytes(raw).startswith(b"{"):
        try:
            value = msgspec.json.decode(raw).get(field)
        except UNFIT:
            return None
        return value if isinstance(value, str) else None
    return text_of(raw)


def texts_of(raw: msgspec.Raw) -> list[str]:
    """The texts of a result or message: a string, an array of parts, or an object with `content`; images are none."""
    head = bytes(memoryview(raw)[:1])
    if head == b'"':
        text = text_of(raw)
        return [] if text is None else [text]
    try:
        if head == b"{":
            return texts_of(msgspec.json.decode(raw, type=_Output).content)
        parts = _PARTS.decode(raw) if head == b"[" else []
    except UNFIT:
        return []
    return [part.text for part in parts if part.text is not None]


def size_of(raw: msgspec.Raw) -> tuple[int | None, int | None]:
    """Characters and UTF-8 bytes of a result's text."""
    text = text_of(raw)
    if text is not None:
        return len(text), client.text_bytes(text)
    texts = texts_of(raw)
    if not texts:
        return None, None
    return sum(map(len, texts)), sum(map(client.text_bytes, texts))


def input_bytes(text: str | None, raw: msgspec.Raw) -> int | None:
    return client.text_bytes(text) if text is not None else len(raw) or None


def parts_of(role: str | None, content: msgspec.Raw, labels: msgspec.Raw) -> tuple[list[Piece], list[str], list[str]]:
    """What a message that is not the model's brings: injected pieces, what was typed, and all its texts."""
    pieces: list[Piece] = []
    typed: list[str] = []
    texts = texts_of(content)
    kinds = _kinds(labels)
    for position, text in enumerate(texts):
        kind = kinds[position] if position < len(kinds) else None
        if role == "user" and is_typed(text, kind):
            typed.append(text)
        else:
            pieces += injected(text, kind)
    return pieces, typed, texts


def _kinds(labels: msgspec.Raw) -> list[str]:
    if not len(labels):
        return []
    try:
        return msgspec.json.decode(labels, type=_Labels).content_item_kinds or []
    except UNFIT:
        return []


def target_of(tool: str, text: str | None, raw: msgspec.Raw) -> tuple[str | None, str | None]:
    """What a call works on, and the shell command it runs, if it does."""
    if tool == "apply_patch" and text is not None and not text.startswith("{"):
        patched = _PATCHED.search(text, 0, 4000)
        return patched[1] if patched else None, None
    if tool == "exec" and text is not None and not text.lstrip().startswith("{"):
        return None, text  # a program in JavaScript, which may hold several commands
    try:
        found = _ARGUMENTS.decode(raw if text is None else text)
    except UNFIT:
        return None, None
    command = found.cmd if found.cmd is not None else found.command
    if command:
        return _first_word(command), command if isinstance(command, str) else command[-1]
    if found.url:
        return _host(found.url), None
    return found.path or found.file_path, None


def _first_word(command: str | list[str]) -> str | None:
    """The program that a command runs, never its arguments: they may hold secrets."""
    if not isinstance(command, str):
        is_shell = len(command) > 2 and command[1].startswith("-") and "c" in command[1].lower()
        command = command[-1] if is_shell else command[0]
    word = _PLAIN_WORD.match(command)
    if word and word[0].rpartition("/")[2] not in _SHELLS:
        return word[0]
    start = _ASSIGNED.match(command)
    shell = _SHELL.match(command, start.end() if start else 0)
    if shell:
        start = _ASSIGNED.match(command, shell.end())
    word = _PLAIN_WORD.match(command, start.end() if start else 0)
    return word[0] if word else None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def outcome_of(raw: msgspec.Raw) -> tuple[str, int | None]:
    """How a call ended, as its result's text says, and the duration in milliseconds that stands in it."""
    size = len(raw)
    head = bytes(memoryview(raw)[:2000])
    if head.startswith(b'"{'):
        tail = head if size <= 2000 else bytes(memoryview(raw)[-400:])
        return _by_numbers(_JSON_EXIT_CODE.search(tail), _JSON_DURATION.search(tail))
    if head.startswith(b"{"):
        try:
            return ("error" if msgspec.json.decode(raw, type=_Output).success is False else "ok"), None
        except UNFIT:
            return "ok", None
    start = head.find(b'"text":') if head.startswith(b"[") else 0
    body = head[max(start, 0) :].removeprefix(b'"text":').lstrip()
    if _FAILED.match(body):
        return ("denied" if size < 400 and _DENIED.search(head) else "error"), None
    if _HEADER.match(body):
        header = body.partition(b"Output:")[0]
        return _by_numbers(_EXIT_CODE.search(header), _WALL_TIME.search(header))
    if size < 400 and _DENIED.search(head):
        return "denied", None
    if body.startswith(b'"aborted') and size < 100:
        return "interrupted", None
    return "ok", None


def _by_numbers(code: re.Match[bytes] | None, seconds: re.Match[bytes] | None) -> tuple[str, int | None]:
    outcome = "error" if code and int(code[1]) != 0 else "ok"
    return outcome, _seconds(seconds[1].decode()) if seconds else None


def _seconds(text: str, unit: str = "s") -> int | None:
    try:
        return whole_ms(float(text) * {"ms": 1, "s": 1000, "m": 60_000}[unit])
    except ValueError:
        return None


def whole_ms(duration: float) -> int | None:
    """A duration in whole milliseconds; None for one that cannot be."""
    return round(duration) if 0 <= duration < 1e15 else None


def milliseconds(raw: msgspec.Raw) -> int | None:
    """Milliseconds of `{secs, nanos}`, or of a text such as 1.2s or 35ms."""
    try:
        value: Any = msgspec.json.decode(raw) if len(raw) else None
    except UNFIT:
        return None
    if isinstance(value, dict):
        seconds, nanos = value.get("secs"), value.get("nanos") or 0
        if isinstance(seconds, (int, float)) and isinstance(nanos, (int, float)):
            return whole_ms(seconds * 1000 + nanos / 1_000_000)
        return None
    found = re.fullmatch(r"([\d.]+)\s*(ms|s|m)", value.strip()) if isinstance(value, str) else None
    return _seconds(found[1], found[2]) if found else None
