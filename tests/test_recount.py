"""The program's totals against a recount that shares no code with it, on the sample, the cases and a made corpus."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.cases.materialise import materialise
from tests.conftest import ROOT, Agentlens
from tests.tools.recount import FIELDS, Count, recount

CASES = sorted(p.parent for c in ("claude-code", "codex") for p in (ROOT / "tests" / "cases" / c).glob("*/case.json"))
OPEN = {  # both readings of these are right, as their cases say, and the recount takes one
    "codex-half-line-in-middle",
}


def totals(lake: Path) -> dict[str, dict[str, Count]]:
    """What the view `requests` says, in the recount's shape."""
    sums = ", ".join(f"sum({name})::bigint" for name in FIELDS)
    query = f"select client, coalesce(model, 'n/a'), sum(n_requests)::bigint, {sums} from requests group by all"
    with duckdb.connect(str(lake / "agentlens.duckdb"), read_only=True) as connection:
        rows = connection.execute(query).fetchall()
    found: dict[str, dict[str, Count]] = {}
    for client, model, *numbers in sorted(rows):
        found.setdefault(client, {})[model] = dict(zip(("requests", *FIELDS), numbers, strict=True))
    return found


def test_sample(agentlens: Agentlens, lake: Path) -> None:
    sample = ROOT / "data" / "sample" / "home"
    agentlens("ingest", "--home", sample, "--lake", lake, code=0)
    assert totals(lake) == recount(sample)


def test_usage_adds_up_to_the_recount(agentlens: Agentlens, lake: Path) -> None:
    sample = ROOT / "data" / "sample" / "home"
    agentlens("ingest", "--home", sample, "--lake", lake, code=0)
    rows = json.loads(agentlens("usage", "--lake", lake, "--format", "json", code=0).stdout)
    counted = [count for models in recount(sample).values() for count in models.values()]
    for name in ("requests", "input_tokens", "output_tokens"):
        assert sum(row[name] for row in rows) == sum(count[name] or 0 for count in counted)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_recount_is_right(tmp_path: Path, case: Path) -> None:
    """A second opinion that is wrong is worth nothing: it must get the cases right by itself."""
    told = json.loads((case / "case.json").read_text(encoding="utf-8"))
    counted = [count for models in recount(materialise(case, tmp_path / "case")).values() for count in models.values()]
    mine = {name: sum(count[name] or 0 for count in counted) for name in ("requests", *FIELDS)}
    answers = [told["expect"], *(told["expect"] | other for other in told.get("accept_also") or [])]
    wrong = [{n: (v, mine[n]) for n, v in answer.items() if n in mine and (v or 0) != mine[n]} for answer in answers]
    assert {} in wrong


def test_all_cases_in_one_home(agentlens: Agentlens, tmp_path: Path, home: Path, lake: Path) -> None:
    """One run over every case but those of which two readings are right."""
    for case in CASES:
        if case.name not in OPEN:
            shutil.copytree(materialise(case, tmp_path / case.name), home, symlinks=True, dirs_exist_ok=True)
    agentlens("ingest", "--home", home, "--lake", lake, "--client", "claude-code", "--client", "codex", code=0)
    assert totals(lake) == recount(home)


def test_made_corpus(agentlens: Agentlens, tmp_path: Path, lake: Path) -> None:
    """Six megabytes with every trap: copies, replays, placeholders, torn lines."""
    made = tmp_path / "corpus"
    command = [sys.executable, "-m", "benchmarks.make_corpus", str(made), "--mb", "6", "--seed", "3"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    agentlens("ingest", "--home", made, "--lake", lake, code=0)
    assert totals(lake) == recount(made)
    verify = [sys.executable, "-m", "benchmarks.verify", str(lake), str(made / "expected.json")]
    done = subprocess.run(verify, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
