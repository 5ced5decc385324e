"""The promises of the code's shape: layers, light start-up, what ships, what is documented."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from pipeline import __version__, clients
from tests.conftest import ROOT, Agentlens

HEAVY = {"duckdb", "polars", "pyarrow"}
NETWORK = {"socket", "ssl", "http", "urllib.request", "asyncio", "ftplib", "smtplib", "requests", "httpx", "urllib3"}
SDK = {"anthropic", "httpx2", "httpcore2", "anyio"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def imported(stderr: str) -> set[str]:
    """Top-level packages that `-X importtime` names."""
    found = re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$", stderr, re.MULTILINE)
    assert found, "no import was timed"
    return {name.partition(".")[0] for name in found}


def test_imports_run_downward_only() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    command = [sys.executable, "-c", code]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "pipeline").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_can_reach_the_network(path: Path) -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    allowed = {"exact.py": {"anthropic"}, "mcp.py": {"anyio"}}  # the second for its event loop: it talks by stdio
    banned = NETWORK | SDK - (allowed.get(path.relative_to(ROOT / "pipeline").as_posix(), set()))
    assert not {name for name in names if name in banned or name.partition(".")[0] in banned}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_up_loads_nothing_heavy(agentlens: Agentlens, option: str) -> None:
    done = agentlens(option, code=0, python=("-X", "importtime"))
    assert not imported(done.stderr) & {*HEAVY, "rich", "msgspec", "xlsxwriter", "mcp"}


def test_alone_without_a_lake_it_loads_nothing_heavy(agentlens: Agentlens, environ: dict[str, str], lake: Path) -> None:
    environ["AGENTLENS_LAKE"] = str(lake)
    assert not imported(agentlens(code=0, python=("-X", "importtime")).stderr) & {*HEAVY, "rich"}


def test_version_is_that_of_the_package(agentlens: Agentlens) -> None:
    assert __version__ in agentlens("--version", code=0).stdout


def test_a_run_with_nothing_new_loads_no_heavy_library(agentlens: Agentlens, lake: Path) -> None:
    sample = ROOT / "data" / "sample" / "home"
    agentlens("ingest", "--home", sample, "--lake", lake, code=0)
    again = agentlens("ingest", "--home", sample, "--lake", lake, code=0, python=("-X", "importtime"))
    assert not imported(again.stderr) & HEAVY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_package_and_nothing_else(wheel: set[str]) -> None:
    strangers = {n for n in wheel if not re.match(r"pipeline/|agentlens_pipeline-[^/]+\.dist-info/", n)}
    assert not strangers
    assert not {n for n in wheel if "__pycache__" in n}
    assert {"pipeline/__main__.py", "pipeline/py.typed"} <= wheel
    assert {f"pipeline/report/page.{kind}" for kind in ("html", "css", "js")} <= wheel


@pytest.mark.parametrize("folder", ["sql", "data"])
def test_wheel_holds_every_file_of(wheel: set[str], folder: str) -> None:
    here = {p.relative_to(ROOT / folder).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()}
    assert here
    assert {n.removeprefix(f"pipeline/_{folder}/") for n in wheel if n.startswith(f"pipeline/_{folder}/")} == here


@pytest.mark.parametrize("client", clients.names())
def test_client_is_documented_and_has_cases(client: str) -> None:
    assert (ROOT / "docs" / "clients" / f"{client}.md").is_file()
    assert list((ROOT / "tests" / "cases" / client).glob("*/case.json"))


def test_case_folders_are_of_clients() -> None:
    folders = {p.parent.parent.name for p in (ROOT / "tests" / "cases").glob("*/*/case.json")}
    assert folders <= set(clients.names())


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "cases").glob("*/*/case.json")), ids=lambda p: p.parent.name)
def test_case_says_what_it_is(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    assert case["name"] == path.parent.name
    assert case["client"] == path.parent.parent.name
    assert case["title"]
    assert case["expect"]


def shell_lines() -> list[tuple[str, str]]:
    """The lines in code blocks of the documentation that call a program of ours, with the file they stand in."""
    found: list[tuple[str, str]] = []
    fence = re.compile(r"^```(?:sh|bash|console|shell)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not path.is_file():
            continue
        for block in fence.findall(path.read_text(encoding="utf-8")):
            for line in block.splitlines():
                call = re.match(r"(?:\$ )?(?:\S*/)?(agentlens|make)\s+(.*)", line.strip())
                if call:
                    found.append((str(path.relative_to(ROOT)), f"{call[1]} {call[2]}"))
    return found


def test_readme_shows_commands() -> None:
    assert "README.md" in {path for path, _ in shell_lines()}


def test_documented_commands_exist(agentlens: Agentlens) -> None:
    calls = {(path, line.split()[1]) for path, line in shell_lines() if line.startswith("agentlens ")}
    known: dict[str, bool] = {}
    for _, command in calls:
        if re.fullmatch(r"[a-z][a-z-]*", command) and command not in known:
            known[command] = agentlens(command, "--help").returncode == 0
    assert not {(path, command) for path, command in calls if known.get(command) is False}


def test_documented_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {(path, line.split()[1]) for path, line in shell_lines() if line.startswith("make ")}
    assert not {(path, target) for path, target in called if target not in targets}


def test_constraints_pin_every_dependency_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.+!]*", line) for line in lines)
    pinned = {normal(line.partition("==")[0]) for line in lines}
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    assert {normal(re.split(r"[<>=!~\[ ;]", d)[0]) for d in wanted} <= pinned
    assert normal(project["name"]) not in pinned


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
