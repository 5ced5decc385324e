"""The MCP server: a tool a public view and one for SQL, over stdin and stdout. It reads the lake and nothing else.

What is wrong with a call is a tool error that says so in a sentence, and the server goes on. Every call opens the lake
anew, so that it answers from what the lake holds now, and calls do not wait for each other.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from pipeline import __version__, contracts, export
from pipeline.contracts import ViewColumn
from pipeline.errors import AgentLensError, ConfigError, LakeError, QueryError
from pipeline.export import ALWAYS, NEVER, Options, Rows
from pipeline.warehouse import Warehouse, connect, refresh
from pipeline.window import filters, own_options, own_values, renamed, window_of

SQL = "sql"
_ROWS = 50  # of an answer, where the call does not say: an answer stands in somebody's context window
_MOST_BYTES = 1_000_000
_LOCK_SECONDS = 10.0
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

INSTRUCTIONS = """\
What AI coding agents cost on this machine, from the transcripts that they leave on disk. Begin with `usage`; `skills` \
and `context` say what stands in the context window and what it costs, `idle` what stands there for nothing.
Every number is measured or estimated and says which. A plain count is measured: the client reported it. An object \
{"count": 1234, "measured": false} is a count that can be an estimate; write an estimated one as ~1,234. null is n/a: \
not recorded by the client. It is not zero; never guess it. measured_usd is what clients reported, estimated_usd is \
usage x price table: give both and never add them. A model without a price has no cost (`unpriced`).
Answers hold the first rows only; "truncated": true says that there are more."""

SQL_HELP = """\
Rows of one SELECT (DuckDB's SQL) over the views, read-only. The views are the other tools' names with the same \
columns; `describe skills` names them with their types. They have no window: filter by their times, which are UTC. \
Values come back plain, without objects: select a count's flag `<count>_measured` beside it. NULL is n/a, not zero: \
sums skip it. A sum of estimates is an estimate; never add measured_usd and estimated_usd."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the server reads, and how much a call may ask of it."""

    lake: Path
    local_zone: str
    most_rows: int
    seconds: float


def serve(settings: Settings) -> None:
    """Answer on stdin and stdout until stdin ends."""
    anyio.run(_serve, settings)


async def _serve(settings: Settings) -> None:
    listed = ListToolsResult(tools=tools(settings))

    async def on_list(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def on_call(_: ServerRequestContext[Any], call: CallToolRequestParams) -> CallToolResult:
        ask = partial(answer, settings, call.name, call.arguments or {}, datetime.now(UTC))
        try:
            text = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except AgentLensError as error:
            return _failed(str(error))
        except OSError as error:
            return _failed(f"{error.filename or settings.lake}: {error.strerror or error}")
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=msgspec.json.decode(text)
        )

    server: Server[Any] = Server(
        "agentlens", version=__version__, instructions=INSTRUCTIONS, on_list_tools=on_list, on_call_tool=on_call
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


# --- what there is -------------------------------------------------------------------------------------------------


def tools(settings: Settings) -> list[Tool]:
    """The tools: the public views in their order, and SQL."""
    made = [
        Tool(
            name=name,
            description=described(contracts.load(name)),
            input_schema=_schema(arguments_of(name, settings)),
            annotations=_READS,
        )
        for name in contracts.public_names()
    ]
    query = _schema(arguments_of(SQL, settings), required=["query"])
    return [*made, Tool(name=SQL, description=SQL_HELP, input_schema=query, annotations=_READS)]


def described(contract: contracts.Contract) -> str:
    """A view in words: what a row is, and which columns are measured, estimated, or one of the two."""
    counts = [column for column in contract.columns if column.measured is not None and not column.is_flag]
    kinds = {
        "Measured": [c for c in counts if c.measured == ALWAYS],
        "Estimated": [c for c in counts if c.measured == NEVER],
        "Measured or estimated, as each says": [c for c in counts if c.measured not in {ALWAYS, NEVER}],
    }
    lines = [" ".join(filter(None, (contract.help, contract.notes)))]
    # These stand in somebody's context window: what a count means is worth it, other names speak for themselves.
    lines += [f"{kind}: {'; '.join(map(_count, columns))}." for kind, columns in kinds.items() if columns]
    lines.append(f"Beside them: {', '.join(c.name for c in contract.columns if c.measured is None and not c.is_flag)}.")
    if any(column.null for column in contract.columns):
        lines.append("null is n/a: not recorded, or there is none; never zero.")
    return "\n".join(lines)


def _count(column: ViewColumn) -> str:
    return f"{column.name} ({column.doc})" if column.doc else column.name


def arguments_of(tool: str, settings: Settings) -> dict[str, dict[str, Any]]:
    """The arguments of a tool, as JSON Schema has them."""
    limit = {
        "type": "integer",
        "minimum": 1,
        "maximum": settings.most_rows,
        "default": min(_ROWS, settings.most_rows),
        "description": "At most so many rows.",
    }
    if tool == SQL:
        return {"query": {"type": "string", "description": "One SELECT."}, "limit": limit}
    own = {
        option.name: {
            "type": "string",
            "description": option.help if option.metavar is None else f"{option.help} Written as {option.metavar}.",
            **({"enum": list(option.choices)} if option.choices else {}),
            **({"default": option.default} if option.default else {}),
        }
        for option in own_options(tool)
    }
    return {**own, **(_window_arguments() if contracts.load(tool).has_window else {}), "limit": limit}


def _window_arguments() -> dict[str, dict[str, Any]]:
    from pipeline.clients import names

    return {
        "since": {"type": "string", "description": "2026-03-01, 2026-03-01T12:00, 7d, 24h, 2w, today, yesterday."},
        "until": {"type": "string", "description": "Likewise; a day is included."},
        "clients": {
            "type": "array",
            "items": {"type": "string", "enum": list(names())},
            "description": "Only these.",
        },
        "project": {"type": "string", "description": "Only this working directory: its path, or its end."},
        "timezone": {"type": "string", "description": "IANA zone of days and times. Default: the machine's."},
    }


def _schema(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    more = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, **more}


# --- answers -------------------------------------------------------------------------------------------------------


def answer(settings: Settings, tool: str, arguments: Mapping[str, Any], now: datetime) -> str:
    """The answer to a call, as JSON: `rows` as `--format json` has them, and whether they are all.

    Raises AgentLensError for whatever is wrong with the call, and QueryError for one that takes too long.
    """
    if tool != SQL:
        contracts.find(tool)
    given = checked(tool, arguments, arguments_of(tool, settings))
    limit: int = given.pop("limit", min(_ROWS, settings.most_rows))
    if tool == SQL:
        if "query" not in given:
            raise ConfigError("sql: the argument query is missing", hint="give one SELECT")
        with _asked(settings) as warehouse:
            batches = warehouse.sql(given["query"]).batches(1024)
            return _written(Rows(SQL, export.columns_of(batches.schema), batches), limit, {}, settings)
    own = own_values(tool, {option.name: given.pop(option.name, None) for option in own_options(tool)})
    clients = tuple(given.pop("clients", ()))
    chosen = filters(**given, clients=clients, local_zone=settings.local_zone, now=now)
    contract = contracts.load(tool)
    with _asked(settings) as warehouse:
        batches = warehouse.view(tool, window_of(chosen, own)).batches(1024)
        return _written(Rows(tool, contract.columns, batches), limit, renamed(own), settings)


def checked(tool: str, arguments: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The arguments that were given, null being none. Raises ConfigError for one that the tool does not take."""
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"{tool}: there is no argument {name!r}", hint=f"known: {', '.join(known)}")
        kind = known[name]["type"]
        if kind == "integer":
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= known[name]["maximum"]:
                raise ConfigError(f"{name}: {value!r} is no whole number from 1 to {known[name]['maximum']:,}")
        elif kind == "array":
            if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
                raise ConfigError(f"{name}: {value!r} is no list of texts")
        elif not isinstance(value, str):
            raise ConfigError(f"{name}: {value!r} is no text")
    return given


@contextmanager
def _asked(settings: Settings) -> Iterator[Warehouse]:
    """The lake, open, and closed to what takes too long."""
    lake = settings.lake
    if not lake.exists():
        raise LakeError(f"there is no lake at {lake} yet", hint="make one with: agentlens run", path=lake)
    refresh(lake, _LOCK_SECONDS)
    with connect(lake) as warehouse:
        begun = time.monotonic()
        timer = warehouse.interrupt_after(settings.seconds)
        try:
            yield warehouse
        except QueryError as error:
            if time.monotonic() - begun < settings.seconds:
                raise
            hint = "narrow it, by since, clients or project, or by a where"
            raise QueryError(f"stopped at the time limit of {settings.seconds:g} seconds", hint=hint) from error
        finally:
            timer.cancel()


def _written(rows: Rows, limit: int, rename: Mapping[str, str], settings: Settings) -> str:
    batches = list(rows.first(limit + 1))
    found = sum(batch.num_rows for batch in batches)
    stream = io.BytesIO()
    export.write("json", Rows(rows.name, rows.columns, batches), stream, Options(limit=limit, rename=rename))
    if stream.tell() > _MOST_BYTES:
        size = f"{stream.tell():,} bytes, more than {_MOST_BYTES:,}"
        raise QueryError(f"the answer would have {size}", hint="ask for fewer rows or columns")
    facts: dict[str, Any] = {"row_count": min(found, limit), "truncated": found > limit}
    if found > limit:
        raised = f"; raise limit, to {settings.most_rows:,} at most" if limit < settings.most_rows else ""
        facts["note"] = f"there are more rows{raised}; sums over these are not of all"
    return msgspec.json.encode(facts | {"rows": msgspec.Raw(stream.getvalue().strip())}).decode()
