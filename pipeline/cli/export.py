"""The command `agentlens export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pipeline import contracts, log
from pipeline.cli.options import estimator_option, filter_options, filters, lake_options, newline_option
from pipeline.errors import ConfigError
from pipeline.export import FORMATS
from pipeline.window import Filters, window_of

EXPORTED = tuple(name for name in FORMATS if name != "table")


@click.command("export")
@click.option("--view", "views", multiple=True, metavar="NAME", help="Only this view (repeatable).  [default: all]")
@click.option(
    "--format",
    "-f",
    "format_name",
    type=click.Choice(EXPORTED),
    help="How to write it.  [default: as the file's name says, else csv]",
)
@click.option(
    "--output",
    "-o",
    required=True,
    metavar="DIR|FILE|-",
    help="A folder; for one view, or a workbook (xlsx) of several, also a file, or - for stdout.",
)
@newline_option
@estimator_option
@filter_options
@lake_options
def command(
    lake: Path,
    views: tuple[str, ...],
    format_name: str | None,
    output: str,
    newline: str,
    estimator: str | None,
    **options: Any,
) -> None:
    """Write views to files, one a view.

    CSV files open right in a spreadsheet: plain numbers, empty cells for n/a, `true`/`false` flags as last columns.
    An xlsx file named by --output is one workbook, a sheet a view; its estimated cells show a ~ and stay numbers.
    """
    from pipeline.cli.render import format_of, show_view

    chosen = filters(**options)
    own = {"estimator": estimator} if estimator else {}
    names = tuple(dict.fromkeys(views)) or contracts.public_names()
    for name in names:
        contracts.find(name)
    named = format_of(output)
    form = FORMATS[format_name or (named if named in EXPORTED else None) or "csv"]
    if output != "-" and named is None:
        export_views(lake, names, chosen, Path(output), form.name, newline, own)
    elif form.many:
        export_book(lake, names, chosen, output, form.name, own)
    elif len(names) == 1:
        show_view(lake, names[0], chosen, own=own, output=output, newline=newline, format_name=form.name)
    else:
        hint = "name it with --view, give a folder, or make a workbook: --format xlsx"
        raise ConfigError(f"--output {output} takes one view as {form.name}, not {len(names)}", hint=hint)


def export_book(
    lake: Path, names: tuple[str, ...], chosen: Filters, output: str, format_name: str, own: Mapping[str, str]
) -> None:
    """Write views to one file, which has room for several."""
    from pipeline.cli.render import destination, not_to_a_terminal, sizing, view_rows
    from pipeline.export import Options, write_all
    from pipeline.warehouse import connect_current

    not_to_a_terminal(format_name, output)
    with connect_current(lake) as warehouse, destination(output) as stream:
        window = window_of(chosen, own)
        said = sizing(warehouse, names, own)
        results = (view_rows(warehouse.view(name, window), name, said) for name in names)
        write_all(format_name, results, stream, Options(timezone=chosen.timezone))
    log.LOGGER.info("%d views written to %s", len(names), "stdout" if output == "-" else output)


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
    from pipeline.cli.render import sizing, view_rows, write
    from pipeline.warehouse import connect_current

    with connect_current(lake) as warehouse:
        for name in names:
            rows = view_rows(warehouse.view(name, window_of(chosen, own)), name)
            write(rows, format_name, str(folder / f"{name}.{format_name}"), newline=newline, timezone=chosen.timezone)
        said = sizing(warehouse, names, own)
        if said:
            log.LOGGER.info("%s", said)
    log.LOGGER.info("%d views written to %s", len(names), folder)
