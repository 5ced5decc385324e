"""Laws of the lake: how its files came in changes nothing that is said of them."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline import contracts
from pipeline import ingest as module
from pipeline.client import Home
from pipeline.ingest import Options, run
from pipeline.schema import TABLES
from pipeline.warehouse import Window, connect, refresh
from tests.robustness.transcripts import listing, one, project, response, responses, stored
from tests.tools.lakes import CASES, MACHINE, SAMPLE, Rows, ask, ingest, lake_of_all_cases, merge, sample_lake

# A run takes a tenth of a second and all views one, so few examples are tried.
FEW = settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
VIEWS = tuple(name for name in contracts.public_names() if name != "prices")
WHEN_AND_WHERE = {"ingested_at", "mtime", "source_id", "path", "gone_at"}  # of a run, not of what the files say


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


def said_of(lake: Path, views: tuple[str, ...] = VIEWS) -> dict[str, Rows]:
    """All views, without what only tells when and whence a file was read; money to twelve digits."""
    with connect(lake) as warehouse:
        return {view: [plain(row) for row in warehouse.view(view).table().to_pylist()] for view in views}


@cache
def said_of_the_sample(lake: Path) -> dict[str, Rows]:
    return said_of(lake)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in WHEN_AND_WHERE}
    return {name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in kept.items()}


def transcripts(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*.jsonl") if path.is_file())


# --- order, steps, repetition ----------------------------------------------------------------------------------------


@FEW
@given(order=st.permutations(range(len(transcripts(SAMPLE)))), runs=st.integers(1, 4))
def test_the_order_in_which_files_come_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, sample: Path, order: list[int], runs: int
) -> None:
    """Files arrive in any order over several runs, and lie in packs accordingly."""
    work = tmp_path_factory.mktemp("order")
    files = [transcripts(SAMPLE)[number] for number in order]
    for turn in range(runs):
        for path in files[turn::runs]:
            copy(path, work / "home")
        read(work / "home", work / "lake")
    refresh(work / "lake")
    assert said_of(work / "lake") == said_of_the_sample(sample)


def copy(path: Path, home: Path) -> None:
    """A transcript of the sample with all that lies beside it."""
    target = home / path.relative_to(SAMPLE)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)
    for beside in path.parent.glob("*.json"):
        shutil.copy2(beside, target.parent)


def read(home: Path, lake: Path) -> None:
    """A run, without making the views."""
    run(Options(lake, Home(home, {}), MACHINE))


@FEW
@given(data=st.data())
def test_reading_in_steps_is_reading_at_once(
    tmp_path_factory: pytest.TempPathFactory, sample: Path, data: st.DataObject
) -> None:
    """Clients append, also half a line; each run sees what is there."""
    work = tmp_path_factory.mktemp("steps")
    paths = transcripts(SAMPLE)
    sizes = [path.stat().st_size for path in paths]
    steps = data.draw(st.integers(1, 3))
    cuts = [sorted(data.draw(st.lists(st.integers(0, size), min_size=steps, max_size=steps))) for size in sizes]
    for step in range(steps + 1):
        for path, cut, size in zip(paths, cuts, sizes, strict=True):
            copy(path, work / "home")
            whole = path.read_bytes()
            (work / "home" / path.relative_to(SAMPLE)).write_bytes(whole[: cut[step] if step < steps else size])
        read(work / "home", work / "lake")
    refresh(work / "lake")
    assert said_of(work / "lake") == said_of_the_sample(sample)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 4000))
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@example([1], 1)
def test_the_size_of_a_pack_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], pack_bytes: int
) -> None:
    work = tmp_path_factory.mktemp("packs")
    for number, length in enumerate(lengths):
        (project(work / "home") / f"s{number}.jsonl").write_bytes(responses(f"s{number}", 0, length))
    read(work / "home", work / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PACK_BYTES", pack_bytes)
        read(work / "home", work / "packs")
    for table in TABLES:
        assert stored(work / "packs", table) == stored(work / "whole", table)


def test_a_second_run_writes_nothing(home: Path, lake: Path) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    ingest(home, lake)
    before = listing(lake)
    ingest(home, lake)
    assert listing(lake) == before


def test_reading_all_again_changes_nothing(home: Path, lake: Path) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    ingest(home, lake)
    before = [stored(lake, table) for table in TABLES]
    assert run(Options(lake, Home(home, {}), MACHINE, reread=True)).read == len(transcripts(SAMPLE))
    assert [stored(lake, table) for table in TABLES] == before


def test_the_same_transcripts_make_the_same_bytes(home: Path, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    made = []
    for name in ("one", "two"):
        lake = tmp_path / name
        read(home, lake)
        files = [path for path in sorted(lake.glob("*/client=*/**/*.parquet")) if "sources" not in path.parts]
        made.append({path.relative_to(lake): path.read_bytes() for path in files})
    assert made[0] == made[1]


# --- copies ----------------------------------------------------------------------------------------------------------

COPIED = ("requests", "sessions", "tool_calls", "usage", "prompts", "context")


@pytest.mark.parametrize("path", transcripts(SAMPLE), ids=lambda path: path.stem[-12:])
def test_a_copy_of_a_session_in_another_folder_changes_no_total(
    tmp_path: Path, home: Path, sample: Path, path: Path
) -> None:
    """As a backup does, or a project folder that was renamed and resumed."""
    shutil.copytree(SAMPLE, home, dirs_exist_ok=True)
    relative = path.relative_to(SAMPLE)
    target = home / Path(*relative.parts[:2]) / "copied" / Path(*relative.parts[3:])
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)
    for beside in path.parent.glob("*.json"):
        shutil.copy2(beside, target.parent)
    report = ingest(home, tmp_path / "lake")
    assert report.found == len(transcripts(SAMPLE)) + 1
    whole = said_of_the_sample(sample)
    assert said_of(tmp_path / "lake", COPIED) == {view: whole[view] for view in COPIED}


@FEW
@given(start=st.integers(0, 5), extra=st.integers(1, 4), name=st.sampled_from(["a-first", "z-last"]))
def test_a_resumed_copy_adds_only_its_own(
    tmp_path_factory: pytest.TempPathFactory, start: int, extra: int, name: str
) -> None:
    """A file under a new id that begins with the rows of another one, whichever name comes first."""
    work = tmp_path_factory.mktemp("resumed")
    (project(work / "home") / "m.jsonl").write_bytes(responses("m", 0, 6))
    copied = b"".join(response("m", number) for number in range(start, 6))
    own = b"".join(response(name, 10 + number) for number in range(extra))
    (project(work / "home") / f"{name}.jsonl").write_bytes(copied + own)
    ingest(work / "home", work / "lake")
    assert one(work / "lake", "select sum(n_requests)::bigint, count(distinct request_id) from requests") == (
        6 + extra,
        6 + extra,
    )


# --- sums ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake_of_all_cases(tmp_path_factory.getbasetemp())


SUMMED = ("requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "unpriced_requests")
MONEY = ("measured_usd", "estimated_usd")


def total(rows: Rows, name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


@pytest.mark.parametrize("lake_name", ["sample", "all_cases"])
def test_the_parts_of_a_session_are_its_total(request: pytest.FixtureRequest, lake_name: str) -> None:
    lake: Path = request.getfixturevalue(lake_name)
    parts: dict[tuple[str, str], Rows] = {}
    for row in ask(lake, "usage", Window(options={"by": "session"})):
        parts.setdefault((row["client"], row["day"]), []).append(row)
    sessions = {(row["client"], row["session_id"]): row for row in ask(lake, "sessions") if row["requests"]}
    assert parts.keys() == sessions.keys()
    for key, session in sessions.items():
        assert {name: total(parts[key], name) for name in SUMMED} == {name: session[name] for name in SUMMED}
        for name in MONEY:
            assert total(parts[key], name) == pytest.approx(session[name])


@pytest.mark.parametrize("by", ["week", "month", "session"])
def test_every_period_adds_up_to_the_same(all_cases: Path, by: str) -> None:
    days, others = ask(all_cases, "usage"), ask(all_cases, "usage", Window(options={"by": by}))
    for name in SUMMED:
        assert total(days, name) == total(others, name)
    for name in MONEY:
        assert total(days, name) == pytest.approx(total(others, name))


def test_usage_is_the_sum_of_the_requests(all_cases: Path) -> None:
    usage, requests = ask(all_cases, "usage"), ask(all_cases, "requests")
    assert total(usage, "requests") == total(requests, "n_requests")
    for name in ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "web_search_requests"):
        assert total(usage, name) == total(requests, name)


def test_tools_are_the_sum_of_the_calls(all_cases: Path) -> None:
    tools, calls = ask(all_cases, "tools"), ask(all_cases, "tool_calls")
    assert total(tools, "calls") == len(calls)
    assert total(tools, "errors") == sum(call["outcome"] == "error" for call in calls)
    assert total(tools, "result_bytes") == total(calls, "result_bytes")


def test_skills_are_the_part_of_the_context_that_is_skills(all_cases: Path) -> None:
    context = [row for row in ask(all_cases, "context") if row["item_kind"] in {"skill", "skill_body"}]
    assert total(ask(all_cases, "skills"), "overhead_tokens") == total(context, "overhead_tokens")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_two_windows_add_up_to_both(sample: Path, share: float) -> None:
    moments = sorted(row["ts"] for row in ask(sample, "requests"))
    moment = moments[int(len(moments) * share)]
    windows = (Window(until=moment), Window(since=moment))
    for view, names in (
        ("usage", SUMMED),
        ("context", ("overhead_tokens",)),
        ("skills", ("baseline", "load", "carry")),
    ):
        whole, parts = said_of_the_sample(sample)[view], [ask(sample, view, window) for window in windows]
        for name in names:
            assert sum(total(part, name) or 0 for part in parts) == total(whole, name), (view, name)


def test_cases_apart_and_together_say_the_same(tmp_path: Path, all_cases: Path) -> None:
    """No case's sessions change what is said of another's: ids are not shared by chance."""
    some = [case for case in CASES if case.parent.name == "codex"]
    merge(some, tmp_path / "home", tmp_path / "work")
    ingest(tmp_path / "home", tmp_path / "lake")
    alone = {row["session_id"]: row["requests"] for row in ask(tmp_path / "lake", "sessions")}
    together = {row["session_id"]: row["requests"] for row in ask(all_cases, "sessions") if row["client"] == "codex"}
    assert together == alone
