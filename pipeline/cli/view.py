"""One command a public view, made from its contract."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import contracts
from pipeline.cli.options import (
    Filters,
    estimator_option,
    filter_options,
    filters,
    format_option,
    lake_options,
    limit_option,
    output_options,
)

if TYPE_CHECKING:
    from pipeline.warehouse import Window

PERIODS = ("day", "week", "month", "session", "block")
GROUPS = ("client", "model", "project", "week", "machine", "session")
_SIDE = "COLUMN=VALUE"

# What some views ask for beside the window: their own options, whose values are session variables of the same name.
_OWN = {
    "usage": (
        click.option("--by", type=click.Choice(PERIODS), default="day", show_default=True, help="Length of a period."),
    ),
    "flow": (click.option("--session", metavar="ID", help="Only this session: its id, or the beginning of it."),),
    "timeline": (click.option("--session", metavar="ID", help="Only this session: its id, or the beginning of it."),),
    "compare": (
        click.option("--by", type=click.Choice(GROUPS), help="What makes a group.  [default: client]"),
        click.option(
            "--a",
            metavar=_SIDE,
            callback=lambda _, option, value: _side(option, value),
            help=f"Instead of groups, one side of a comparison: {', '.join(GROUPS)}, such as project=app.",
        ),
        click.option(
            "--b", metavar=_SIDE, callback=lambda _, option, value: _side(option, value), help="The other side."
        ),
    ),
}


def view_command(name: str) -> click.Command:
    """The command of a view. Its help is the view's first comment and its contract's columns."""

    def show(lake: Path, **options: Any) -> None:
        from pipeline.cli.render import show_view

        given = {key: options.pop(key, None) for key in ("by", "session", "a", "b", "estimator")}
        own = {key: value for key, value in given.items() if value is not None}
        if ("a" in own) != ("b" in own):
            raise click.UsageError("--a and --b are the two sides of one comparison: give both")
        if "a" in own and "by" in own:
            raise click.UsageError("--by makes groups, --a and --b two sides: give one or the other")
        output = {key: options.pop(key) for key in ("output", "newline", "format_name", "limit", "compact")}
        show_view(lake, name, filters(**options), own=own, **output)

    show.__doc__ = _help(name)
    decorated = lake_options(output_options(_shape_options(show)))
    if contracts.load(name).has_window:
        decorated = filter_options(decorated)
    if contracts.load(name).sizes_texts:
        decorated = estimator_option(decorated)
    for option in reversed(_OWN.get(name, ())):
        decorated = option(decorated)
    return click.command(name, short_help=contracts.find(name).help)(decorated)


def _side(option: click.Parameter, value: str | None) -> str | None:
    """A filter as the view reads it: a project without its last slash, a week by its Monday."""
    if value is None:
        return None
    column, equals, wanted = value.partition("=")
    column, wanted = column.strip(), wanted.strip()
    if not equals or not wanted or column not in GROUPS:
        hint = f"write it as {_SIDE}, with a column of {', '.join(GROUPS)}"
        raise click.UsageError(f"{option.opts[0]}: {value!r} is no filter; {hint}")
    if column == "project":
        wanted = wanted.rstrip("/\\") or wanted
    if column == "week":
        try:
            day = date.fromisoformat(wanted)
        except ValueError:
            raise click.UsageError(f"{option.opts[0]}: {wanted!r} is no day; write it as 2026-03-01") from None
        wanted = str(day - timedelta(days=day.weekday()))
    return f"{column}={wanted}"


def _shape_options(function: Any) -> Any:
    for option in (
        click.option("--compact", is_flag=True, help="Fewer columns on the terminal."),
        limit_option,
        format_option,
    ):
        function = option(function)
    return function


def _help(name: str) -> str:
    """The text of `--help`: what a row is, what each column means, what to know."""
    contract = contracts.load(name)
    lines = [contract.help, "", "\b", "Columns:"]
    width = max(len(column.name) for column in contract.columns)
    for column in contract.columns:
        unit = f" [{column.unit}]" if column.unit and column.unit not in ("requests", "sessions", "calls") else ""
        lines.append(f"  {column.name:<{width}}  {column.doc}{unit}")
    if contract.notes:
        lines += ["", contract.notes]
    return "\n".join(lines)


def window_of(chosen: Filters, own: Mapping[str, str] | None = None) -> Window:
    """The window for the warehouse of what the user asked for."""
    from pipeline.warehouse import Window

    return Window(chosen.since, chosen.until, chosen.clients, chosen.project, chosen.timezone, own or {})
