"""The command `agentlens export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pipeline import contracts, log
from pipeline.cli.options import Filters, estimator_option, filter_options, filters, lake_options, newline_option
from pipeline.errors import ConfigError

EXPORTED = ("csv", "json")


@click.command("export")
@click.option("--view", "views", multiple=True, metavar="NAME", help="Only this view (repeatable).  [default: all]")
@click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(EXPORTED),
    default="csv",
    show_default=True,
    help="How to write it.",
)
@click.option(
    "--output", "-o", required=True, metavar="DIR|FILE|-", help="A folder; for one view also a file, or - for stdout."
)
@newline_option
@estimator_option
@filter_options
@lake_options
def command(
    lake: Path,
    views: tuple[str, ...],
    format_name: str,
    output: str,
    newline: str,
    estimator: str | None,
    **options: Any,
) -> None:
    """Write views to files, one a view.

    CSV files open right in a spreadsheet: plain numbers, empty cells for n/a, `true`/`false` flags as last columns.
    """
    chosen = filters(**options)
    own = {"estimator": estimator} if estimator else {}
    names = views or contracts.public_names()
    for name in names:
        contracts.find(name)
    if output == "-" or Path(output).suffix == f".{format_name}":
        if len(views) != 1:
            hint = "name it with --view, or give a folder"
            raise ConfigError(f"--output {output} takes one view, not {len(names)}", hint=hint)
        from pipeline.cli.render import show_view

        show_view(lake, names[0], chosen, own=own, output=output, newline=newline, format_name=format_name)
        return
    export_views(lake, names, chosen, Path(output), format_name, newline, own)


def export_views(
    lake: Path,
    names: tuple[str, ...],
    chosen: Filters,
    folder: Path,
    format_name: str = "csv",
    newline: str = "lf",
    own: Mapping[str, str] | None = None,
) -> None:
    """Write each view to a file of its name in a folder, and say in one line how sizes of texts were estimated."""
    from pipeline.cli.render import view_rows, write
    from pipeline.cli.view import window_of
    from pipeline.estimator import CHARS4, sentence
    from pipeline.warehouse import connect, refresh

    if lake.exists():
        refresh(lake)
    with connect(lake) as warehouse:
        for name in names:
            rows = view_rows(warehouse.view(name, window_of(chosen, own)), name)
            write(rows, format_name, str(folder / f"{name}.{format_name}"), newline=newline, timezone=chosen.timezone)
        if any(contracts.load(name).sizes_texts for name in names):
            log.LOGGER.info("%s", sentence(warehouse, (own or {}).get("estimator", CHARS4)))
    log.LOGGER.info("%d views written to %s", len(names), folder)
