"""The notebook API: views and queries as polars frames."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

import pipeline
from pipeline import contracts
from pipeline.errors import ConfigError, LakeError, QueryError
from tests.tools.lakes import SAMPLE, ask, ingest, sample_lake


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


def test_every_view_is_a_frame_of_its_columns(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    assert lake.path == sample
    assert lake.views == contracts.public_names()
    for name in lake.views:
        frame = lake.view(name)
        assert isinstance(frame, pl.DataFrame)
        assert frame.columns == [column.name for column in contracts.load(name).columns]
        assert frame.height == len(ask(sample, name))


def test_types_and_what_is_not_known(sample: Path) -> None:
    frame = pipeline.open_lake(str(sample)).view("skills")
    assert frame.schema["baseline"] == pl.Int64
    assert frame.schema["overhead_usd"] == pl.Float64
    assert frame.schema["last_used_at"] == pl.Datetime("us", "UTC")
    assert frame.schema["baseline_measured"] == pl.Boolean
    assert frame["body_tokens"].null_count() > 0


def test_windows(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    whole = lake.view("requests")
    middle = whole["ts"].sort()[whole.height // 2]
    before, after = lake.view("requests", until=middle), lake.view("requests", since=middle)
    assert before.height + after.height == whole.height
    assert before["ts"].max() < middle <= after["ts"].min()
    assert lake.view("requests", clients=["codex"])["client"].unique().to_list() == ["codex"]
    assert lake.view("requests", project="ledger")["project"].unique().to_list() == ["/projects/ledger"]
    assert lake.view("usage", by="month")["day"].unique().to_list() == ["2026-11"]


def test_a_time_without_a_zone_is_utc(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    naive = datetime(2026, 11, 12, 13, 0)  # noqa: DTZ001 - as people write it in a notebook
    aware = naive.replace(tzinfo=UTC)
    elsewhere = aware.astimezone(timezone(timedelta(hours=9)))
    heights = {lake.view("requests", since=moment).height for moment in (naive, aware, elsewhere)}
    assert len(heights) == 1
    assert 0 < heights.pop() < lake.view("requests").height


def test_days_of_a_zone(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    assert lake.view("usage", timezone="Pacific/Kiritimati")["day"].to_list() != lake.view("usage")["day"].to_list()


def test_sql(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    frame = lake.sql("select client, count(*) as n from requests group by client order by client")
    assert frame.columns == ["client", "n"]
    assert frame["client"].to_list() == ["claude-code", "codex"]
    assert lake.sql("select 1 as n where false").height == 0
    with pytest.raises(QueryError, match="only SELECT"):
        lake.sql("drop view requests")


def test_what_is_not_there(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake"):
        pipeline.open_lake(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ConfigError, match="known views"):
        pipeline.open_lake(sample).view("nothing")
    with pytest.raises(AttributeError, match="no attribute 'close_lake'"):
        pipeline.close_lake  # noqa: B018


def test_the_default_lake(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLENS_LAKE", str(sample))
    assert pipeline.open_lake().path == sample


def test_a_lake_answers_with_what_it_holds_now(tmp_path: Path) -> None:
    ingest(SAMPLE, tmp_path / "lake", names=("codex",))
    lake = pipeline.open_lake(tmp_path / "lake")
    before = lake.view("requests").height
    ingest(SAMPLE, tmp_path / "lake")
    assert lake.view("requests").height > before


def test_views_are_made_where_they_are_missing(tmp_path: Path) -> None:
    ingest(SAMPLE, tmp_path / "lake", names=("codex",))
    (tmp_path / "lake" / "agentlens.duckdb").unlink()
    assert pipeline.open_lake(tmp_path / "lake").view("requests").height


def test_options_are_those_of_the_command(sample: Path) -> None:
    lake = pipeline.open_lake(sample)
    assert lake.view("skills", estimator="calibrated").height == lake.view("skills").height
    (session,) = lake.sql("select min(session_id) as id from flow")["id"].to_list()
    assert lake.view("flow", session=session)["session_id"].unique().to_list() == [session]
    assert lake.view("compare", a="client=codex", b="client=claude-code").height == 3
    with pytest.raises(ConfigError, match="none of chars4, calibrated"):
        lake.view("skills", estimator="exactly")
    with pytest.raises(ConfigError, match="no option 'by'"):
        lake.view("skills", by="day")
    with pytest.raises(ConfigError, match="give both"):
        lake.view("compare", a="client=codex")
