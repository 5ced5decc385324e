"""What every client keeps to, asked of each one in the registry over the inputs of its own cases."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import clients
from pipeline.client import Client, Home, Parsed, Report, Source, absent
from pipeline.errors import ConfigError, UnknownFormatError
from pipeline.jsonl import open_source
from pipeline.schema import PACKED, TABLES
from tests.cases.materialise import materialise
from tests.conftest import ROOT
from tests.tools.lakes import cases_of

NAMES = clients.names()
FILLED = tuple(table for table in PACKED if table != "sources")  # the tables that a parser fills
SET_BY_INGEST = {"source_id", "machine", "position"}
NOT_ON_EVERY_DISK = {"sessions.repo_root"}  # the cases' projects lie on no disk
SMALL = 64 << 10
every_client = pytest.mark.parametrize("name", NAMES)

_WORK = TemporaryDirectory(prefix="agentlens-cases-")  # removed when the process ends


@dataclass(frozen=True, slots=True)
class Input:
    """A transcript of a case, where its client found it, as plain bytes."""

    case: str
    path: Path
    data: bytes


@cache
def homes(name: str) -> dict[str, Path]:
    return {case.name: materialise(case, Path(_WORK.name) / case.name) for case in cases_of(name)}


@cache
def inputs(name: str) -> tuple[Input, ...]:
    """All transcripts of a client's cases."""
    return tuple(
        Input(case, path, read(path)) for case, home in homes(name).items() for path in found(clients.load(name), home)
    )


def found(client: Client, home: Path) -> Iterator[Path]:
    return client.discover(Home(home, {}))


def read(path: Path) -> bytes:
    with open_source(path) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


def parse(name: str, given: Input, data: bytes | None = None) -> tuple[Parsed, Report]:
    content = given.data if data is None else data
    report = Report()
    source = Source(given.path, "source", len(content), 0)
    return clients.load(name).parse(source, io.BytesIO(content), report), report


def rows(parsed: Parsed) -> Iterator[tuple[str, Any]]:
    for table in FILLED:
        for row in getattr(parsed, table):
            yield table, row


@cache
def set_fields(name: str) -> frozenset[str]:
    """The columns that are not NULL in some row of some case."""
    seen: set[str] = set()
    for one in inputs(name):
        for table, row in rows(parse(name, one)[0]):
            seen |= {f"{table}.{field}" for field in row.__struct_fields__ if getattr(row, field) is not None}
    return frozenset(seen)


@every_client
def test_there_are_inputs(name: str) -> None:
    assert inputs(name)
    assert clients.load(name).name == name


@every_client
def test_supports_names_every_column_that_a_parser_fills(name: str) -> None:
    columns = {f"{table}.{field}" for table in FILLED for field in TABLES[table].__struct_fields__}
    assert set(clients.load(name).supports) == {c for c in columns if c.partition(".")[2] not in SET_BY_INGEST}


@every_client
def test_what_is_absent_is_null_and_what_is_measured_is_set_somewhere(name: str) -> None:
    client = clients.load(name)
    assert set_fields(name).isdisjoint(absent(client))
    measured = {field for field, support in client.supports.items() if support == "measured"}
    assert measured - set_fields(name) <= NOT_ON_EVERY_DISK


@every_client
def test_parsing_twice_gives_equal_rows(name: str) -> None:
    for one in inputs(name):
        assert parse(name, one) == parse(name, one), one.case


@every_client
def test_rows_fit_their_tables(name: str) -> None:
    for one in inputs(name):
        parsed, _ = parse(name, one)
        for table, row in rows(parsed):
            msgspec.convert(msgspec.to_builtins(row), type(row))
            assert row.source_id == "source", (one.case, table)
        keys = [(row.session_id, row.seq) for row in parsed.requests]
        for session in {session for session, _ in keys}:
            assert sorted(seq for of, seq in keys if of == session) == list(range(sum(of == session for of, _ in keys)))


@every_client
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_prefix_makes_it_raise(name: str, data: st.DataObject) -> None:
    given_ = data.draw(st.sampled_from(small(name)), label="input")
    survives(name, given_, given_.data[: data.draw(st.integers(0, len(given_.data)), label="cut")])


@every_client
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_flipped_byte_makes_it_raise(name: str, data: st.DataObject) -> None:
    given_ = data.draw(st.sampled_from(small(name)), label="input")
    damaged = bytearray(given_.data)
    for _ in range(data.draw(st.integers(1, 3), label="bytes")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    survives(name, given_, bytes(damaged))


@every_client
@pytest.mark.parametrize(
    "junk", [b"", b"\n\n", b"\0" * 4096, b"{}", b"[]\n", b"null\n1\n", b'{"type":', b"\xff\xfe\n" * 9], ids=repr
)
def test_junk_is_survived(name: str, junk: bytes) -> None:
    survives(name, inputs(name)[0], junk)


@cache
def small(name: str) -> tuple[Input, ...]:
    return tuple(one for one in inputs(name) if 0 < len(one.data) <= SMALL)


def survives(name: str, given: Input, data: bytes) -> None:
    try:
        parsed, report = parse(name, given, data)
    except UnknownFormatError:
        return  # no line is left that is one of this client's
    for _, row in rows(parsed):
        msgspec.convert(msgspec.to_builtins(row), type(row))
    assert report.skipped_lines <= data.count(b"\n") + 1


@pytest.mark.parametrize(("name", "other"), [(a, b) for a in NAMES for b in NAMES if a != b])
def test_the_files_of_another_client_are_none_of_its(name: str, other: str) -> None:
    for home in homes(other).values():
        assert not list(found(clients.load(name), home))
    for one in inputs(other):
        try:
            parsed, _ = parse(name, one)
        except UnknownFormatError:
            continue
        assert not list(rows(parsed)), one.case


@every_client
def test_each_real_file_is_found_once(name: str) -> None:
    for home in homes(name).values():
        paths = list(found(clients.load(name), home))
        assert len({path.resolve() for path in paths}) == len(paths)


@every_client
def test_an_empty_home_holds_nothing(name: str, tmp_path: Path) -> None:
    assert not list(found(clients.load(name), tmp_path))
    assert not list(found(clients.load(name), tmp_path / "nowhere"))


@every_client
def test_there_is_a_page_of_its_own(name: str) -> None:
    text = (ROOT / "docs" / "clients" / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith("# ")


def test_an_unknown_client_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no client 'no-such-client'.*claude-code"):
        clients.load("no-such-client")


def test_a_client_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_outside", lambda: {"outsider": "pipeline.clients.codex"})
    assert clients.load("outsider").name == "codex"
