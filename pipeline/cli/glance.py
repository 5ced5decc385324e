"""What `agentlens` shows without a command: the last days at a glance, or how to begin."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import __version__, paths
from pipeline.cli.options import filters

if TYPE_CHECKING:
    from pipeline.glance import Table
    from pipeline.warehouse import Warehouse, Window

_FIRST = (
    ("agentlens run", "read the transcripts of this machine, write every view as CSV"),
    ("agentlens doctor", "what is there to read, and what is not"),
    ("agentlens --help", "all commands"),
)
_NEXT = (
    ("agentlens run", "bring this up to date"),
    ("agentlens context --since 30d", "what else rides along in every request"),
    ("agentlens flow --session ID", "how a session's context grew"),
    ("agentlens doctor", "is everything read, and is the lake as it should be"),
    ("agentlens --help", "all commands"),
)


def show() -> None:
    """Print it. Loads nothing heavy before it is known that there is a lake."""
    from pipeline.cli.render import destination

    lake = paths.default_lake(os.environ)
    lines = _at_a_glance(lake) if _is_there(lake) else _beginning(lake)
    with destination(None) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode(sys.stdout.encoding or "utf-8", "replace"))


def _is_there(lake: Path) -> bool:
    from pipeline.warehouse import DATABASE

    return (lake / DATABASE).exists() or next(lake.glob("*/client=*"), None) is not None


def _beginning(lake: Path) -> Iterator[str]:
    yield f"AgentLens {__version__}: what AI coding agents cost, from the transcripts that they leave on disk."
    yield ""
    yield f"There is no lake at {lake} yet. Begin with"
    yield from _listed(_FIRST)


def _listed(commands: tuple[tuple[str, str], ...]) -> Iterator[str]:
    width = max(len(command) for command, _ in commands)
    yield from (f"  {command:<{width}}  {why}" for command, why in commands)


def _at_a_glance(lake: Path) -> Iterator[str]:
    from pipeline.glance import DAYS, HEAD, LATEST, TABLES, UNPRICED
    from pipeline.warehouse import Window, connect, refresh

    refresh(lake)
    chosen = filters()
    now = datetime.now(UTC)
    window = Window(since=now - timedelta(days=DAYS), timezone=chosen.timezone)
    with connect(lake) as warehouse:
        (head,) = warehouse.ask(HEAD, window).table().to_pylist()
        (latest,) = warehouse.ask(LATEST).table().to_pylist()
        said = f"The last {DAYS} days: {head['requests']:,} requests in {head['sessions']:,} sessions."
        if head["requests_without_usage"]:
            said += f" {head['requests_without_usage']:,} of them have no usage on record and are in no sum of tokens."
        yield said
        if latest["ingested_at"]:
            days = (now - latest["ingested_at"]).days
            if days >= 1:
                yield f"New transcripts were last read {days:,} {'day' if days == 1 else 'days'} ago."
        if head["requests"]:
            for table in TABLES:
                yield from _table(warehouse, table, window)
            models = [row["model"] for row in warehouse.ask(UNPRICED, window).table().to_pylist()]
            if models:
                from pipeline.export.columns import clean

                yield ""
                yield f"Without a price: {', '.join(map(clean, models))}. Give yours with agentlens run --prices FILE."
        elif latest["last_ts"]:
            yield f"The newest record of the lake is of {latest['last_ts']:%Y-%m-%d}: see agentlens usage --by month."
        yield ""
        yield f"Plain numbers are measured, ~ is estimated, n/a is not recorded. The lake: {shlex.quote(str(lake))}"
        yield from _listed(_NEXT)


def _table(warehouse: Warehouse, table: Table, window: Window) -> Iterator[str]:
    """A table under its title; nothing where it has no rows."""
    from pipeline.cli.render import has_color, table_width
    from pipeline.export import Options, Rows
    from pipeline.export.table import write

    rows = warehouse.ask(table.sql, window).table()
    if not rows.num_rows:
        return
    made = Rows(table.title, table.columns, rows.to_batches(), keys=table.keys)
    encoding = sys.stdout.encoding or "utf-8"
    stream = io.BytesIO()
    write(
        made,
        stream,
        Options(
            width=table_width(to_stdout=True),
            color=has_color(),
            encoding=encoding,
            limit=table.most,
            legend=False,
        ),
    )
    yield ""
    yield f"{table.title} ({table.more}):"
    yield ""
    yield from stream.getvalue().decode(encoding).splitlines()
