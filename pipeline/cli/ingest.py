"""The command `agentlens ingest`."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import log, paths
from pipeline.cli.options import ingest_options, lake_options
from pipeline.client import Home
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.ingest import Options, Progress, RunReport

SHOWN_WARNINGS = 50


@click.command("ingest")
@ingest_options
@lake_options
def command(stats: bool, **options: Any) -> None:
    """Read new transcripts into the lake.

    Reads what the clients left below your home (or --home), and only what is new or changed since the last time.
    What cannot be read is told on stderr, a line each, and never stops the run. Nothing leaves this machine, unless
    you say --exact.
    """
    report = bring_up_to_date(**options)
    if stats:
        print_stats(report)


def bring_up_to_date(
    *,
    lake: Path,
    home: Path | None,
    clients: tuple[str, ...],
    machine: str | None,
    prices: Path | None,
    jobs: int | None,
    wait: float,
    reread: bool,
    exact: bool,
) -> RunReport:
    """Ingest, make the views where they are not of today, and say on stderr what was done."""
    from pipeline.ingest import Options, run
    from pipeline.warehouse import refresh

    remember_prices(lake, prices)
    options = Options(
        lake=lake,
        home=Home(home.absolute(), {}) if home else Home(Path.home(), dict(os.environ)),
        machine=paths.machine_name(machine),
        clients=tuple(dict.fromkeys(clients)),
        wait_seconds=wait,
        jobs=jobs or paths.cpu_count(),
        reread=reread,
    )
    with progress_bar() as progress:
        report = run(options, progress)
    refresh(lake, wait)
    tell(report, lake)
    if exact:
        count_exactly(options)
    return report


def count_exactly(ingested: Options) -> None:
    """Have the sizes counted that are not yet, for what was ingested."""
    from pipeline.exact import Options, count

    options = Options(
        ingested.lake, ingested.home, ingested.machine, os.environ, ingested.clients, ingested.wait_seconds
    )
    count(options, partial(log.LOGGER.info, "%s"), partial(log.LOGGER.warning, "%s"))


def remember_prices(lake: Path, file: Path | None) -> None:
    """Keep the user's price table in the lake, once it is found to be a good one."""
    if file is None:
        return
    from pipeline import prices
    from pipeline.warehouse import USER_PRICES

    kept = lake / USER_PRICES
    if str(file) == "none":
        kept.unlink(missing_ok=True)
        return
    if not file.is_file():
        hint = "give a CSV with the columns of `agentlens prices`"
        raise ConfigError(f"--prices: there is no file {file}", hint=hint)
    prices.load(paths.resource("data"), file)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with paths.put_in_place(kept) as temporary:
        shutil.copyfile(file, temporary)


def tell(report: RunReport, lake: Path) -> None:
    """Warnings, a line each, and what was done, on stderr."""
    for warning in report.warnings[:SHOWN_WARNINGS]:
        log.LOGGER.warning("%s", warning)
    more = len(report.warnings) - SHOWN_WARNINGS
    if more > 0:
        log.LOGGER.warning("and %d more warnings; see `agentlens sources`", more)
    if not report.found:
        log.LOGGER.info("no transcripts found; lake: %s", lake)
        return
    speed = f" in {report.seconds:.2f} s ({report.mb_per_second:,.0f} MB/s)" if report.mb_per_second else ""
    log.LOGGER.info(
        "%d files: %d read%s, %d unchanged, %d gone, %d not readable; %d lines skipped; lake: %s",
        report.found,
        report.read,
        speed,
        report.unchanged,
        report.gone,
        report.failed,
        report.skipped_lines,
        lake,
    )


def print_stats(report: RunReport) -> None:
    """The report as one line of JSON."""
    import msgspec

    facts = {name: getattr(report, name) for name in report.__slots__} | {"mb_per_second": report.mb_per_second}
    click.echo(msgspec.json.encode(facts).decode())


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar on stderr while files are read; nothing off a terminal."""
    if not sys.stderr.isatty() or log.LOGGER.level > logging.INFO:
        yield None
        return
    bar: Any = None
    task: Any = None

    def advance(done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task("reading", total=total)
        bar.update(task, completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
