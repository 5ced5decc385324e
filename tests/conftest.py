"""What all tests share: a home, a lake, and the program as users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("PATH", "TMPDIR", "SYSTEMROOT", "COVERAGE_")  # of this process's environment, what a run of the program needs

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


class Agentlens(Protocol):
    """Runs `agentlens ARGS` in a process of its own; with `code`, that must be its exit status."""

    def __call__(
        self, *args: str | Path, code: int | None = None, timeout: float = 120, python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; read their diff")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("golden files are promises: they are not updated in CI")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home directory."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Where a lake may be made."""
    return tmp_path / "lake"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without this machine's clients, lake, settings and time zone."""
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    fixed = {"HOME": str(nobody), "USERPROFILE": str(nobody), "TZ": "UTC", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    return kept | fixed | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def agentlens(environ: dict[str, str], tmp_path: Path) -> Agentlens:
    """The program, as users run it."""

    def run(
        *args: str | Path, code: int | None = None, timeout: float = 120, python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, "-m", "pipeline", *map(str, args)]
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, timeout=timeout, check=False, encoding="utf-8"
        )
        if code is not None:
            assert done.returncode == code, f"{' '.join(command[1:])}: {done.returncode}\n{done.stderr[-4000:]}"
        return done

    return run
