"""The command `agentlens report`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pipeline import log
from pipeline.cli.options import estimator_option, filter_options, filters, lake_options


@click.command("report")
@click.option(
    "--output", "-o", default="report.html", show_default=True, metavar="FILE", help="Where to write it; - is stdout."
)
@click.option("--title", default="AgentLens report", show_default=True, help="Heading of the page.")
@click.option(
    "--sessions",
    type=click.IntRange(0, 50),
    default=5,
    show_default=True,
    help="How many sessions to show the context of: those whose requests carried the most.",
)
@estimator_option
@filter_options
@lake_options
def command(lake: Path, output: str, title: str, sessions: int, estimator: str | None, **options: Any) -> None:
    """Write one HTML page: spend, how contexts grew, overhead, what is idle, cache rewrites, warnings.

    The page needs nothing beside itself: it loads nothing, and opens where scripts and the network are locked away.
    Needs the extra `report`.
    """
    from pipeline.cli.render import destination
    from pipeline.report.page import Wanted, write
    from pipeline.warehouse import connect_current
    from pipeline.window import window_of

    window = window_of(filters(**options), {"estimator": estimator} if estimator else {})
    with connect_current(lake) as warehouse:
        page = write(warehouse, window, Wanted(title, sessions), datetime.now(UTC))
    with destination(output) as stream:
        stream.write(page)
    if output != "-":
        log.LOGGER.info("report written to %s (%d KB)", output, len(page) // 1000)
