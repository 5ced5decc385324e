"""Exports byte for byte: promises to spreadsheets. A moved or renamed column is a breaking change, so read their diff.

`pytest --update-golden` writes tests/golden anew: headers/<view>.csv and formats/skills.<extension>.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import contracts
from pipeline.cli.export import export_views
from pipeline.cli.options import filters
from tests.conftest import ROOT, Agentlens
from tests.tools.lakes import sample_lake

GOLDEN = ROOT / "tests" / "golden"
EXTENSIONS = {"csv": "csv", "json": "json", "table": "txt"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def exported(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `agentlens export --output FOLDER` writes of the sample."""
    folder = tmp_path_factory.mktemp("exported")
    everything = filters(since=None, until=None, clients=(), project=None, timezone="UTC")
    export_views(sample, contracts.public_names(), everything, folder)
    return folder


def check(golden: Path, found: bytes, *, update: bool) -> None:
    if update:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_bytes(found)
    assert golden.exists(), "no golden file: write it with --update-golden and read it"
    assert found.decode() == golden.read_bytes().decode()


@pytest.mark.parametrize("view", contracts.public_names())
def test_header(exported: Path, view: str, *, update_golden: bool) -> None:
    header, newline, _ = (exported / f"{view}.csv").read_bytes().partition(b"\n")
    check(GOLDEN / "headers" / f"{view}.csv", header + newline, update=update_golden)


@pytest.mark.parametrize("format_name", EXTENSIONS)
def test_skills_of_the_sample(
    agentlens: Agentlens, environ: dict[str, str], sample: Path, format_name: str, *, update_golden: bool
) -> None:
    environ["COLUMNS"] = "140"
    done = agentlens("skills", "--lake", sample, "--format", format_name, "--timezone", "UTC", code=0)
    check(GOLDEN / "formats" / f"skills.{EXTENSIONS[format_name]}", done.stdout.encode(), update=update_golden)


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_the_same_lake_gives_the_same_bytes(sample: Path, tmp_path: Path, format_name: str) -> None:
    """Also money, which is summed by several threads."""
    everything = filters(since=None, until=None, clients=(), project=None, timezone="UTC")
    views = ("context", "skills", "idle", "sessions", "usage")
    made = set()
    for turn in range(6):
        export_views(sample, views, everything, tmp_path / str(turn), format_name)
        made.add(tuple((tmp_path / str(turn) / f"{view}.{format_name}").read_bytes() for view in views))
    assert len(made) == 1


def test_an_exported_file_is_what_the_command_shows(agentlens: Agentlens, sample: Path, exported: Path) -> None:
    done = agentlens("skills", "--lake", sample, "--format", "csv", code=0)
    assert done.stdout == (exported / "skills.csv").read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in (GOLDEN / "headers").iterdir()} == set(contracts.public_names())
    assert {path.name for path in (GOLDEN / "formats").iterdir()} == {f"skills.{e}" for e in EXTENSIONS.values()}
