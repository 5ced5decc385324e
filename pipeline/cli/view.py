"""One command a public view, made from its contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import contracts
from pipeline.cli.options import (
    filter_options,
    filters,
    format_option,
    lake_options,
    limit_option,
    output_options,
    own_option,
    wrong_usage,
)
from pipeline.window import own_options, own_values

if TYPE_CHECKING:
    from pipeline.warehouse import Sort


def view_command(name: str) -> click.Command:
    """The command of a view. Its help is the view's first comment and its contract's columns."""

    def show(lake: Path, **options: Any) -> None:
        from pipeline.cli.render import show_view

        given = {option.name: options.pop(option.name) for option in own_options(name)}
        with wrong_usage():
            own = own_values(name, given, prefix="--")
        sort = _sort(name, options.pop("sort"), own)
        output = {key: options.pop(key) for key in ("output", "newline", "format_name", "limit", "compact")}
        show_view(lake, name, filters(**options), own=own, sort=sort, **output)

    show.__doc__ = _help(name)
    decorated = lake_options(output_options(_shape_options(show)))
    if contracts.load(name).has_window:
        decorated = filter_options(decorated)
    for option in reversed(own_options(name)):
        decorated = own_option(option)(decorated)
    return click.command(name, short_help=contracts.find(name).help)(decorated)


def _sort(name: str, asked: tuple[str, ...], own: Mapping[str, str]) -> list[Sort]:
    """What to sort by. A column is named as in a CSV or as on the terminal; n/a is always last."""
    columns = [column.name for column in contracts.load(name).columns]
    shown = {own["by"]: "day"} if name == "usage" and "by" in own else {}  # what the period is called in the output
    found = []
    for text in asked:
        column, colon, way = text.strip().partition(":")
        down = column.startswith("-") != (way == "desc")
        column = "_".join(column.removeprefix("-").split())
        column = shown.get(column, column)
        if column not in columns:
            raise click.UsageError(f"--sort: {name} has no column {column!r}; it has {', '.join(columns)}")
        if colon and (way not in {"asc", "desc"} or text.startswith("-")):
            raise click.UsageError(f"--sort: {text!r} is no order; write it as COLUMN, COLUMN:desc or -COLUMN")
        found.append((column, down))
    return found


def _shape_options(function: Any) -> Any:
    for option in (
        click.option("--compact", is_flag=True, help="Fewer columns on the terminal."),
        limit_option,
        click.option(
            "--sort",
            multiple=True,
            metavar="COLUMN",
            help="Sort by this column, smallest first; by -COLUMN or COLUMN:desc, largest first; n/a is last "
            "(repeatable).",
        ),
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
