"""Stacks of options that look alike everywhere, and the values they become."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline import log, window
from pipeline.errors import ConfigError
from pipeline.paths import default_lake
from pipeline.window import ESTIMATOR, Filters, OwnOption

FORMAT_NAMES = ("table", "csv", "json", "parquet", "xlsx")  # of export.FORMATS, which an ingest need not load
F = TypeVar("F", bound=Callable[..., Any])


def _stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    if value and not ctx.resilient_parsing:
        log.set_up(quiet=True)
    return value


def _lake(_: click.Context, __: click.Parameter, value: Path | None) -> Path:
    return value if value is not None else default_lake(os.environ)


def _lake_options(kind: click.Path) -> Callable[[F], F]:
    return _stack(
        click.option(
            "--lake",
            envvar="AGENTLENS_LAKE",
            type=kind,
            callback=_lake,
            help="Folder of the lake.  [default: $AGENTLENS_LAKE, else the user's data folder]",
        ),
        click.option(
            "--quiet", "-q", is_flag=True, callback=_set_quiet, expose_value=False, help="Errors only on stderr."
        ),
        click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback with an error."),
    )


lake_options = _lake_options(click.Path(file_okay=False, path_type=Path))
any_lake_options = _lake_options(click.Path(path_type=Path))  # for whom a file in the lake's place is a finding

ingest_options = _stack(
    click.option(
        "--home",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Read clients' data below this home; the clients' own environment variables are then ignored.",
    ),
    click.option("--client", "clients", multiple=True, metavar="NAME", help="Only this client (repeatable)."),
    click.option("--machine", help="Name of this machine in the lake.  [default: the host's name]"),
    click.option(
        "--prices",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Your own price table, with the columns of `agentlens prices`; it goes before the bundled one and is "
        "remembered by the lake. `none` forgets it.",
    ),
    click.option("--jobs", type=click.IntRange(1), help="Worker processes.  [default: one a processor]"),
    click.option(
        "--wait",
        type=click.FloatRange(0),
        default=300.0,
        show_default=True,
        help="Seconds to wait for the lake's lock.",
    ),
    click.option(
        "--exact",
        is_flag=True,
        help="Have the Anthropic API count the texts of skills and instruction files. This sends them there. Needs the "
        "extra `exact` and $ANTHROPIC_API_KEY; $ANTHROPIC_BASE_URL is respected.",
    ),
    click.option("--reread", is_flag=True, help="Read unchanged files again, too."),
    click.option("--stats", is_flag=True, help="Print what was done as one line of JSON on stdout."),
)

filter_options = _stack(
    click.option("--client", "clients", multiple=True, metavar="NAME", help="Only this client (repeatable)."),
    click.option("--project", metavar="PATH", help="Only this working directory: its path, or the end of it."),
    click.option(
        "--since",
        metavar="WHEN",
        help="From then on: 2026-03-01, 2026-03-01T12:00, 7d, 24h, 2w, today, yesterday.",
    ),
    click.option("--until", metavar="WHEN", help="Up to then; a day is included."),
    click.option("--timezone", metavar="ZONE", help="Zone of days and of times you give.  [default: the machine's]"),
)


def own_option(option: OwnOption) -> Callable[[F], F]:
    """An option that only some views have."""
    kind = click.Choice(option.choices) if option.choices else None
    return click.option(
        f"--{option.name}",
        type=kind,
        metavar=option.metavar,
        default=option.default,
        show_default=option.default is not None,
        help=option.help,
    )


estimator_option = own_option(ESTIMATOR)
format_option = click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(FORMAT_NAMES),
    help="How to write it.  [default: table on a terminal, else csv]",
)
limit_option = click.option("--limit", type=click.IntRange(1), help="At most so many rows.")
newline_option = click.option(
    "--newline", type=click.Choice(["lf", "crlf"]), default="lf", show_default=True, help="Line ends of CSV."
)

output_options = _stack(
    click.option("--output", "-o", metavar="FILE", help="Write to a file; - is stdout.  [default: -]"), newline_option
)


def filters(
    *,
    since: str | None = None,
    until: str | None = None,
    clients: tuple[str, ...] = (),
    project: str | None = None,
    timezone: str | None = None,
) -> Filters:
    """Turn the filter options into values. Raises click.UsageError for a time, zone or client that is none."""
    with wrong_usage():
        return window.filters(
            since=since,
            until=until,
            clients=clients,
            project=project,
            timezone=timezone,
            local_zone=window.local_zone(os.environ),
            now=datetime.now(UTC),
            prefix="--",
        )


@contextmanager
def wrong_usage() -> Iterator[None]:
    """What is wrong with a value that an option gave is wrong usage of the command."""
    try:
        yield
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def is_terminal() -> bool:
    """Is stdout a terminal?"""
    return sys.stdout.isatty()
