"""The documentation is true: commands exist, queries run, links lead somewhere, generated parts are of today."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from urllib.parse import urlsplit

import click
import duckdb
import pytest

from pipeline import contracts, schema
from pipeline.cli import group
from tests.conftest import ROOT
from tests.tools.lakes import sample_lake

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LAKE = "~/.local/share/agentlens/lake"  # the lake's place as the pages give it
HOSTS = {"keepachangelog.com", "semver.org"}  # that pages may link to
FOLDERS = {"home", "projects", "srv", "etc", "usr"}  # where the paths of an example may begin


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(language: str) -> list[tuple[str, str]]:
    """Code blocks of a language, with the page that each stands on."""
    fence = re.compile(rf"^```(?:{language})\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(name(page), block) for page in PAGES for block in fence.findall(page.read_text(encoding="utf-8"))]


CALL = re.compile(
    r"""^(?:\$\ |(?:\S+\ +){5}\S*/)?  # a prompt, or the fields of cron and a folder
    agentlens\ ((?:"[^"]*"|'[^']*'|\\\n|[^\n"'])*)  # to the end of the line that is not quoted""",
    re.MULTILINE | re.VERBOSE,
)


def calls() -> Iterator[tuple[str, tuple[str, ...]]]:
    """What follows `agentlens` in shell and cron blocks, up to a pipe."""
    for page, block in blocks("sh|console|cron"):
        for text in CALL.findall(block):
            words = shlex.split(text, comments=True)
            yield page, tuple(takewhile(lambda word: word not in {"|", ">", "&&"}, words))


CALLS = sorted(set(calls()))


def test_pages_show_calls() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/commands.md", "docs/merging-machines.md"} <= {
        page for page, _ in CALLS
    }


@pytest.mark.parametrize(
    ("page", "words"), CALLS, ids=lambda value: value if isinstance(value, str) else shlex.join(value)
)
def test_call_is_understood(page: str, words: tuple[str, ...]) -> None:
    command = group.get_command(click.Context(group), words[0])
    assert command, f"{page}: there is no command {words[0]}"
    context = click.Context(command, info_name=words[0])
    given, left, _ = command.make_parser(context).parse_args(list(words[1:]))  # raises for an unknown option
    assert not left, page
    for param in command.params:
        if param.name in given and isinstance(param.type, click.Choice):
            param.type_cast_value(context, given[param.name])
        assert not (param.required and param.name not in given), f"{page}: {words[0]} needs {param.name}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the sample."""
    return sample_lake(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize(("page", "text"), blocks("sql"), ids=lambda value: value.partition("\n")[0])
def test_query_runs_in_a_bare_duckdb(lake: Path, page: str, text: str) -> None:
    with duckdb.connect(lake / "agentlens.duckdb", read_only=True) as connection:
        for statement in duckdb.extract_statements(text.replace(LAKE, lake.as_posix())):
            rows = connection.execute(statement).fetchall()
            assert rows or statement.type != duckdb.StatementType.SELECT, f"{page}: no rows: {statement.query}"


@pytest.mark.parametrize(("page", "text"), blocks("python"), ids=lambda value: value.partition("\n")[0])
def test_program_runs(lake: Path, environ: dict[str, str], page: str, text: str) -> None:
    command = [sys.executable, "-c", text]
    environ["AGENTLENS_LAKE"] = str(lake)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page}: {done.stderr}"


def test_settings_are_those_of_commands() -> None:
    ((_, text),) = [(page, block) for page, block in blocks("toml") if page == "docs/commands.md"]
    for table, options in tomllib.loads(text).items():
        command = group.get_command(click.Context(group), table)
        assert command, table
        assert set(options) <= {param.name for param in command.params}


def test_generated_parts_are_of_today() -> None:
    pages = [str(page) for page in PAGES if "[[[cog" in page.read_text(encoding="utf-8")]
    assert pages
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", *pages]
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


# --- links and paths -------------------------------------------------------------------------------------------------


def prose(page: Path) -> str:
    """A page without its code."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.hostname in HOSTS, target
            continue
        linked = (page.parent / parts.path).resolve() if parts.path else page
        assert linked.is_file(), target
        assert not parts.fragment or parts.fragment in anchors(linked), target


def test_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", prose(index))
    }
    assert set(PAGES) - linked == {index}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_names_no_place_but_those_of_examples(page: Path) -> None:
    """Neither the machine that a page was made on, nor a host that a package came from."""
    text = page.read_text(encoding="utf-8")
    assert {urlsplit(url).hostname for url in re.findall(r"https?://[^\s)>`|,]+", text)} <= HOSTS
    assert set(re.findall(r"(?<![\w.~:/*>}\]…-])/([a-z][\w-]*)/[\w.<-]", text)) <= FOLDERS
    assert str(ROOT) not in text


def test_changelog_names_every_table_and_view() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))
    assert told == {f"lake.{table}" for table in schema.TABLES} | set(contracts.public_names())
