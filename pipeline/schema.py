"""The tables of the lake, declared once: a row type each, with a description for every column.

A field's annotation holds its type and a `Col` (description, unit, who measured it, what NULL means).
Parsers fill these rows, `lake` turns them into Parquet, `agentlens schema` and the docs print them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

Measured = Literal["measured", "estimated", "n/a"]
Timestamp = Annotated[int, "timestamp"]  # microseconds since 1970-01-01 UTC


@dataclass(frozen=True, slots=True)
class Col:
    """What a reader must know of a column: the words of the docs, the unit, what NULL means."""

    doc: str
    unit: str | None = None
    null: str | None = None  # None: never NULL
    measured: Measured = "n/a"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a lake table as readers see it."""

    name: str
    type: str  # string | bigint | double | boolean | timestamp | list<string>
    doc: str
    unit: str | None
    null: str | None
    measured: Measured


_NOT = "the client does not record it"
_TOKENS = {"unit": "tokens", "measured": "measured"}


class Row(msgspec.Struct, gc=False, kw_only=True):
    """The columns that every table has. `client` and `month` are partition keys, `machine` is set by ingest."""

    source_id: Annotated[str, Col("the transcript file that says so (sources.source_id)")]
    session_id: Annotated[
        str | None,
        Col("the session, as the client names it; a subagent has one of its own", null="the file names no session"),
    ] = None


class Source(msgspec.Struct, gc=False, kw_only=True):
    """One row a transcript file."""

    source_id: Annotated[str, Col("identity of the file: made of machine, client and path")]
    path: Annotated[str, Col("where the file lies, or lay")]
    client_version: Annotated[str | None, Col("the newest client version that the file names", null=_NOT)] = None
    size_bytes: Annotated[int, Col("size when it was read", unit="bytes", measured="measured")] = 0
    mtime: Annotated[Timestamp, Col("the file's modification time when it was read")] = 0
    sha256: Annotated[
        str | None, Col("fingerprint of the content: SHA-256 of size, first and last 4 KiB", null="unreadable")
    ] = None
    lines: Annotated[int, Col("lines that are not blank", measured="measured")] = 0
    skipped_lines: Annotated[int, Col("lines that hold no readable record", measured="measured")] = 0
    warnings: Annotated[
        list[str], Col("what a reader of the numbers should know, with line numbers; empty if all is well")
    ] = []
    first_ts: Annotated[Timestamp | None, Col("time of the earliest record", null="no record has a time")] = None
    last_ts: Annotated[Timestamp | None, Col("time of the latest record", null="no record has a time")] = None
    ingested_at: Annotated[Timestamp, Col("when the file was read")] = 0
    parser_version: Annotated[int, Col("version of the parser that read it")] = 0
    gone_at: Annotated[Timestamp | None, Col("when the file was first missed", null="it still exists")] = None


class Session(Row, gc=False, kw_only=True):
    """One row a session and file. The view `sessions` has one row a session."""

    parent_session_id: Annotated[
        str | None, Col("the session that started this subagent, or that this one was forked from", null="none")
    ] = None
    is_subagent: Annotated[bool, Col("a subagent of another session")] = False
    agent: Annotated[str | None, Col("type of the subagent", null="no subagent, or not recorded")] = None
    project: Annotated[str | None, Col("first working directory, a worktree folded into its repository", null=_NOT)] = (
        None
    )
    repo_root: Annotated[
        str | None,
        Col("top folder of the repository of `project`, where it is on this disk", null="no repository there"),
    ] = None
    git_branch: Annotated[str | None, Col("first branch that the file names", null=_NOT)] = None
    title: Annotated[str | None, Col("title given by the person or the client", null=_NOT)] = None
    started_at: Annotated[Timestamp | None, Col("time of the earliest record", null="no record has a time")] = None
    ended_at: Annotated[Timestamp | None, Col("time of the latest record", null="no record has a time")] = None
    client_version: Annotated[str | None, Col("newest client version that the session names", null=_NOT)] = None
    reported_usd: Annotated[
        float | None,
        Col(
            "cost that the client reported for the whole session; may include calls that no record shows",
            unit="USD",
            null=_NOT,
            measured="measured",
        ),
    ] = None


class Request(Row, gc=False, kw_only=True):
    """One row a model response and file. The view `requests` has each response once."""

    request_id: Annotated[str, Col("identity of the response: equal in every copy, different for different responses")]
    response_id: Annotated[
        str | None, Col("the response's own id at the vendor (a replay under another request id shares it)", null=_NOT)
    ] = None
    seq: Annotated[int, Col("position among the session's responses in this file: 0, 1, 2 ...")]
    ts: Annotated[Timestamp | None, Col("time of the response's first record", null=_NOT)] = None
    project: Annotated[
        str | None, Col("working directory of the request, a worktree folded into its repository", null=_NOT)
    ] = None
    n_requests: Annotated[int, Col("responses that the row stands for", measured="measured")] = 1
    model: Annotated[str | None, Col("model as recorded", null=_NOT)] = None
    provider: Annotated[str | None, Col("vendor or gateway as recorded", null=_NOT)] = None
    input_tokens: Annotated[int | None, Col("input that was not cached", null=_NOT, **_TOKENS)] = None
    output_tokens: Annotated[int | None, Col("output, reasoning included", null=_NOT, **_TOKENS)] = None
    cache_read_tokens: Annotated[int | None, Col("input read from the cache", null=_NOT, **_TOKENS)] = None
    cache_write_tokens: Annotated[
        int | None, Col("input written to the cache, whatever its life", null=_NOT, **_TOKENS)
    ] = None
    cache_write_5m_tokens: Annotated[
        int | None, Col("the part of the writes that lives 5 minutes", null=_NOT, **_TOKENS)
    ] = None
    cache_write_1h_tokens: Annotated[
        int | None, Col("the part of the writes that lives 1 hour", null=_NOT, **_TOKENS)
    ] = None
    reasoning_tokens: Annotated[
        int | None, Col("the part of output_tokens that is reasoning", null=_NOT, **_TOKENS)
    ] = None
    context_tokens: Annotated[
        int | None,
        Col(
            "what the model had in front of it: input + cache read + cache write (of the last inner call, where a record sums several)",
            null=_NOT,
            **_TOKENS,
        ),
    ] = None
    reported_usd: Annotated[
        float | None, Col("cost that the client reported for this response", unit="USD", null=_NOT, measured="measured")
    ] = None
    service_tier: Annotated[str | None, Col("standard, priority, batch, flex ... as recorded", null=_NOT)] = None
    speed: Annotated[str | None, Col("standard or fast, as recorded", null=_NOT)] = None
    inference_geo: Annotated[
        str | None, Col("geography of the inference, where it changes the price, as recorded", null=_NOT)
    ] = None
    web_search_requests: Annotated[
        int | None, Col("web searches run by the vendor, billed by the call", null=_NOT, measured="measured")
    ] = None
    premium_requests: Annotated[
        float | None, Col("premium requests, where the client bills so", null=_NOT, measured="measured")
    ] = None
    stop_reason: Annotated[str | None, Col("why the response ended, as recorded", null=_NOT)] = None
    is_subagent: Annotated[bool, Col("made by a subagent")] = False
    is_error: Annotated[bool, Col("the response is an error of the API")] = False
    is_output_partial: Annotated[
        bool, Col("the client wrote only a placeholder for the output: output_tokens is a lower bound")
    ] = False
    duration_ms: Annotated[
        int | None,
        Col("time the response took, where the client records it", unit="ms", null=_NOT, measured="measured"),
    ] = None
    copy_rank: Annotated[
        int, Col("how likely this row is a copy of another file's: 0 surely its own, 1 no sign either way, 2 a copy")
    ] = 1


class ToolCall(Row, gc=False, kw_only=True):
    """One row a tool call and file."""

    call_id: Annotated[str, Col("identity of the call: equal in every copy")]
    request_id: Annotated[
        str | None, Col("the response that made the call (requests.request_id)", null="not known")
    ] = None
    seq: Annotated[int | None, Col("seq of that response in this file", null="not known")] = None
    ts: Annotated[Timestamp | None, Col("time of the call", null=_NOT)] = None
    tool: Annotated[str, Col("tool as recorded")]
    kind: Annotated[str, Col("builtin, mcp, skill or agent")] = "builtin"
    mcp_server: Annotated[str | None, Col("MCP server", null="not an MCP tool")] = None
    mcp_tool: Annotated[str | None, Col("tool of that server", null="not an MCP tool")] = None
    skill: Annotated[str | None, Col("skill that the call asks for", null="not a skill call")] = None
    target: Annotated[
        str | None,
        Col("a file path, the host of a URL, or the first word of a command (never the command itself)", null="none"),
    ] = None
    input_bytes: Annotated[
        int | None,
        Col("UTF-8 bytes of the arguments as they stand in the file", unit="bytes", null=_NOT, measured="measured"),
    ] = None
    result_bytes: Annotated[
        int | None,
        Col(
            "UTF-8 bytes of the result's text",
            unit="bytes",
            null="no result, or none of it is text",
            measured="measured",
        ),
    ] = None
    result_chars: Annotated[
        int | None,
        Col(
            "characters of the result's text",
            unit="characters",
            null="no result, or none of it is text",
            measured="measured",
        ),
    ] = None
    outcome: Annotated[str | None, Col("ok, error, denied, interrupted or pending", null=_NOT, measured="measured")] = (
        None
    )
    ended_at: Annotated[Timestamp | None, Col("time of the result", null="no result")] = None
    duration_ms: Annotated[
        int | None,
        Col(
            "duration that the client records; never a difference of timestamps",
            unit="ms",
            null=_NOT,
            measured="measured",
        ),
    ] = None
    result_paths: Annotated[
        list[str] | None,
        Col(
            "the distinct files that a retrieval tool's result names, in order of appearance; relative to the repository, where they lie below it",
            null="no retrieval tool that names files, or its result is not readable (no JSON, cut)",
        ),
    ] = None
    result_handles: Annotated[
        int | None,
        Col(
            "entries of a retrieval tool's result",
            null="no retrieval tool that lists entries, or its result is not readable (no JSON, cut)",
            measured="measured",
        ),
    ] = None


class Prompt(Row, gc=False, kw_only=True):
    """One row a thing that a person (or a parent agent) put in."""

    event_id: Annotated[str, Col("identity within the session: equal in every copy")]
    seq: Annotated[int, Col("the first request in this file that carries it")]
    ts: Annotated[Timestamp | None, Col("when", null=_NOT)] = None
    kind: Annotated[str, Col("typed, queued, command or agent")] = "typed"
    chars: Annotated[int | None, Col("characters", unit="characters", null=_NOT, measured="measured")] = None


class ContextEvent(Row, gc=False, kw_only=True):
    """One row a thing that entered or left the context."""

    event_id: Annotated[str, Col("identity within the session: equal in every copy")]
    seq: Annotated[int, Col("the first request in this file that carries it, or that no longer does")]
    position: Annotated[int, Col("order among the file's events: 0, 1, 2 ... (set by ingest)")] = 0
    ts: Annotated[Timestamp | None, Col("when", null=_NOT)] = None
    event: Annotated[
        str,
        Col(
            "listed, loaded, instructions, tool_definitions, memory, attachment, removed, reported, compacted or cleared"
        ),
    ]
    cause: Annotated[str | None, Col("of a load: tool, slash, injected, read or compaction", null="no load")] = None
    item_kind: Annotated[
        str | None,
        Col(
            "skill (its listing entry), skill_body, instruction, memory, agent, mcp_server, tool, listing, system, attachment",
            null="not about one item",
        ),
    ] = None
    item: Annotated[str | None, Col("name of the item", null="not about one item")] = None
    path: Annotated[str | None, Col("file of the item, as recorded", null=_NOT)] = None
    chars: Annotated[
        int | None,
        Col("characters of its text", unit="characters", null="the text is not in the file", measured="measured"),
    ] = None
    sha256: Annotated[str | None, Col("SHA-256 of its text", null="the text is not in the file")] = None
    reported_tokens: Annotated[
        int | None,
        Col("a size that the client itself printed (of a compaction: the context after it)", null=_NOT, **_TOKENS),
    ] = None


class ExactCount(msgspec.Struct, gc=False, kw_only=True):
    """One row a text and model that the vendor's API counted for `--exact`; `client` is one that carried the text."""

    sha256: Annotated[str, Col("SHA-256 of the text (context_events.sha256, items.baseline_sha256)")]
    model_id: Annotated[str, Col("the vendor's id of the model that it was counted for")]
    tokens: Annotated[int, Col("tokens of the text, without what a request itself adds", **_TOKENS)]
    counted_at: Annotated[Timestamp, Col("when it was counted")]


class Item(msgspec.Struct, gc=False, kw_only=True):
    """One row an item that is or was installed, and text of it: what the clients' configuration held, and when."""

    item_id: Annotated[str, Col("identity of the item: made of machine, client, kind, scope, project, path and name")]
    item_kind: Annotated[str, Col("skill, command, agent, instruction, memory, mcp_server or plugin")]
    item: Annotated[str, Col("name of the item")]
    scope: Annotated[str, Col("user, project, plugin, managed or builtin")]
    project: Annotated[
        str | None, Col("the directory that it is for: sessions there and below carry it", null="for every project")
    ] = None
    path: Annotated[str, Col("the file that holds it")]
    baseline_chars: Annotated[
        int | None,
        Col(
            "characters that are always in the context: the listing entry, an instruction's text; 0: none",
            unit="characters",
            null="not known, such as the tools of an MCP server",
            measured="measured",
        ),
    ] = None
    baseline_sha256: Annotated[
        str | None, Col("SHA-256 of that text", null="no such text, or not known; not in lakes of before this column")
    ] = None
    body_chars: Annotated[
        int | None,
        Col(
            "characters that a load brings",
            unit="characters",
            null="nothing to load, or not known",
            measured="measured",
        ),
    ] = None
    sha256: Annotated[str | None, Col("SHA-256 of the file's text", null="no text of its own, or not read whole")] = (
        None
    )
    valid_from: Annotated[Timestamp, Col("since when: the older of first sight and the file's modification time")]
    valid_to: Annotated[
        Timestamp | None, Col("when it was found to be gone, or to have another text", null="it is still so")
    ] = None


class RepoFile(msgspec.Struct, gc=False, kw_only=True):
    """One row a file that a retrieval tool's result named and that was below the repository's root at ingest."""

    repo_id: Annotated[str, Col("the repository: first 16 hex digits of SHA-256 of its root's path")]
    repo_root: Annotated[str, Col("the root: the session's repo_root, else its project")]
    path: Annotated[str, Col("the file, relative to the root (an entry of tool_calls.result_paths)")]
    size_bytes: Annotated[
        int, Col("the size that was seen last; a file that is gone keeps it", unit="bytes", measured="measured")
    ]
    seen_at: Annotated[Timestamp, Col("when it was first seen to have that size")]


class UsageLedger(msgspec.Struct, gc=False, kw_only=True):
    """One row a tool and repository of a ledger, as it stood at ingest; `client` is who keeps the ledger."""

    path: Annotated[str, Col("the ledger's file")]
    tool: Annotated[str, Col("tool, without its server")]
    repo_id: Annotated[str, Col("the repository: first 16 hex digits of SHA-256 of its root's path")]
    calls: Annotated[int, Col("calls that did not fail", measured="measured")]
    bytes_served: Annotated[int, Col("UTF-8 bytes of their results' text", unit="bytes", measured="measured")]
    bytes_saved: Annotated[int, Col("bytes that they are estimated to have spared", unit="bytes", measured="estimated")]
    last_called_at: Annotated[Timestamp | None, Col("time of the last call", null="the ledger does not say")] = None
    seen_at: Annotated[Timestamp, Col("when the ledger was read")]


TABLES: dict[str, type[msgspec.Struct]] = {
    "sources": Source,
    "sessions": Session,
    "requests": Request,
    "tool_calls": ToolCall,
    "prompts": Prompt,
    "context_events": ContextEvent,
    "exact_counts": ExactCount,
    "items": Item,
    "repo_files": RepoFile,
    "usage_ledgers": UsageLedger,
}
PACKED = tuple(table for table, row in TABLES.items() if "source_id" in row.__struct_fields__)  # what transcripts fill
TIME_COLUMN = {
    "sources": "first_ts",
    "sessions": "started_at",
    "requests": "ts",
    "tool_calls": "ts",
    "prompts": "ts",
    "context_events": "ts",
    "exact_counts": "counted_at",
    "items": "valid_from",
    "repo_files": "seen_at",
    "usage_ledgers": "seen_at",
}
PARTITION_KEYS = (
    Column("client", "string", "the client that wrote the transcript (partition key)", None, None, "n/a"),
    Column("month", "string", "UTC month of the row's time, else of its file's (partition key)", None, None, "n/a"),
)
MACHINE = Column("machine", "string", "the machine that the transcript lay on", None, None, "n/a")


def _column(name: str, annotation: Any) -> Column:
    args = get_args(annotation)
    hint, meta = args[0], next(a for a in args[1:] if isinstance(a, Col))
    kind = _kind(hint if "timestamp" not in args[1:] else Timestamp)
    return Column(name, kind, meta.doc, meta.unit, meta.null, meta.measured)


def _kind(hint: Any) -> str:
    text = str(hint)
    for mark, kind in (
        ("timestamp", "timestamp"),
        ("list[str]", "list<string>"),
        ("bool", "boolean"),
        ("float", "double"),
        ("int", "bigint"),
    ):
        if mark in text:
            return kind
    return "string"


@cache
def columns(table: str) -> tuple[Column, ...]:
    """The columns that the Parquet files of a table hold, in order; partition keys are in the path."""
    hints = get_type_hints(TABLES[table], include_extras=True)
    names = TABLES[table].__struct_fields__
    return (MACHINE, *(_column(name, hints[name]) for name in names))


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table's files, each field with its description as metadata."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "list<string>": pa.list_(pa.string()),
    }
    return pa.schema(
        [pa.field(c.name, types[c.type], nullable=c.null is not None, metadata={"doc": c.doc}) for c in columns(table)]
    )


def schema_version() -> str:
    """A fingerprint of the tables' declarations: files of another one are looked at, whether they fit."""
    import hashlib

    parts = [(table, row.__struct_fields__, row.__annotations__) for table, row in TABLES.items()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
