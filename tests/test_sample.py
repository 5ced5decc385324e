"""The sample that ships: made by its script, small, and harmless."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

SAMPLE = ROOT / "data" / "sample" / "home"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_sample_is_what_its_script_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.make_sample", str(tmp_path / "home")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert contents(tmp_path / "home") == contents(SAMPLE)


def test_sample_is_small_and_names_nobody() -> None:
    texts = contents(SAMPLE)
    assert sum(map(len, texts.values())) <= 200_000
    assert {home for text in texts.values() for home in re.findall(rb"/home/(\w+)", text)} <= {b"me"}


def test_every_line_of_the_sample_is_a_record() -> None:
    for path in SAMPLE.rglob("*.jsonl"):
        assert all(isinstance(json.loads(line), dict) for line in path.read_bytes().splitlines())
