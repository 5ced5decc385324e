"""Stacks of options that look alike everywhere, and the values they become."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click

from pipeline import log
from pipeline.paths import default_lake

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


lake_options = _stack(
    click.option(
        "--lake",
        envvar="AGENTLENS_LAKE",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_lake,
        help="Folder of the lake.  [default: $AGENTLENS_LAKE, else the user's data folder]",
    ),
    click.option("--quiet", "-q", is_flag=True, callback=_set_quiet, expose_value=False, help="Errors only on stderr."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback with an error."),
)

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

format_option = click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(["table", "csv", "json"]),
    help="How to write it.  [default: table on a terminal, else csv]",
)
limit_option = click.option("--limit", type=click.IntRange(1), help="At most so many rows.")
estimator_option = click.option(
    "--estimator",
    type=click.Choice(["chars4", "calibrated"]),
    help="How to estimate sizes of texts: characters / 4, or by the characters a token that were measured on your data "
    "where that was often enough (see `agentlens calibration`).  [default: chars4]",
)
newline_option = click.option(
    "--newline", type=click.Choice(["lf", "crlf"]), default="lf", show_default=True, help="Line ends of CSV."
)

output_options = _stack(
    click.option("--output", "-o", metavar="FILE", help="Write to a file; - is stdout.  [default: -]"), newline_option
)


@dataclass(frozen=True, slots=True)
class Filters:
    """A window as the user gave it, with the zone that its days are of."""

    since: datetime | None
    until: datetime | None
    clients: tuple[str, ...]
    project: str | None
    timezone: str


def filters(
    *,
    since: str | None = None,
    until: str | None = None,
    clients: tuple[str, ...] = (),
    project: str | None = None,
    timezone: str | None = None,
) -> Filters:
    """Turn the filter options into values. Raises click.UsageError for a time, zone or client that is none."""
    zone = _zone(timezone)
    now = datetime.now(UTC)
    for name in clients:
        _known_client(name)
    return Filters(
        since=parse_time(since, zone, now, "--since", is_end=False),
        until=parse_time(until, zone, now, "--until", is_end=True),
        clients=clients,
        project=project.rstrip("/\\") or project if project else None,
        timezone=zone.key,
    )


def _known_client(name: str) -> None:
    from pipeline.clients import names

    if name not in names():
        raise click.UsageError(f"--client: there is no client {name!r}; known: {', '.join(names())}")


def _zone(name: str | None) -> ZoneInfo:
    if name is None:
        return ZoneInfo(local_zone())
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        hint = "try a name such as Europe/Berlin or UTC"
        raise click.UsageError(f"--timezone: there is no zone {name!r}; {hint}") from None


def local_zone() -> str:
    """The IANA name of the machine's zone; UTC where it cannot be told."""
    candidates = [os.environ.get("TZ", "").lstrip(":")]
    with contextlib.suppress(OSError):  # not on every system
        candidates.append(os.path.realpath("/etc/localtime").partition("zoneinfo/")[2])
    for name in candidates:
        try:
            if name:
                return ZoneInfo(name).key
        except (OSError, ValueError, KeyError):
            continue
    return "UTC"


_SPAN = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_time(text: str | None, zone: ZoneInfo, now: datetime, option: str, *, is_end: bool) -> datetime | None:
    """A moment from what a person writes. A day means its start, as an end the start of the next day."""
    if text is None:
        return None
    text = text.strip()
    ago = re.fullmatch(r"(\d{1,5})\s*([hdw])", text.lower())
    if ago:
        return now - int(ago[1]) * _SPAN[ago[2]]
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        day = {"today": today, "yesterday": today - timedelta(days=1)}.get(text.lower())
        moment = day or datetime.fromisoformat(text)
    except ValueError:
        hint = "write it as 2026-03-01, 2026-03-01T12:00, 7d, 24h, 2w, today or yesterday"
        raise click.UsageError(f"{option}: {text!r} is no time; {hint}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    is_day = day is not None or re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", text)
    if is_end and is_day:
        moment = (moment.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=zone)
    return moment.astimezone(UTC)


def is_terminal() -> bool:
    """Is stdout a terminal?"""
    return sys.stdout.isatty()
