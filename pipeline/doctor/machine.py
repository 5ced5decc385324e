"""The machine: versions, extras, clock and time zone."""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import metadata
from zoneinfo import ZoneInfo

from pipeline import __version__
from pipeline.doctor.finding import LISTED, Finding, many, named, when
from pipeline.paths import resource

DISTRIBUTION = "agentlens-pipeline"
LIBRARIES = ("duckdb", "polars", "pyarrow")
SLACK = timedelta(minutes=10)  # clocks of two machines differ by less
_LONG = timedelta(days=30)


def versions() -> Iterator[Finding]:
    """What is installed."""
    found = {"agentlens": __version__, "python": platform.python_version()}
    missing = []
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    text = ", ".join(f"{name} {version}" for name, version in found.items()) + f", on {platform.platform()}"
    facts = found | {"platform": platform.platform(), "executable": sys.executable}
    if missing:
        todo = f"pip install --force-reinstall {DISTRIBUTION}"
        yield Finding("versions", "broken", f"not installed: {', '.join(missing)}; {text}", todo, facts=facts)
    else:
        yield Finding("versions", "ok", text, facts=facts)
    for extra, needed in sorted(extras().items()):
        yield _extra(extra, needed)


def extras() -> dict[str, list[str]]:
    """The distributions that each extra needs, by what was installed, or by the checkout that this runs from."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        try:
            project = tomllib.loads((resource("sql").parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        except (OSError, tomllib.TOMLDecodeError, KeyError):
            return {}  # neither installed nor a checkout: there is nobody to ask
        required = [f'{d}; extra == "{e}"' for e, all_ in project["optional-dependencies"].items() for d in all_]
    found: dict[str, list[str]] = {}
    for requirement in required:
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", requirement)
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if extra and name and extra[1] != "dev":
            found.setdefault(extra[1], []).append(name[0])
    return found


def _extra(extra: str, needed: list[str]) -> Finding:
    found: dict[str, str | None] = {}
    for name in needed:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    facts = {"present": None not in found.values(), "distributions": found}
    if facts["present"]:
        text = ", ".join(f"{name} {version}" for name, version in found.items())
        return Finding("extra", "ok", text, subject=extra, facts=facts)
    missing = ", ".join(name for name, version in found.items() if version is None)
    todo = f"if you want it: pip install '{DISTRIBUTION}[{extra}]'"
    return Finding("extra", "note", f"not installed ({missing})", todo, extra, facts)


def clock(now: datetime, newest: datetime | None, in_future: list[str]) -> Finding:
    """The clock against the newest transcript: on disk, or in the lake."""
    facts = {
        "now": now.isoformat(),
        "newest": newest.isoformat() if newest else None,
        "in_future": in_future[:LISTED],
    }
    todo = "set the clock right, of this machine or of the one that wrote them"
    if in_future:
        text = f"now is {when(now)}; {many(len(in_future), 'transcript')} changed later than that: {named(in_future)}"
        return Finding("clock", "warning", text, todo, facts=facts)
    if newest and newest > now + SLACK:
        text = f"now is {when(now)}, and the newest transcript is of {when(newest)}"
        return Finding("clock", "warning", text, todo, facts=facts)
    if newest and now - newest > _LONG:
        text = f"now is {when(now)}; the newest transcript is of {when(newest)}, {(now - newest).days:,} days ago"
        return Finding("clock", "note", text, "look at the clock, if you worked since", facts=facts)
    return Finding("clock", "ok", f"now is {when(now)}", facts=facts)


def timezone(name: str, source: str, now: datetime, offset: timedelta) -> Finding:
    """The zone of days, and whether it agrees with the machine's own clock, which is `offset` from UTC."""
    facts = {"timezone": name, "source": source, "utc_offset_seconds": int(offset.total_seconds())}
    text = f"{name} (from {source})"
    if now.astimezone(ZoneInfo(name)).utcoffset() != offset:
        text = f"days are those of {text}, but the machine's clock is {offset} from UTC"
        return Finding("timezone", "warning", text, "name your zone: --timezone Europe/Berlin, or $TZ", facts=facts)
    return Finding("timezone", "ok", text, facts=facts)
