"""The command `agentlens run`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from pipeline import contracts, log, paths
from pipeline.cli import Exit
from pipeline.cli.export import export_views
from pipeline.cli.ingest import bring_up_to_date, print_stats
from pipeline.cli.options import estimator_option, filters, ingest_options, lake_options, newline_option


@click.command("run")
@ingest_options
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the CSV files.  [default: csv beside the lake]",
)
@newline_option
@estimator_option
@click.option("--timezone", metavar="ZONE", help="Zone of days.  [default: the machine's]")
@click.option(
    "--strict", is_flag=True, help="Exit with 1 when lines were skipped, files not read, or models have no price."
)
@click.option(
    "--sample-if-empty",
    is_flag=True,
    help="Where no transcripts are found, show what it does on the sample that comes with it.",
)
@lake_options
def command(
    lake: Path,
    output: Path | None,
    newline: str,
    estimator: str | None,
    timezone: str | None,
    strict: bool,
    sample_if_empty: bool,
    stats: bool,
    **options: Any,
) -> int:
    """Bring the lake up to date, then export every view as CSV (the cron job).

    Warnings and one summary line go to stderr. Exit code 0 with warnings, 1 only if nothing could be done.
    """
    report = bring_up_to_date(lake=lake, **options)
    if not report.found and sample_if_empty:
        log.LOGGER.info("this machine has no transcripts: going on with the sample that comes with AgentLens")
        lake = lake.parent / "sample" / "lake"
        sample = {"home": paths.resource("data") / "sample" / "home", "machine": "sample", "exact": False}
        report = bring_up_to_date(lake=lake, **(options | sample))
    folder = output or lake.parent / "csv"
    own = {"estimator": estimator} if estimator else {}
    export_views(lake, contracts.public_names(), filters(timezone=timezone), folder, newline=newline, own=own)
    log.LOGGER.info("look at it: agentlens usage --lake %s", shlex.quote(str(lake)))
    if stats:
        print_stats(report)
    return _strict(lake, report.skipped_lines, report.failed) if strict else Exit.DONE


def _strict(lake: Path, skipped: int, failed: int) -> int:
    """Fail for cron jobs that want to know, and say why."""
    from pipeline.warehouse import connect

    with connect(lake) as warehouse:
        models = warehouse.view("unpriced").table().num_rows
    if not (skipped or failed or models):
        return Exit.DONE
    log.LOGGER.error(
        "strict: lines skipped: %d, files not read: %d, models without a price: %d", skipped, failed, models
    )
    return Exit.FAILED
