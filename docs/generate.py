"""Text for the generated parts of the documentation: what the commands, tables and views say of themselves.

The pages call these functions between cog markers. `make docs` writes them anew, `make docs-check` compares.
Output of commands is that of the sample in `data/sample`, in UTC and 100 columns wide, so that it never depends on
the machine or the day.
"""

# ruff: noqa: INP001, S603  a folder of pages is no package; it runs the program itself

from __future__ import annotations

import csv
import inspect
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import click

from pipeline import contracts, schema
from pipeline.cli import COMMANDS, group

ROOT = Path(__file__).resolve().parent.parent
TRY = "~/agentlens-try"  # where the pages say that the sample's lake is
WIDTH = "100"


# --- what commands print ---------------------------------------------------------------------------------------------


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """A folder for the sample's lake, kept as long as this process."""
    return tempfile.TemporaryDirectory(prefix="agentlens-docs-")


@cache
def _run() -> str:
    """What `agentlens run` says when it reads the sample for the first time."""
    return _call("run", "--home", "data/sample/home", "--machine", "sample", "--timezone", "UTC")


def _call(*arguments: str, width: str = WIDTH) -> str:
    place = _place().name
    environ = {"AGENTLENS_LAKE": f"{place}/lake", "HOME": place, "PYTHONPATH": str(ROOT)}
    environ |= {"COLUMNS": width, "TZ": "UTC", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "pipeline", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, encoding="utf-8"
    )
    if done.returncode:
        raise RuntimeError(f"agentlens {shlex.join(arguments)}: exit code {done.returncode}: {done.stdout}")
    # The place is another at every run, and so is the time it takes.
    return re.sub(r"in \d+\.\d+ s \(\d+ MB/s\)", "in 0.15 s (1 MB/s)", done.stdout.replace(place, TRY))


def first_run() -> str:
    """What the first run over the sample prints."""
    return _fenced(f"$ agentlens run --home data/sample/home --machine sample --timezone UTC\n{_run()}", "console")


def console(line: str, form: str = "table") -> str:
    """A command as it is typed on a terminal, and what it prints."""
    _run()
    return _fenced(f"$ {line}\n{_call(*shlex.split(line)[1:], '--format', form)}", "console")


def doctor(*checks: str) -> str:
    """The lines of some checks of `agentlens doctor`, with what to do."""
    _run()
    heads = tuple(check.replace("_", " ") for check in checks)
    lines: list[str] = []
    shown = False
    # Where the sample lies and when its files were written depends on the checkout, and so would breaks of lines.
    said = _call("doctor", "--home", "data/sample/home", width="1000").replace(str(ROOT), "~/agentlens")
    for line in re.sub(r", newest [\d-]+ [\d:]+ UTC", ", newest 2026-11-29 16:20 UTC", said).splitlines():
        shown = line[9:].startswith(heads) or (shown and line.startswith(" "))
        lines += [line] if shown else []
    return _fenced("\n".join(["$ agentlens doctor --home data/sample/home", *lines]), "console")


def mcp_call(tool: str, arguments: dict[str, object]) -> str:
    """A call of a tool of `agentlens mcp` by the SDK's client, and its answer."""
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.types import TextContent

    _run()
    place = _place().name
    environ = {"HOME": place, "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    command = ["-m", "pipeline", "mcp", "--lake", f"{place}/lake"]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environ)

    async def answer() -> str:
        async with Client(stdio_client(parameters)) as client:
            (content,) = (await client.call_tool(tool, arguments)).content
            return content.text if isinstance(content, TextContent) else ""

    return _fenced(f"{tool} {json.dumps(arguments)}\n{anyio.run(answer)}", "text")


def csv_head(view: str, rows: int, *columns: str) -> str:
    """The first lines of the CSV file that the first run wrote of a view, or of some of its columns."""
    _run()
    lines = (Path(_place().name) / "csv" / f"{view}.csv").read_text(encoding="utf-8").splitlines()[: rows + 1]
    header = lines[0].split(",")
    kept = [header.index(column) for column in columns]
    text = "\n".join(",".join(cells[i] for i in kept) for cells in csv.reader(lines)) if kept else "\n".join(lines)
    return _fenced(text, "text")


# --- what the program says of itself ---------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its options; the views' commands, which have the same ones, together."""
    ctx = click.Context(group, info_name="agentlens", **group.context_settings)
    parts = [part for name in COMMANDS for part in _command(ctx, name)]
    views = {name: _options(ctx, name) for name in contracts.public_names()}
    shared = [option for option in next(iter(views.values())) if all(option in each for each in views.values())]
    parts += [
        "## Views\n\n```\nagentlens VIEW [OPTIONS]\n```",
        _table(("view", "shows"), [(f"[`{name}`](views.md#{name})", contracts.find(name).help) for name in views]),
        "All of them take the same options:",
        _table(("option", "meaning"), shared),
    ]
    for name, options in views.items():
        own = [option for option in options if option not in shared]
        if own:
            parts += [f"`{name}` has one more:" if len(own) == 1 else f"`{name}` has more:"]
            parts += [_table(("option", "meaning"), own)]
    return "\n\n".join(parts) + "\n"


def _command(ctx: click.Context, name: str) -> Iterable[str]:
    own = _context(ctx, name)
    yield f"## {name}"
    yield f"```\n{own.command_path} {' '.join(own.command.collect_usage_pieces(own))}\n```"
    yield _help(own.command.help or "")
    yield _table(("option", "meaning"), _options(ctx, name))


def _help(text: str) -> str:
    r"""A command's help as Markdown: a paragraph that click would not wrap, marked by a `\b`, is code."""
    parts = inspect.cleandoc(text).split("\n\n")
    code = [f"```sh\n{inspect.cleandoc(part[1:])}\n```" if part.startswith("\b") else part for part in parts]
    return "\n\n".join(code)


def _options(ctx: click.Context, name: str) -> list[tuple[str, str]]:
    own = _context(ctx, name)
    options = [param for param in own.command.get_params(own) if isinstance(param, click.Option)]
    records = [option.get_help_record(own) for option in options]
    return [(f"`{record[0]}`", " ".join(record[1].split())) for record in records if record]


def _context(ctx: click.Context, name: str) -> click.Context:
    command = group.get_command(ctx, name)
    if command is None:
        raise LookupError(name)
    return click.Context(command, info_name=name, parent=ctx)


def tables() -> str:
    """The tables of the lake, column by column."""
    parts = []
    for name, row_type in schema.TABLES.items():
        rows = [
            (f"`{c.name}`", f"`{c.type}`", c.unit or "", "" if c.measured == "n/a" else c.measured, c.null or "", c.doc)
            for c in (*schema.PARTITION_KEYS, *schema.columns(name))
        ]
        parts += [f"## {name}", _first_sentence(row_type.__doc__)]
        parts += [_table(("column", "type", "unit", "measured", "NULL means", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def views() -> str:
    """The public views, column by column, from their contracts."""
    names = contracts.public_names()
    parts = [_table(("view", "one row"), [(f"[`{name}`](#{name})", _row(name)) for name in names])]
    for name in names:
        contract = contracts.load(name)
        keys = [f"`{key}`" + (" (may be n/a)" if key in contract.nullable_grain else "") for key in contract.grain]
        order = [f"`{key.split()[0]}`" + (" downward" if " desc" in key else "") for key in contract.order]
        parts += [f"## {name}", contract.help]
        parts += [f"Unique: {', '.join(keys)}." + (f" Order: {', '.join(order)}." if order else "")]
        parts += [contract.notes] if contract.notes else []
        rows = [
            (f"`{c.name}`", f"`{c.type}`", c.unit or "", _measured(c), c.null or "", c.doc) for c in contract.columns
        ]
        parts += [_table(("column", "type", "unit", "measured", "n/a means", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _row(name: str) -> str:
    """`One row a day and client: what it says` without what every such line begins with."""
    return contracts.find(name).help.removeprefix("One row ")


def _measured(column: contracts.ViewColumn) -> str:
    if column.measured in {None, "always"}:
        return "measured" if column.measured else ""
    return "estimated" if column.measured == "never" else f"if `{column.measured}`"


# --- Markdown --------------------------------------------------------------------------------------------------------


def _fenced(text: str, language: str) -> str:
    lines = [line.rstrip() for line in text.rstrip("\n").splitlines()]
    return "\n".join([f"```{language}", *lines, "```", ""])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Columns without any text are left out."""
    rows = list(rows)
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    lines = [[header[i] for i in kept], ["---"] * len(kept)]
    lines += [[_cell(row[i]) for i in kept] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """A text as it may stand in a table: code may hold anything but a bar."""
    text = text.replace("|", "\\|")
    return text if text.startswith("`") else text.replace("<", "&lt;")
