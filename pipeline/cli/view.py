"""One command a public view, made from its contract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import contracts
from pipeline.cli.options import Filters, filter_options, filters, lake_options, output_options

if TYPE_CHECKING:
    from pipeline.warehouse import Window

PERIODS = ("day", "week", "month", "session")


def view_command(name: str) -> click.Command:
    """The command of a view. Its help is the view's first comment and its contract's columns."""

    def show(lake: Path, **options: Any) -> None:
        from pipeline.cli.render import show_view

        by = options.pop("by", None)
        output = {key: options.pop(key) for key in ("output", "newline", "format_name", "limit", "compact")}
        show_view(lake, name, filters(**options), by=by, **output)

    show.__doc__ = _help(name)
    decorated = lake_options(output_options(_shape_options(show)))
    if contracts.load(name).has_window:
        decorated = filter_options(decorated)
    if name == "usage":
        by = click.option(
            "--by", type=click.Choice(PERIODS), default="day", show_default=True, help="Length of a period."
        )
        decorated = by(decorated)
    return click.command(name, short_help=contracts.find(name).help)(decorated)


def _shape_options(function: Any) -> Any:
    for option in (
        click.option("--compact", is_flag=True, help="Fewer columns on the terminal."),
        click.option("--limit", type=click.IntRange(1), help="At most so many rows."),
        click.option(
            "--format",
            "-f",
            "format_name",
            type=click.Choice(["table", "csv", "json"]),
            help="How to write it.  [default: table on a terminal, else csv]",
        ),
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


def window_of(chosen: Filters, by: str | None = None) -> Window:
    """The window for the warehouse of what the user asked for."""
    from pipeline.warehouse import Window

    options = {} if by is None else {"by": by}
    return Window(chosen.since, chosen.until, chosen.clients, chosen.project, chosen.timezone, options)
