"""What a person or a program asks of a view, as text, and the values it becomes: times, zones, filters, own options.

The command line and the MCP server ask by the same words. What is wrong is a ConfigError that names the option, with
the `prefix` that options have there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.warehouse import Window

# --- the window ----------------------------------------------------------------------------------------------------


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
    local_zone: str,
    now: datetime,
    prefix: str = "",
) -> Filters:
    """Turn texts into values. Raises ConfigError for a time, zone or client that is none."""
    zone = _zone(local_zone if timezone is None else timezone, f"{prefix}timezone")
    for name in clients:
        _known_client(name, f"{prefix}client")
    return Filters(
        since=parse_time(since, zone, now, f"{prefix}since", is_end=False),
        until=parse_time(until, zone, now, f"{prefix}until", is_end=True),
        clients=clients,
        project=project.rstrip("/\\") or project if project else None,
        timezone=zone.key,
    )


def window_of(chosen: Filters, own: Mapping[str, str] | None = None) -> Window:
    """The window for the warehouse of what the user asked for."""
    from pipeline.warehouse import Window

    return Window(chosen.since, chosen.until, chosen.clients, chosen.project, chosen.timezone, own or {})


def _known_client(name: str, option: str) -> None:
    from pipeline.clients import names

    if name not in names():
        raise ConfigError(f"{option}: there is no client {name!r}", hint=f"known: {', '.join(names())}")


def _zone(name: str, option: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        hint = "try a name such as Europe/Berlin or UTC"
        raise ConfigError(f"{option}: there is no zone {name!r}", hint=hint) from None


def local_zone(environ: Mapping[str, str]) -> str:
    """The IANA name of the machine's zone; UTC where it cannot be told."""
    candidates = [environ.get("TZ", "").lstrip(":")]
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
    try:
        ago = re.fullmatch(r"(\d{1,5})\s*([hdw])", text.lower())
        if ago:
            return now - int(ago[1]) * _SPAN[ago[2]]
        today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
        day = {"today": today, "yesterday": today - timedelta(days=1)}.get(text.lower())
        moment = day or datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        is_day = day is not None or re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", text)
        if is_end and is_day:
            moment = (moment.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the second: outside the years that there are
        hint = "write it as 2026-03-01, 2026-03-01T12:00, 7d, 24h, 2w, today or yesterday"
        raise ConfigError(f"{option}: {text!r} is no time", hint=hint) from None


# --- what some views ask for beside the window ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnOption:
    """An option of a view, whose value is a session variable of the same name."""

    name: str
    help: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    metavar: str | None = None


PERIODS = ("day", "week", "month", "session", "block")
GROUPS = ("client", "model", "project", "week", "machine", "session")
_SIDE = "COLUMN=VALUE"
_SESSION = OwnOption("session", "Only this session: its id, or the beginning of it.", metavar="ID")

ESTIMATOR = OwnOption(
    "estimator",
    "How sizes of texts are estimated: characters / 4, or by the characters a token that were measured on your data "
    "where that was often enough (see calibration).  [default: chars4]",
    ("chars4", "calibrated"),
)
_OWN: Mapping[str, tuple[OwnOption, ...]] = {
    "usage": (OwnOption("by", "Length of a period.", PERIODS, default="day"),),
    "flow": (_SESSION,),
    "timeline": (_SESSION,),
    "compare": (
        OwnOption("by", "What makes a group.  [default: client]", GROUPS),
        OwnOption(
            "a",
            f"Instead of groups, one side of a comparison: {', '.join(GROUPS)}, such as project=app.",
            metavar=_SIDE,
        ),
        OwnOption("b", "The other side.", metavar=_SIDE),
    ),
}


def own_options(view: str) -> tuple[OwnOption, ...]:
    """The options that a view has beside the window. Raises ConfigError for an unknown view."""
    from pipeline import contracts  # an ingest has no use for them

    more = (ESTIMATOR,) if contracts.load(view).sizes_texts else ()
    return (*_OWN.get(view, ()), *more)


def own_values(view: str, given: Mapping[str, str | None], prefix: str = "") -> dict[str, str]:
    """What was given of a view's own options, as the view reads it. Raises ConfigError for what is none."""
    values = {}
    for option in own_options(view):
        value = given.get(option.name)
        value = option.default if value is None else value
        if value is None:
            continue
        if option.choices and value not in option.choices:
            raise ConfigError(f"{prefix}{option.name}: {value!r} is none of {', '.join(option.choices)}")
        values[option.name] = _side(value, f"{prefix}{option.name}") if option.metavar == _SIDE else value
    if ("a" in values) != ("b" in values):
        raise ConfigError(f"{prefix}a and {prefix}b are the two sides of one comparison: give both")
    if "a" in values and "by" in values:
        raise ConfigError(f"{prefix}by makes groups, {prefix}a and {prefix}b two sides: give one or the other")
    return values


def renamed(own: Mapping[str, str]) -> dict[str, str]:
    """The columns whose heading follows an option: a period's is its length."""
    return {"day": own["by"]} if "by" in own else {}


def _side(value: str, option: str) -> str:
    """A filter as the view reads it: a project without its last slash, a week by its Monday."""
    column, equals, wanted = value.partition("=")
    column, wanted = column.strip(), wanted.strip()
    if not equals or not wanted or column not in GROUPS:
        hint = f"write it as {_SIDE}, with a column of {', '.join(GROUPS)}"
        raise ConfigError(f"{option}: {value!r} is no filter", hint=hint)
    if column == "project":
        wanted = wanted.rstrip("/\\") or wanted
    if column == "week":
        try:
            day = date.fromisoformat(wanted)
        except ValueError:
            raise ConfigError(f"{option}: {wanted!r} is no day", hint="write it as 2026-03-01") from None
        wanted = str(day - timedelta(days=day.weekday()))
    return f"{column}={wanted}"
