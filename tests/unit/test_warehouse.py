"""The file of views: when it is made anew, where a lake may lie, what a window does, and a bare DuckDB on it."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from pipeline import contracts, warehouse
from pipeline.cli.ingest import remember_prices
from pipeline.errors import ConfigError, LakeError, QueryError
from pipeline.lake import lock
from pipeline.warehouse import DATABASE, Window, connect, fingerprint, is_current, refresh
from tests.robustness.transcripts import counts, project, response, responses, said
from tests.tools.lakes import ask, ingest, query, sample_lake


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


@pytest.fixture
def small(home: Path, lake: Path) -> Path:
    """A lake of one session."""
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 3))
    ingest(home, lake)
    return lake


# --- when it is made -------------------------------------------------------------------------------------------------


def test_the_views_are_made_once(small: Path) -> None:
    before = (small / DATABASE).stat().st_mtime_ns
    assert is_current(small)
    refresh(small)
    assert (small / DATABASE).stat().st_mtime_ns == before


def test_a_lost_file_of_views_is_made_again(small: Path) -> None:
    (small / DATABASE).unlink()
    assert not is_current(small)
    refresh(small)
    assert said(small) == counts(3)


def test_new_prices_and_first_rows_of_a_table_make_it_anew(small: Path, tmp_path: Path) -> None:
    before = fingerprint(small)
    own = tmp_path / "prices.csv"
    own.write_text("model_id,input_usd_per_mtok,output_usd_per_mtok\nclaude-sonnet-5,1000,10000\n", encoding="utf-8")
    remember_prices(small, own)
    assert fingerprint(small) != before
    assert not is_current(small)
    refresh(small)
    assert is_current(small)
    assert {row["origin"] for row in ask(small, "prices") if row["model_id"] == "claude-sonnet-5"} == {"user"}
    assert ask(small, "tool_calls") == []
    folder = small / "tool_calls" / "client=codex" / "month=2026-03"
    folder.mkdir(parents=True)
    (folder / "x-000000.parquet").touch()
    assert not is_current(small)


def test_another_version_makes_it_anew(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "__version__", "999")
    assert not is_current(small)


def test_a_lake_that_was_moved_or_copied_is_not_current(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "copy")
    assert not is_current(tmp_path / "copy")
    refresh(tmp_path / "copy")
    shutil.rmtree(small)
    assert said(tmp_path / "copy") == counts(3)


def test_bad_remembered_prices_are_told(small: Path) -> None:
    (small / "ref" / "user_prices.csv").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"user_prices\.csv"):
        refresh(small)


def test_views_of_a_locked_lake_wait_in_vain(small: Path) -> None:
    (small / DATABASE).unlink()
    with lock(small, 0), pytest.raises(LakeError, match="locked"):
        refresh(small, wait_seconds=0)
    assert not list(small.glob("*.tmp"))


def test_a_failure_leaves_the_old_views(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (small / DATABASE).read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(warehouse, "_define", fail)
    monkeypatch.setattr(warehouse, "__version__", "999")
    with pytest.raises(LakeError, match="No space left"):
        refresh(small)
    assert (small / DATABASE).read_bytes() == before
    assert not list(small.rglob("*.tmp"))


# --- where it lies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["it's a lake", "la[ke]*", 'quo"te', "é 项目", "a;b--c", "{x}"])
def test_a_lake_of_any_name(home: Path, tmp_path: Path, name: str) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 3))
    ingest(home, tmp_path / name)
    assert said(tmp_path / name) == counts(3)
    assert len(ask(tmp_path / name, "requests")) == 3
    assert len(query(tmp_path / name, "from lake.requests")) == 3


def test_a_name_that_duckdb_cannot_open_is_told(home: Path, tmp_path: Path) -> None:
    """DuckDB takes what follows a `?` for options."""
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 3))
    try:
        ingest(home, tmp_path / "what?")
    except LakeError as error:
        assert "what?" in str(error)  # noqa: PT017 - to work is as good
        return
    assert said(tmp_path / "what?") == counts(3)


def test_a_relative_lake(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 3))
    ingest(home, Path("here"))
    monkeypatch.chdir("/")
    assert said(tmp_path / "here") == counts(3)


def test_a_lake_behind_a_link(small: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small, target_is_directory=True)
    assert len(ask(tmp_path / "link", "requests")) == 3


def test_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"there is no lake.*agentlens ingest"), connect(tmp_path / "none"):
        pytest.fail("opened")


def test_a_damaged_file_of_views_is_named(small: Path) -> None:
    (small / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(LakeError, match=f"cannot open .*{DATABASE}") as error, connect(small):
        pytest.fail("opened")
    assert "\n" not in str(error.value)


def test_a_damaged_parquet_file_is_an_error_of_the_query(small: Path) -> None:
    for path in small.glob("requests/**/*.parquet"):
        path.write_bytes(path.read_bytes()[: os.path.getsize(path) // 2])
    with pytest.raises(QueryError) as error:
        ask(small, "requests")
    assert "\n" not in str(error.value)


# --- asking ----------------------------------------------------------------------------------------------------------


def test_a_window_does_not_outlive_its_question(sample: Path) -> None:
    since = datetime(2026, 11, 12, tzinfo=UTC)
    with connect(sample) as opened:
        everything = opened.view("usage").table()
        narrow = Window(since=since, until=since, clients=("codex",), project="ledger", timezone="Asia/Tokyo")
        assert opened.view("usage", narrow).table().num_rows == 0
        by_month = opened.view("usage", Window(options={"by": "month"})).table()
        assert by_month.num_rows < everything.num_rows
        assert opened.view("usage").table().equals(everything)


def test_a_windows_variables() -> None:
    assert Window().variables() == {}
    window = Window(clients=("codex",), project="a", options={"by": "week"})
    assert window.variables() == {"clients": ["codex"], "project": "a", "by": "week"}


def test_an_unknown_view(sample: Path) -> None:
    with connect(sample) as opened, pytest.raises(ConfigError, match=r"no view 'nothing'.*usage"):
        opened.view("nothing")


def test_a_query_that_is_ended(sample: Path) -> None:
    with connect(sample) as opened:
        timer = opened.interrupt_after(0.2)
        with pytest.raises(QueryError):
            opened.sql("select count(*) from range(100000000) a, range(100000000) b").table()
        timer.cancel()
        assert opened.sql("select 1 as n").table().to_pylist() == [{"n": 1}]


def test_batches_are_bounded(sample: Path) -> None:
    with connect(sample) as opened:
        sizes = [batch.num_rows for batch in opened.sql("from range(10000)").batches(1000)]
    assert sum(sizes) == 10000
    assert max(sizes) <= 2048  # what DuckDB hands out at once


def test_times_are_utc_whatever_the_machines_zone(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    (row,) = query(small, "select strftime(min(ts), '%Y-%m-%d %H:%M') as at from requests")
    assert row["at"] == "2026-11-01 00:00"


def test_rows_that_arrive_are_seen_at_once(home: Path, small: Path) -> None:
    """The views name no single file."""
    with connect(small) as opened:
        assert opened.view("requests").table().num_rows == 3
    (project(home) / "t.jsonl").write_bytes(response("t", 0))
    ingest(home, small)
    assert len(ask(small, "requests")) == 4


def test_two_connections_do_not_share_what_one_was_told(small: Path) -> None:
    with connect(small) as first, connect(small, locked_down=False) as second:
        with pytest.raises(QueryError):
            first.sql("select * from read_text('/etc/hostname')").table()
        assert second.sql("select 1 as n").table().num_rows == 1
        assert first.view("requests", Window(clients=("codex",))).table().num_rows == 0
        assert second.view("requests").table().num_rows == 3


# --- a bare DuckDB ---------------------------------------------------------------------------------------------------


def test_the_file_is_enough_for_a_bare_duckdb(sample: Path) -> None:
    with duckdb.connect(str(sample / DATABASE), read_only=True) as bare:
        for name in contracts.public_names():
            names = [column.name for column in contracts.load(name).columns]
            assert bare.sql(f"from {name}").columns == names
        whole = bare.execute("select sum(requests) from usage").fetchone()
        bare.execute("set variable clients = ['codex']")
        bare.execute("set variable since = timestamptz '2026-11-20 00:00:00+00'")
        part = bare.execute("select sum(requests) from usage").fetchone()
        bare.execute("set variable timezone = 'America/New_York'; set variable \"by\" = 'month'")
        days = bare.execute("select distinct day from usage order by day").fetchall()
    asked = ask(sample, "usage", Window(since=datetime(2026, 11, 20, tzinfo=UTC), clients=("codex",)))
    assert whole is not None
    assert part is not None
    assert part[0] == sum(row["requests"] for row in asked) < whole[0]
    assert days == [("2026-11",)]


def test_the_file_holds_views_alone(sample: Path) -> None:
    with duckdb.connect(str(sample / DATABASE), read_only=True) as bare:
        assert bare.execute("select * from duckdb_tables()").fetchall() == []
        assert {row[0] for row in bare.sql("show tables").fetchall()} == set(contracts.public_names())


def test_a_reader_does_not_stop_a_run(home: Path, small: Path) -> None:
    """Somebody has the file open in a notebook while cron writes."""
    with duckdb.connect(str(small / DATABASE), read_only=True) as bare:
        assert bare.execute("select count(*) from requests").fetchone() == (3,)
        (project(home) / "s.jsonl").write_bytes(responses("s", 0, 5))
        ingest(home, small)
        assert bare.execute("select count(*) from requests").fetchone() == (5,)
