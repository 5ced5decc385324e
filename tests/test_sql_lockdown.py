"""`agentlens sql` cannot write, read outside the lake, load code or reach a network; each way of trying is tried."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import QueryError
from pipeline.warehouse import connect, refresh
from tests.conftest import Agentlens
from tests.tools.lakes import sample_lake

# LAKE is the lake, OUT a folder beside it that holds secret.csv, both without a slash at the end.
WRITES = {
    "copy-to-lake": "copy (select 1) to 'LAKE/x.csv'",
    "copy-to-outside": "copy requests to 'OUT/x.parquet'",
    "copy-over-the-lakes-file": "copy (select 1) to 'LAKE/requests/client=codex/month=2026-11/here-000000.parquet'",
    "copy-in-a-with-over-the-lakes-file": "with x as (copy (select 1) to "
    "'LAKE/requests/client=codex/month=2026-11/here-000000.parquet') from x",
    "copy-partitioned": "copy requests to 'LAKE/x' (format parquet, partition_by (client))",
    "copy-to-stdout": "copy (select 1) to stdout",
    "copy-in-a-with": "with x as (copy (select 1) to 'LAKE/x.csv') from x",
    "copy-in-a-with-unused": "with x as materialized (copy (select 1) to 'LAKE/x.csv') select 1",
    "copy-in-a-with-outside": "with x as (copy (select 1) to 'OUT/x.csv') from x",
    "copy-in-an-inner-with": "select * from (with x as (copy (select 1) to 'LAKE/x.csv') from x)",
    "copy-in-serialized-sql": "from json_execute_serialized_sql(json_serialize_sql("
    "'with x as (copy (select 1) to ''LAKE/x.csv'') from x'))",
    "copy-in-query": "from query('copy (select 1) to ''LAKE/x.csv''')",
    "copy-in-a-with-in-query": "from query('with x as (copy (select 1) to ''LAKE/x.csv'') from x')",
    "insert-in-a-with": "with x as (insert into requests values (1) returning *) from x",
    "insert-in-a-with-of-memory": "with x as (insert into memory.main.t values (1) returning *) from x",
    "delete-in-a-with": "with x as (delete from requests returning *) from x",
    "export-database": "export database 'LAKE/d'",
    "export-database-outside": "export database 'OUT/d'",
    "import-database": "import database 'LAKE'",
    "explain-analyze-copy": "explain analyze copy (select 1) to 'LAKE/x.csv'",
    "explain-copy": "explain copy (select 1) to 'LAKE/x.csv'",
    "explain-analyze-with": "explain analyze with x as (copy (select 1) to 'LAKE/x.csv') from x",
    "explain-analyze-in-parentheses": "explain (analyze) copy (select 1) to 'LAKE/x.csv'",
    "create-table": "create table t as select 1",
    "create-table-in-memory": "create table memory.main.t as select 1",
    "create-view": "create or replace view requests as select 1",
    "create-temp": "create temp table t as select 1",
    "create-macro": "create macro f() as 1",
    "create-secret": "create persistent secret s (type s3, key_id 'x')",
    "create-type": "create type t as enum ('x')",
    "insert": "insert into requests values (1)",
    "update": "update requests set client = 'x'",
    "delete": "delete from lake.requests",
    "merge": "merge into requests using skills on true when matched then delete",
    "truncate": "truncate requests",
    "drop-view": "drop view requests",
    "drop-schema": "drop schema stg cascade",
    "alter": "alter view requests rename to x",
    "comment": "comment on view requests is 'x'",
    "logging-to-a-file": "from enable_logging(storage => 'file', storage_path => 'LAKE/log')",
    "profiling-to-a-file": "from enable_profiling(save_location => 'LAKE/profile.json')",
}
STATE = {
    "attach": "attach 'OUT/x.duckdb' as x",
    "attach-memory": "attach ':memory:' as x",
    "detach": "detach memory",
    "use": "use memory",
    "install": "install httpfs",
    "load": "load json",
    "load-a-file": "load 'OUT/evil.duckdb_extension'",
    "pragma": "pragma database_list",
    "pragma-set": "pragma enable_profiling",
    "set": "set threads = 1",
    "set-external-access": "set enable_external_access = true",
    "set-variable": "set variable since = timestamptz '2026-01-01'",
    "reset": "reset allowed_directories",
    "reset-lock": "reset lock_configuration",
    "call": "call pragma_version()",
    "call-checkpoint": "call force_checkpoint()",
    "checkpoint": "checkpoint",
    "vacuum": "vacuum",
    "begin": "begin transaction",
    "prepare": "prepare p as select 1",
    "prepare-copy": "prepare p as copy (select 1) to 'LAKE/x.csv'",
    "execute": "execute p",
    "deallocate": "deallocate p",
}
READS = {
    "read-csv": "select * from read_csv('/etc/passwd')",
    "read-csv-beside": "select * from read_csv('OUT/secret.csv')",
    "read-text": "select * from read_text('/etc/hostname')",
    "read-blob": "select * from read_blob('/proc/self/environ')",
    "read-json": "select * from read_json('OUT/secret.csv')",
    "read-parquet-dots": "select * from read_parquet('LAKE/../*/*.parquet')",
    "read-parquet-relative": "select * from read_parquet('../../*.parquet')",
    "read-parquet-list": "select * from read_parquet(['OUT/secret.csv'])",
    "read-duckdb": "select * from read_duckdb('OUT/x.duckdb')",
    "dots-through-the-lake": "select * from read_text('LAKE/requests/../../OUTNAME/secret.csv')",
    "file-as-a-table": "from 'OUT/secret.csv'",
    "file-url": "select * from read_text('file://OUT/secret.csv')",
    "glob-etc": "select * from glob('/etc/*')",
    "glob-beside": "select * from glob('OUT/*')",
    "glob-dots": "select * from glob('LAKE/../*')",
    "sniff": "select * from sniff_csv('OUT/secret.csv')",
    "parquet-metadata": "select * from parquet_metadata('OUT/secret.csv')",
    "in-query": "from query('select * from read_text(''OUT/secret.csv'')')",
    "in-query-table": "from query_table(['OUT/secret.csv'])",
    "in-a-subquery": "select (select content from read_text('OUT/secret.csv'))",
    "in-serialized-sql": "from json_execute_serialized_sql(json_serialize_sql('from read_text(''OUT/secret.csv'')'))",
    "temporary-folder": "select * from read_text('.tmp/secret.csv')",
    "http": "from 'https://example.org/x.csv'",
    "s3": "select * from read_parquet('s3://bucket/x.parquet')",
    "environment": "select getenv('HOME')",
}
TRICKS = {
    "two-statements": "select 1; select 2",
    "two-with-a-copy": "select 1; copy (select 1) to 'LAKE/x.csv'",
    "comment-before": "/* select */ copy (select 1) to 'LAKE/x.csv'",
    "line-comment-before": "-- select 1\ncopy (select 1) to 'LAKE/x.csv'",
    "comment-between": "select 1 /* ; */ ; -- \n drop view requests",
    "comment-in-explain": "explain /* select */ analyze copy (select 1) to 'LAKE/x.csv'",
    "comment-for-a-blank": "explain/**/analyze copy (select 1) to 'LAKE/x.csv'",
    "capitals": "CoPy (SELECT 1) TO 'LAKE/x.csv'",
    "blank-before": "\n\t copy (select 1) to 'LAKE/x.csv'",
    "nothing": "",
    "comment-only": "-- nothing",
    "semicolon-only": ";",
    "half-a-select": "select",
    "parameter": "select $1",
    "unknown-table": "select * from no_such_view",
    "fails-while-it-runs": "select error('boom') from requests",
    "python-variable": "select * from contracts",
}
WORK = {
    "select": ("select count(*) as n from requests where client = 'codex'", ["n"]),
    "with": ("with x as (select client from requests) select distinct client from x", ["client"]),
    "describe": ("describe skills", None),
    "show": ("show tables", ["name"]),
    "summarize": ("summarize usage", None),
    "explain": ("explain select * from requests", None),
    "explain-in-capitals": ("EXPLAIN\nSELECT 1", None),
    "explain-after-a-comment": ("-- how\nexplain select * from requests", None),
    "values": ("values (1, 'a'), (2, 'b')", None),
    "from-first": ("from requests limit 3", None),
    "table": ("table skills", None),
    "lake-table": ("select count(*) as n from lake.requests", ["n"]),
    "window": ("select seq, row_number() over (order by ts) as n from requests", ["seq", "n"]),
    "semicolon": ("select 1 as n;", ["n"]),
    "comment": ("/* one */ select 1 as n -- two", ["n"]),
    "a-file-of-the-lake": ("select count(*) as n from read_parquet('LAKE/requests/**/*.parquet')", ["n"]),
}
REFUSED = WRITES | STATE | READS | TRICKS


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake, a folder beside it, and a folder of temporary files in reach of a relative path."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(sample_lake(tmp_path_factory.getbasetemp()), folder / "lake")
    (folder / "lake" / "agentlens.duckdb").unlink()  # it names the files of the other one
    for name in ("outside", ".tmp"):
        (folder / name).mkdir()
        (folder / name / "secret.csv").write_text("word\nhidden\n", encoding="utf-8")
    refresh(folder / "lake")
    return folder


def filled(query: str, place: Path) -> str:
    outside = place / "outside"
    return query.replace("LAKE", str(place / "lake")).replace("OUTNAME", outside.name).replace("OUT", str(outside))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changes(place: Path, before: dict[Path, bytes]) -> list[str]:
    """What was written since, which is taken back: the next test begins with the same lake."""
    after = contents(place)
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    for path in changed:
        if path in before:
            path.write_bytes(before[path])
        else:
            path.unlink()
    return [str(path.relative_to(place)) for path in changed]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(place)
    before = contents(place)
    try:
        with connect(place / "lake") as warehouse, pytest.raises(QueryError) as refusal:
            warehouse.sql(filled(REFUSED[name], place)).table()
    finally:
        written = changes(place, before)
    assert not written
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", WORK)
def test_works(place: Path, name: str) -> None:
    query, columns = WORK[name]
    with connect(place / "lake") as warehouse:
        answer = warehouse.sql(filled(query, place))
        rows = answer.table()
    assert rows.num_rows
    assert columns is None or rows.column_names == columns


def test_a_refusal_leaves_the_lake_open_for_the_next_query(place: Path) -> None:
    with connect(place / "lake") as warehouse:
        for name in ("copy-to-lake", "set", "read-csv", "attach"):
            with pytest.raises(QueryError):
                warehouse.sql(filled(REFUSED[name], place)).table()
        assert warehouse.sql("select 1 as n").table().to_pylist() == [{"n": 1}]


def test_a_large_query_leaves_nothing_behind(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing lies in the folder that a person happens to be in, nor in the lake."""
    monkeypatch.chdir(tmp_path)
    before = contents(place)
    with connect(place / "lake") as warehouse:
        warehouse.sql("select hash(r) as h from range(2000000) as t (r) order by h").table()
    assert not list(tmp_path.iterdir())
    assert not changes(place, before)


@pytest.mark.parametrize(
    "name",
    ["copy-to-lake", "copy-in-a-with", "explain-analyze-copy", "read-csv", "two-statements", "fails-while-it-runs"],
)
def test_refused_by_the_program(agentlens: Agentlens, place: Path, name: str) -> None:
    before = contents(place)
    done = agentlens("sql", filled(REFUSED[name], place), "--lake", place / "lake")
    assert not changes(place, before)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("agentlens: error: ")
    assert done.stderr.count("\n") == 1


def test_a_comment_before_explain_is_no_crash(agentlens: Agentlens, place: Path) -> None:
    done = agentlens("sql", "/* how */ explain select 1", "--lake", place / "lake")
    assert done.returncode in {0, 1}
    assert "Traceback" not in done.stderr


def test_query_from_stdin(place: Path, environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "sql", "-", "--lake", str(place / "lake"), "--format", "csv"]
    done = subprocess.run(
        command, input="select 1 as n", env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "n\n1\n"
