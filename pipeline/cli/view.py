"""One command a public view, made from its contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipeline import contracts
from pipeline.cli.options import (
    filter_options,
    filters,
    format_option,
    lake_options,
    limit_option,
    output_options,
    wrong_usage,
)
from pipeline.window import OWN, OwnOption, own_values


def view_command(name: str) -> click.Command:
    """The command of a view. Its help is the view's first comment and its contract's columns."""

    def show(lake: Path, **options: Any) -> None:
        from pipeline.cli.render import show_view

        given = {option.name: options.pop(option.name) for option in OWN.get(name, ())}
        with wrong_usage():
            own = own_values(name, given, prefix="--")
        output = {key: options.pop(key) for key in ("output", "newline", "format_name", "limit", "compact")}
        show_view(lake, name, filters(**options), own=own, **output)

    show.__doc__ = _help(name)
    decorated = lake_options(output_options(_shape_options(show)))
    if contracts.load(name).has_window:
        decorated = filter_options(decorated)
    for option in reversed(OWN.get(name, ())):
        decorated = _own_option(option)(decorated)
    return click.command(name, short_help=contracts.find(name).help)(decorated)


def _own_option(option: OwnOption) -> Callable[[Any], Any]:
    """An option of one view's command."""
    kind = click.Choice(option.choices) if option.choices else None
    return click.option(
        f"--{option.name}",
        type=kind,
        metavar=option.metavar,
        default=option.default,
        show_default=option.default is not None,
        help=option.help,
    )


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
