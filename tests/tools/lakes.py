"""Lakes for tests: made in this process, once for all tests of a worker, and asked without the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pipeline import clients
from pipeline.cli.ingest import remember_prices
from pipeline.client import Home
from pipeline.ingest import Options, RunReport, run
from pipeline.warehouse import Window, connect, refresh
from tests.cases.materialise import materialise
from tests.conftest import ROOT

MACHINE = "here"
SAMPLE = ROOT / "data" / "sample" / "home"
CASES = sorted(path.parent for path in (ROOT / "tests" / "cases").glob("*/*/case.json"))
Rows = list[dict[str, Any]]


def told(case: Path) -> dict[str, Any]:
    """What a case's own file says of it."""
    found: dict[str, Any] = json.loads((case / "case.json").read_text(encoding="utf-8"))
    return found


def cases_of(client: str) -> list[Path]:
    return [case for case in CASES if case.parent.name == client]


def ingest(
    home: Path, lake: Path, *, prices: Path | None = None, names: tuple[str, ...] = (), machine: str = MACHINE
) -> RunReport:
    """What `agentlens ingest --home HOME --lake LAKE` does, in this process."""
    remember_prices(lake, prices)
    report = run(Options(lake=lake, home=Home(home, {}), machine=machine, clients=names))
    refresh(lake)
    return report


def ask(lake: Path, view: str, window: Window | None = None) -> Rows:
    """The rows of a public view."""
    with connect(lake) as warehouse:
        rows: Rows = warehouse.view(view, window).table().to_pylist()
    return rows


def query(lake: Path, text: str) -> Rows:
    """The rows of one SELECT."""
    with connect(lake) as warehouse:
        rows: Rows = warehouse.sql(text).table().to_pylist()
    return rows


@cache
def sample_lake(folder: Path) -> Path:
    """The lake of the sample that ships."""
    ingest(SAMPLE, folder / "sample-lake")
    return folder / "sample-lake"


@cache
def lake_of_all_cases(folder: Path) -> Path:
    """One lake of all cases together, each in a folder of one home, as its sessions' ids are its own."""
    home = folder / "all-cases"
    merge(CASES, home, folder / "materialised")
    ingest(home, folder / "all-cases-lake", names=tuple(sorted(clients.names())))
    return folder / "all-cases-lake"


def merge(cases: Iterable[Path], home: Path, work: Path) -> None:
    """Put the homes of several cases into one."""
    for case in cases:
        shutil.copytree(materialise(case, work / case.name), home, symlinks=True, dirs_exist_ok=True)
