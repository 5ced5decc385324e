"""The tools of code-index servers: which are tracked, how clients spell their names, and what their results name.

The tools stand in data/retrieval_tools.csv. Where a result holds paths is told there by expressions such as
`results[].path`; `handles` are the lists whose entries count.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline import client
from pipeline.errors import ConfigError
from pipeline.paths import resource
from pipeline.schema import ToolCall

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "retrieval_tools.csv"
KINDS = ("discovery", "read", "context")
LONGEST_RESULT = 16 << 20  # characters; a client cuts what it sends to a model long before
_LONGEST_PATH = 4096
_WRAPPINGS = 6  # blocks in blocks that are opened to get to a result
_UNFIT = (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError)
_BETWEEN = "_./:-"  # what clients put between a server's name and a tool's
_AFTER_HEADER = re.compile(r"\A(?:[^{\[\n]*\n)*?Output:\n")  # the client's own lines before a result


class Tool(msgspec.Struct, frozen=True):
    """A line of the table. With a `server`, the name counts only as a tool of that one, as `search` should."""

    tool: str
    server: str
    kind: str
    paths: str
    handles: str
    source: str
    checked_on: str
    note: str


COLUMNS = Tool.__struct_fields__


@cache
def tools() -> Mapping[str, Tool]:
    """All tracked tools by name. Raises ConfigError for a bad table."""
    return load(resource("data") / FILE)


def load(path: Path) -> dict[str, Tool]:
    """The tools of a file. Raises ConfigError with the facts path and line."""
    import csv  # a run with nothing new needs no tools

    found: dict[str, Tool] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(f"{path}: no column {', '.join(missing)}", path=path, line=1)
            for row in reader:
                tool = Tool(**{name: (row[name] or "").strip() for name in COLUMNS})
                if not tool.tool or tool.kind not in KINDS or tool.tool in found:
                    hint = f"each tool stands once, its kind is one of {', '.join(KINDS)}"
                    message = f"{path}, line {reader.line_num}: {tool.tool!r} of kind {tool.kind!r}"
                    raise ConfigError(message, hint=hint, path=path, line=reader.line_num)
                found[tool.tool] = tool
    except (OSError, UnicodeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {error}", path=path) from error
    return found


def table() -> pa.Table:
    """The tools as the views read them."""
    import pyarrow as pa

    rows = [{"tool": t.tool, "server": t.server or None, "kind": t.kind} for t in tools().values()]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in ("tool", "server", "kind")]))


# --- names -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def mcp_name(recorded: str) -> tuple[str, str] | None:
    """Server and tool of a recorded name: `mcp__<server>__<tool>`, and of tracked tools any client's spelling.

    `codelens_cl_search`, `codelens.cl_search` and `codelens__cl_search` are all the tool `cl_search` of `codelens`.
    """
    named = client.mcp_name(recorded)
    if named is not None and tracked(*named) is not None:
        return named
    for name in sorted(tools(), key=len, reverse=True):
        server = recorded.removesuffix(name)
        if server != recorded and server[-1:] and server[-1] in _BETWEEN:
            server = server.removeprefix("mcp__").rstrip(_BETWEEN)
            if server and tracked(server, name) is not None:
                return server, name
    return named


@lru_cache(maxsize=4096)
def tracked(server: str | None, tool: str | None) -> Tool | None:
    """The tracked tool that a server's tool is, if it is one."""
    found = tools().get(tool or "")
    if found is None or not found.server or server == found.server or (server or "").endswith(f"_{found.server}"):
        return found
    return None


# --- results ---------------------------------------------------------------------------------------------------------


def note(call: ToolCall, texts: Sequence[str]) -> None:
    """Fill in what the texts of a result name, if the call is one of a tracked tool."""
    tool = tracked(call.mcp_server, call.mcp_tool)
    if tool is not None:
        call.result_paths, call.result_handles = named_in(tool, texts)


def named_in(tool: Tool, texts: Sequence[str]) -> tuple[list[str] | None, int | None]:
    """The distinct paths that a result names, in order of appearance, and the number of its entries.

    Each is None where the result does not say: it is no JSON, it was cut, or it has another form.
    """
    if not tool.paths and not tool.handles:
        return None, None
    for found in _documents(texts):
        paths, handles = _read(tool, found)
        if paths is not None or handles is not None:
            return paths, handles
    return None, None


def _documents(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The objects that the texts of a result hold: in all of them together, else in each of them."""
    if sum(map(len, texts)) > LONGEST_RESULT:
        return
    whole = list(_opened("".join(texts), _WRAPPINGS))
    yield from whole
    if not whole and len(texts) > 1:
        for text in texts:
            yield from _opened(text, _WRAPPINGS)


def _opened(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The objects in a text, and in the content blocks that may be wrapped around them."""
    if not depth:
        return
    if isinstance(value, str):
        value = _decoded(_AFTER_HEADER.sub("", value, count=1).strip())
        if isinstance(value, (dict, list, str)):
            yield from _opened(value, depth - 1)
    elif isinstance(value, list):
        blocks = [block["text"] for block in value if isinstance(block, dict) and isinstance(block.get("text"), str)]
        whole = list(_opened("".join(blocks), depth)) if blocks else []
        yield from whole
        if not whole and len(blocks) > 1:
            for block in blocks:
                yield from _opened(block, depth)
    elif isinstance(value, dict):
        yield value
        for field in ("Ok", "structuredContent", "content", "output"):
            if isinstance(value.get(field), (dict, list, str)):
                yield from _opened(value[field], depth - 1)


def _decoded(text: str) -> Any:
    """The value of a JSON text; None for what is none."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except _UNFIT:
        if "\\ud" not in text.lower():
            return None
    try:  # a server that cuts previews may leave half of a surrogate pair, which the strict decoder refuses
        return json.loads(text)
    except _UNFIT:
        return None


def _read(tool: Tool, result: Mapping[str, Any]) -> tuple[list[str] | None, int | None]:
    lists = [result[name] for name in tool.handles.split() if isinstance(result.get(name), list)]
    handles = sum(map(len, lists)) if lists else None
    found = [tidy(path) for path in _at(result, _tree(tool.paths))]
    paths = list(dict.fromkeys(path for path in found if path))
    return (paths if paths or lists else None), handles


_Tree = dict[str, Any]


@cache
def _tree(expressions: str) -> _Tree:
    """`results[].path target.path` as a tree: {"results": {"[]": {"path": {}}}, "target": {"path": {}}}."""
    root: _Tree = {}
    for expression in expressions.split():
        node = root
        for step in expression.replace("[]", ".[]").split("."):
            node = node.setdefault(step, {})
    return root


def _at(value: Any, tree: _Tree) -> Iterable[str]:
    """The texts at the places of a tree, in the order in which they stand in the value."""
    if isinstance(value, str):
        if not tree:
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in tree:
                yield from _at(inner, tree[key])
    elif isinstance(value, list) and "[]" in tree:
        for inner in value:
            yield from _at(inner, tree["[]"])


def tidy(path: str) -> str | None:
    """A path in one spelling: with slashes, without `.` and needless `..`; None for what is none."""
    path = path.strip()
    if not path or "\0" in path or len(path) > _LONGEST_PATH:
        return None
    if path.encode("utf-8", "replace").decode() != path:
        return None  # half of a surrogate pair
    if "\\" in path and "/" not in path:
        path = path.replace("\\", "/")
    return posixpath.normpath(path)
