"""Names of tracked tools, and what their results name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import retrieval
from pipeline.errors import ConfigError
from pipeline.retrieval import mcp_name, named_in, tidy, tools, tracked

FOUND = {"results": [{"path": "a.py"}, {"path": "b.py"}, {"path": "a.py"}]}
TEXT = json.dumps(FOUND)
BLOCKS = [{"type": "text", "text": TEXT}]


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("mcp__codelens__cl_search", ("codelens", "cl_search")),
        ("mcp__plugin_lens_codelens__cl_search", ("plugin_lens_codelens", "cl_search")),
        ("codelens__cl_search", ("codelens", "cl_search")),
        ("codelens_cl_search", ("codelens", "cl_search")),
        ("codelens.cl_search", ("codelens", "cl_search")),
        ("codelens/cl_search", ("codelens", "cl_search")),
        ("mcp__my__server__cl_load", ("my__server", "cl_load")),
        ("mcp__codelens__cl_doctor", ("codelens", "cl_doctor")),
        ("codelens_cl_doctor", None),
        ("acl_search", None),
        ("cl_search", None),
        ("_cl_search", None),
        ("Read", None),
        ("", None),
    ],
)
def test_any_clients_spelling_is_split(recorded: str, expected: tuple[str, str] | None) -> None:
    assert mcp_name(recorded) == expected


def test_operational_tools_are_not_tracked() -> None:
    for name in ("refresh", "doctor", "stats", "prune", "drop", "current", "usage"):
        assert tracked("codelens", f"cl_{name}") is None
    assert {name: tool.kind for name, tool in tools().items()} == {
        "cl_search": "discovery",
        "cl_explore": "discovery",
        "cl_related": "discovery",
        "cl_impact": "discovery",
        "cl_expand": "read",
        "cl_save": "context",
        "cl_load": "context",
    }


@pytest.mark.parametrize(
    "texts",
    [
        [TEXT],
        [f" {TEXT}\n"],
        [TEXT[:20], TEXT[20:]],
        ["3 hits:", TEXT],
        [f"Wall time: 0.2 seconds\nOutput:\n{TEXT}"],
        ["Wall time: 0.2 seconds\nOutput:\n", TEXT],
        [json.dumps(BLOCKS)],
        [json.dumps({"content": BLOCKS, "isError": False})],
        [json.dumps({"Ok": {"content": BLOCKS}})],
        [json.dumps({"structuredContent": FOUND})],
        [json.dumps(TEXT)],
        [json.dumps([{"type": "text", "text": "3 hits:"}, *BLOCKS])],
        [TEXT.replace('"a.py"}, ', '"a.py", "preview": "\\ud83d"}, ')],
    ],
    ids=range(13),
)
def test_a_result_is_found_in_whatever_it_is_wrapped(texts: list[str]) -> None:
    assert named_in(tools()["cl_search"], texts) == (["a.py", "b.py"], 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no index yet",
        "null",
        "7",
        "[]",
        "{}",
        '{"results":{}}',
        '{"results":"a.py"}',
        TEXT[:-9],
        f"{TEXT[:30]}…3 tokens truncated…{TEXT[-9:]}",
        '{"error":"no index"}',
        "[" * 100_000,
        '{"Ok":' * 100_000,
        json.dumps({"results": [{"path": "x" * retrieval.LONGEST_RESULT}]}),
        "\ud800",
    ],
    ids=range(15),
)
def test_what_a_result_does_not_say_is_none(text: str) -> None:
    assert named_in(tools()["cl_search"], [text]) == (None, None)


@pytest.mark.parametrize(
    ("tool", "result", "expected"),
    [
        ("cl_search", {"results": []}, ([], 0)),
        ("cl_search", {"results": [{"path": 7}, {"path": ""}, {"path": {"path": "x"}}, "a.py", None]}, ([], 5)),
        (
            "cl_explore",
            {
                "files": [{"path": "a"}, {"path": "b", "results": [{"path": "no"}]}],
                "related": [{"sourcePath": "c", "path": "d"}, {"path": "a"}],
            },
            (["a", "b", "c", "d"], 2),
        ),
        (
            "cl_impact",
            {
                "target": {"path": "t"},
                "candidates": [{"path": "u"}],
                "callers": [{"path": "v"}],
                "callees": [{"path": "w"}],
                "affectedFiles": [{"path": "v"}, {"path": "x"}],
                "affectedTests": [{"path": "y"}],
            },
            (["t", "u", "v", "w", "x", "y"], 6),
        ),
        ("cl_impact", {"path": "only.py"}, (["only.py"], None)),
        ("cl_expand", {"path": "a.py", "content": "x"}, (None, None)),
        ("cl_load", {"results": [{"path": "a.py"}]}, (None, None)),
    ],
)
def test_each_tool_names_files_in_its_own_places(tool: str, result: Any, expected: Any) -> None:
    assert named_in(tools()[tool], [json.dumps(result)]) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./a//b/../c.py", "a/c.py"),
        ("../a.py", "../a.py"),
        ("a\\b.py", "a/b.py"),
        ("", None),
        (" ", None),
        ("a\0b", None),
        ("a\ud800", None),
        ("x" * 5000, None),
    ],
)
def test_a_path_has_one_spelling(path: str, expected: str | None) -> None:
    assert tidy(path) == expected


# --- the table -------------------------------------------------------------------------------------------------------

HEADER = ",".join(retrieval.COLUMNS)


def test_tools_of_other_servers_can_be_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tools.csv"
    path.write_text(f"{HEADER}\nsearch,finder,discovery,hits[].file,hits,me,2026-11-30,\n", encoding="utf-8")
    added = retrieval.load(path)
    monkeypatch.setattr(retrieval, "tools", lambda: added)
    retrieval.mcp_name.cache_clear()
    retrieval.tracked.cache_clear()
    try:
        assert mcp_name("my_finder.search") == ("my_finder", "search")
        assert tracked("finder", "search") is not None
        assert tracked("web", "search") is None
        assert mcp_name("web_search") is None
        assert named_in(added["search"], ['{"hits":[{"file":"a"}]}']) == (["a"], 1)
    finally:
        retrieval.mcp_name.cache_clear()
        retrieval.tracked.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "tool,kind\ncl_search,discovery\n",
        f"{HEADER}\nx,,finder,,,,,\n",
        f"{HEADER}\n,,read,,,,,\n",
        f"{HEADER}\nx,,read,,,,,\nx,,read,,,,,\n",
        f'{HEADER}\n"x',
        None,
    ],
    ids=["column", "kind", "name", "twice", "csv", "file"],
)
def test_a_bad_table_is_told(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "tools.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tools\.csv"):
        retrieval.load(path)
