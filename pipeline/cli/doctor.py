"""The command `agentlens doctor`."""

from __future__ import annotations

import os
import shutil
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import Exit
from pipeline.cli.options import any_lake_options, filters, is_terminal
from pipeline.client import Home
from pipeline.window import local_zone

if TYPE_CHECKING:
    from pipeline.doctor import Finding

_COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "broken": "red"}


@click.command("doctor")
@click.option(
    "--home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look at clients' data below this home; the clients' own environment variables are then ignored.",
)
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Only this client (repeatable).")
@click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to write it.",
)
@any_lake_options
def command(lake: Path, home: Path | None, clients: tuple[str, ...], format_name: str) -> int:
    """Say what is there to read, what of it is not, and whether the lake is as it should be.

    Each check is ok, a note, a warning, or broken, with what to do. Nothing is changed, and nothing leaves this
    machine. The exit code is 1 only if something is broken.
    """
    from pipeline.doctor import Situation, examine, worst

    now = datetime.now(UTC)
    chosen = filters(clients=tuple(dict.fromkeys(clients)))
    situation = Situation(
        lake=lake.absolute(),
        home=Home(home.absolute(), {}) if home else Home(Path.home(), dict(os.environ)),
        clients=chosen.clients,
        now=now,
        timezone=chosen.timezone,
        timezone_source=_zone_source(),
        utc_offset=now.astimezone().utcoffset() or timedelta(),
    )
    findings = examine(situation)
    click.echo(_json(findings) if format_name == "json" else "\n".join(_table(findings)))
    return Exit.FAILED if worst(findings) == "broken" else Exit.DONE


def _zone_source() -> str:
    """Where the name of the machine's zone comes from."""
    name = local_zone(os.environ)
    if os.environ.get("TZ", "").lstrip(":") == name:
        return "$TZ"
    if os.path.realpath("/etc/localtime").endswith(f"zoneinfo/{name}"):
        return "/etc/localtime"
    return "nothing that names one"


def _json(findings: list[Finding]) -> str:
    import msgspec

    from pipeline import __version__
    from pipeline.doctor import worst

    said = {"agentlens": __version__, "status": worst(findings), "checks": findings}
    return msgspec.json.format(msgspec.json.encode(said), indent=2).decode()


def _table(findings: list[Finding]) -> list[str]:
    """A line a finding, as wide as the terminal; what to do below it, where there is something."""
    from pipeline.doctor import STATUSES
    from pipeline.export.columns import clean

    width = shutil.get_terminal_size().columns if "COLUMNS" in os.environ or is_terminal() else None
    heads = [f"{finding.check.replace('_', ' ')} {finding.subject or ''}".strip() for finding in findings]
    column = min(max(map(len, heads)), 36)
    lines = []
    for finding, head in zip(findings, heads, strict=True):
        status = _painted(f"{finding.status:<7}", finding.status)
        texts = _wrapped(clean(finding.message), width, column)
        lines.append(f"{status}  {clean(head):<{column}}  {texts[0]}")
        lines += [f"{'':{9 + column}}  {text}" for text in texts[1:]]
        if finding.todo and finding.status != "ok":
            first, *rest = _wrapped(clean(finding.todo), width, column + 3)
            lines += [f"{'':{9 + column}}  > {first}", *(f"{'':{9 + column}}    {text}" for text in rest)]
    counts = {status: sum(finding.status == status for finding in findings) for status in STATUSES}
    return [*lines, "", ", ".join(f"{count} {status}" for status, count in counts.items() if count)]


def _wrapped(text: str, width: int | None, column: int) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width - column - 11, 24), break_on_hyphens=False, break_long_words=False) or [""]


def _painted(text: str, status: str) -> str:
    from pipeline.cli.render import has_color

    return click.style(text, fg=_COLOURS[status]) if has_color() else text
