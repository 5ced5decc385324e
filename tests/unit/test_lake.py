"""The lake's files: months, packs that are replaced whole, older schemas, lost state, and the lock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import lake as lake_module
from pipeline.errors import LakeError, LakeLockedError
from pipeline.lake import (
    PackWriter,
    by_month,
    conform,
    lock,
    migrate,
    month_of,
    pack_file,
    rebuild_manifest,
    source_id,
    sweep,
    to_table,
)
from pipeline.manifest import Manifest, Move
from pipeline.schema import TABLES, Request, Source, arrow_schema, columns
from tests.robustness.transcripts import counts, project, responses, said
from tests.tools.lakes import MACHINE, ask, ingest

MARCH = 1_772_355_600_000_000  # 2026-03-01 09:00 UTC
APRIL = MARCH + 31 * 86_400_000_000


def request(source: str, number: int, ts: int | None = MARCH, **more: Any) -> Request:
    return Request(source_id=source, request_id=f"{source}-{number}", seq=number, ts=ts, **more)


def put(
    lake: Path, rows: list[Request], replaced: set[str], pack: int = 0, touched: tuple[str, ...] = ()
) -> list[Move]:
    """Write rows into a pack and put its files in place."""
    writer = PackWriter(lake, "codex", MACHINE, pack, frozenset(replaced))
    writer.write("requests", by_month("requests", rows, dict.fromkeys(replaced, "1970-01")), touched)
    in_place(lake, writer.moves)
    return writer.moves


def in_place(lake: Path, moves: list[Move]) -> None:
    for move in moves:
        if move.temporary is None:
            (lake / move.final).unlink()
        else:
            (lake / move.temporary).replace(lake / move.final)


def stored(lake: Path) -> dict[str, list[str]]:
    """Request ids by the file that holds them."""
    return {
        path.relative_to(lake).as_posix(): pq.read_table(path, partitioning=None)["request_id"].to_pylist()
        for path in sorted(lake.glob("requests/**/*.parquet"))
    }


def file_of(month: str, pack: int = 0) -> str:
    return f"requests/client=codex/month={month}/{MACHINE}-{pack:06d}.parquet"


# --- months and rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (0, "1970-01"),
        (-1, "1969-12"),
        (MARCH, "2026-03"),
        (1_772_323_199_999_999, "2026-02"),
        (1_772_323_200_000_000, "2026-03"),
        (None, None),
        (10**18 * 9, None),
        (-(10**18), None),
    ],
)
def test_the_month_of_a_time(moment: int | None, expected: str | None) -> None:
    assert month_of(moment) == expected


def test_a_row_without_a_time_goes_with_its_file() -> None:
    rows = [request("a", 0), request("a", 1, None), request("b", 0, APRIL)]
    months = by_month("requests", rows, {"a": "2020-01", "b": "2020-02"})
    assert {month: [row.request_id for row in of] for month, of in months.items()} == {
        "2026-03": ["a-0"],
        "2020-01": ["a-1"],
        "2026-04": ["b-0"],
    }


@pytest.mark.parametrize("table", TABLES)
def test_tables_of_no_rows_have_the_declared_schema(table: str) -> None:
    assert to_table(table, [], MACHINE).schema.equals(arrow_schema(table), check_metadata=True)
    assert [field.name for field in arrow_schema(table)] == [column.name for column in columns(table)]


def test_a_value_of_the_wrong_type_is_no_row() -> None:
    with pytest.raises((TypeError, ValueError)):
        to_table("requests", [request("a", 0, input_tokens="many")], MACHINE)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        to_table("requests", [request("a", 0, input_tokens=2**63)], MACHINE)


def test_the_path_of_a_pack() -> None:
    assert pack_file("requests", "codex", "2026-03", MACHINE, 7) == file_of("2026-03", 7)


def test_source_ids() -> None:
    ids = {source_id(m, c, p, g) for m in "ab" for c in "cd" for p in "ef" for g in (0, 1)}
    assert len(ids) == 16


# --- packs -----------------------------------------------------------------------------------------------------------


def test_a_pack_is_one_file_a_month(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0), request("a", 1, APRIL), request("b", 0)], {"a", "b"})
    assert stored(tmp_path) == {file_of("2026-03"): ["a-0", "b-0"], file_of("2026-04"): ["a-1"]}


def test_a_changed_source_replaces_its_rows_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0), request("b", 0), request("b", 1, APRIL)], {"a", "b"})
    put(tmp_path, [request("b", 5)], {"b"}, touched=("2026-03", "2026-04"))
    assert stored(tmp_path) == {file_of("2026-03"): ["a-0", "b-5"]}


def test_packs_do_not_touch_each_other(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0)], {"a"}, pack=0)
    put(tmp_path, [request("b", 0)], {"b"}, pack=1)
    put(tmp_path, [], {"a"}, pack=0, touched=("2026-03",))
    assert stored(tmp_path) == {file_of("2026-03", 1): ["b-0"]}


def test_nothing_is_visible_before_it_is_put_in_place(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path, "codex", MACHINE, 0, frozenset({"a"}))
    writer.write("requests", {"2026-03": [request("a", 0)]}, [])
    assert stored(tmp_path) == {}
    (move,) = writer.moves
    assert move.final == file_of("2026-03")
    assert move.temporary is not None
    assert (tmp_path / move.temporary).exists()
    writer.abandon()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_equal_rows_make_equal_files(tmp_path: Path) -> None:
    rows = [request("a", 0, model="m"), request("b", 0)]
    for name in ("one", "two"):
        put(tmp_path / name, rows, {"a", "b"})
    assert (tmp_path / "one" / file_of("2026-03")).read_bytes() == (tmp_path / "two" / file_of("2026-03")).read_bytes()


def test_a_file_tells_what_its_columns_mean(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0)], {"a"})
    schema = pq.read_schema(tmp_path / file_of("2026-03"))
    assert schema.field("input_tokens").metadata[b"doc"] == b"input that was not cached"
    assert pq.read_metadata(tmp_path / file_of("2026-03")).row_group(0).column(0).compression == "ZSTD"


def test_a_damaged_file_is_named_and_not_overwritten(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0)], {"a"})
    (tmp_path / file_of("2026-03")).write_bytes(b"no parquet")
    with pytest.raises(LakeError, match=r"here-000000\.parquet.*move that file away"):
        put(tmp_path, [request("b", 0)], {"b"})
    assert (tmp_path / file_of("2026-03")).read_bytes() == b"no parquet"


def test_marks_of_files_that_went_and_came_back(tmp_path: Path) -> None:
    def gone() -> dict[str, bool]:
        (path,) = tmp_path.glob("sources/**/*.parquet")
        rows = pq.read_table(path, partitioning=None).to_pylist()
        return {row["source_id"]: row["gone_at"] is not None for row in rows}

    def mark(**at: int | None) -> None:
        writer = PackWriter(tmp_path, "codex", MACHINE, 0, frozenset())
        writer.mark(at, ["2026-03", "2026-09"])
        in_place(tmp_path, writer.moves)

    writer = PackWriter(tmp_path, "codex", MACHINE, 0, frozenset({"a", "b"}))
    writer.write("sources", {"2026-03": [Source(source_id="a", path="/a"), Source(source_id="b", path="/b")]}, [])
    in_place(tmp_path, writer.moves)
    assert gone() == {"a": False, "b": False}
    mark(a=MARCH)
    assert gone() == {"a": True, "b": False}
    mark(a=None)
    assert gone() == {"a": False, "b": False}


SOURCES = st.sampled_from("abc")


@settings(max_examples=30)
@given(st.lists(st.tuples(SOURCES, st.lists(st.sampled_from([MARCH, APRIL, None]), max_size=3)), max_size=6))
def test_a_pack_holds_the_last_word_of_each_source(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int | None]]]
) -> None:
    lake = tmp_path_factory.mktemp("pack")
    last: dict[str, list[str]] = {}
    for turn, (source, times) in enumerate(steps):
        rows = [request(source, turn * 10 + number, ts) for number, ts in enumerate(times)]
        put(lake, rows, {source}, touched=("2026-03", "2026-04", "1970-01"))
        last[source] = [row.request_id for row in rows]
    assert sorted(i for ids in stored(lake).values() for i in ids) == sorted(i for ids in last.values() for i in ids)


# --- older schemas ---------------------------------------------------------------------------------------------------


def test_rows_of_an_older_schema_get_todays_form() -> None:
    today = arrow_schema("requests")
    old = to_table("requests", [request("a", 0, input_tokens=5)], MACHINE)
    old = old.drop_columns(["output_tokens", "copy_rank", "is_error"]).append_column("dropped", pa.array(["x"]))
    old = old.set_column(old.schema.get_field_index("seq"), "seq", pa.array([0], pa.int32()))
    new = conform(old, today)
    assert new.schema.equals(today)
    (row,) = new.to_pylist()
    assert (row["input_tokens"], row["output_tokens"], row["copy_rank"], row["is_error"]) == (5, None, 0, False)
    assert conform(new, today) is new


def test_migration_writes_only_what_is_of_another_schema(tmp_path: Path) -> None:
    put(tmp_path, [request("a", 0)], {"a"}, pack=0)
    put(tmp_path, [request("b", 0)], {"b"}, pack=1)
    old = tmp_path / file_of("2026-03", 1)
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(["speed"]), old)
    other = tmp_path / "requests/client=codex/month=2026-03/elsewhere-000000.parquet"
    pq.write_table(pq.read_table(old, partitioning=None), other)
    moves = migrate(tmp_path, MACHINE)
    assert [move.final for move in moves] == [file_of("2026-03", 1)]
    in_place(tmp_path, moves)
    assert pq.read_schema(old).equals(arrow_schema("requests"))
    assert migrate(tmp_path, MACHINE) == []
    assert "speed" not in pq.read_schema(other).names, "another machine's files are its own"


def test_a_lake_of_an_older_version_goes_on(home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 3))
    ingest(home, lake)
    for path in lake.glob("requests/**/*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["inference_geo", "copy_rank"]), path)
    Manifest(lake, MACHINE).note(schema="older")
    (project(home) / "s.jsonl").unlink()
    ingest(home, lake)
    assert said(lake) == counts(3)
    assert ask(lake, "sources")[0]["gone_at"] is not None


# --- lost state ------------------------------------------------------------------------------------------------------


def test_a_lost_manifest_is_rebuilt_from_the_lakes_files(home: Path, lake: Path) -> None:
    for name in ("kept", "gone", "cut"):
        (project(home) / f"{name}.jsonl").write_bytes(responses(name, 0, 4))
    ingest(home, lake)
    (project(home) / "cut.jsonl").write_bytes(responses("cut", 0, 1))
    ingest(home, lake)
    before = Manifest(lake, MACHINE).read()
    assert before is not None
    rebuilt = rebuild_manifest(lake, MACHINE)
    facts = ("source_id", "client", "path", "generation", "size", "pack", "months", "gone_at")
    for known in (before.known, rebuilt):
        known.sort(key=lambda source: source.source_id)
    assert [[getattr(k, f) for f in facts] for k in rebuilt] == [[getattr(k, f) for f in facts] for k in before.known]


def test_a_run_after_the_state_was_lost_doubles_and_loses_nothing(home: Path, lake: Path) -> None:
    for name in ("kept", "gone"):
        (project(home) / f"{name}.jsonl").write_bytes(responses(name, 0, 4))
    ingest(home, lake)
    (project(home) / "gone.jsonl").unlink()
    for path in lake.glob("state/*.sqlite"):
        path.unlink()
    ingest(home, lake)
    assert said(lake) == counts(8)
    assert len(stored_sources(lake)) == 2
    assert ingest(home, lake).read == 0


def stored_sources(lake: Path) -> list[str]:
    files = lake.glob("sources/**/*.parquet")
    return [i for path in files for i in pq.read_table(path, partitioning=None)["source_id"].to_pylist()]


def test_damaged_state_is_named_with_what_to_do(home: Path, lake: Path) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 4))
    ingest(home, lake)
    (path,) = lake.glob("state/*.sqlite")
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(LakeError, match="remove that file"):
        ingest(home, lake)
    path.unlink()
    ingest(home, lake)
    assert said(lake) == counts(4)


def test_a_commit_that_died_before_its_renames_is_finished(
    monkeypatch: pytest.MonkeyPatch, home: Path, lake: Path
) -> None:
    (project(home) / "s.jsonl").write_bytes(responses("s", 0, 4))
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "_finish", die_before_renames)
        with pytest.raises(KeyboardInterrupt):
            ingest(home, lake)
    assert not list(lake.glob("**/*.parquet"))
    report = ingest(home, lake)
    assert report.read == 0, "the work was done: only the renames were left"
    assert said(lake) == counts(4)
    assert not list(lake.glob("**/*.tmp"))


def die_before_renames(_: Manifest, __: object, moves: list[Move]) -> None:
    if moves:
        raise KeyboardInterrupt


def test_half_written_files_of_a_dead_run_are_swept(lake: Path) -> None:
    mine = lake / "requests/client=codex/month=2026-03" / f"{MACHINE}-000000.parquet.99.tmp"
    others = mine.with_name("elsewhere-000000.parquet.99.tmp")
    whole = mine.with_name(f"{MACHINE}-000000.parquet")
    mine.parent.mkdir(parents=True)
    for path in (mine, others, whole):
        path.touch()
    sweep(lake, MACHINE)
    assert [path for path in (mine, others, whole) if path.exists()] == [others, whole]


# --- the lock --------------------------------------------------------------------------------------------------------


def test_the_lock_names_its_holder(lake: Path) -> None:
    with lock(lake, 0):
        with pytest.raises(LakeLockedError, match=f"pid {os.getpid()}.*--wait") as refusal, lock(lake, 0):
            pytest.fail("held twice")
        assert refusal.value.path == lake
        assert str(os.getpid()) in refusal.value.holder
    with lock(lake, 0):
        pass
    assert not list(lake.glob("*.holder"))


def test_a_lock_without_a_note_is_held_by_another_run(lake: Path) -> None:
    with lock(lake, 0):
        (lake / f"{lake_module.LOCK}.holder").unlink()
        with pytest.raises(LakeLockedError, match="another run"), lock(lake, 0):
            pytest.fail("held twice")


def test_a_lake_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LakeError, match="cannot make the lake"), lock(tmp_path / "file" / "lake", 0):
        pytest.fail("made")
