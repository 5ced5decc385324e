"""Copy a case folder to a work folder and apply the recipe in its case.json.

    python tests/cases/materialise.py CASE_DIR OUT_DIR     ->  OUT_DIR/home is the HOME to read

A case folder is never read directly: with a recipe its files are only the raw material. `@CASE@` in an input stands
for the folder that the case was copied to. Operations of "generate" (paths are relative to the case folder):

    replace_bytes  path, find, hex      every occurrence of the text `find` becomes the bytes `hex`
    prepend        path, hex            the bytes are put in front of the file
    replace_line   path, find, prefix, unit, count, [middle, unit2,] suffix
                                        `find` becomes prefix + unit * count [+ middle + unit2 * count] + suffix
    chmod          path, mode           octal mode as text
    symlink        path, target         a symbolic link (may dangle or loop)
    zstd           path, to, remove     compress `path` to `to`; the plain file goes if `remove`
    sqlite         from, to             run the SQL script `from` in a new database `to`; the script goes
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

Step = dict[str, Any]
CASE_MARK = b"@CASE@"


def materialise(case_dir: Path, out: Path) -> Path:
    """Make the case's input below `out`, which must not exist, and return the HOME in it."""
    case = json.loads((case_dir / "case.json").read_text(encoding="utf-8"))
    shutil.copytree(case_dir, out, symlinks=True)
    (out / "case.json").unlink()
    home = out / "home"
    home.mkdir(exist_ok=True)
    for step in case.get("generate") or []:
        _OPERATIONS[step["op"]](out, step)
    _name_the_folder(out)
    return home


def _replace_bytes(out: Path, step: Step) -> None:
    path = out / step["path"]
    path.write_bytes(path.read_bytes().replace(step["find"].encode(), bytes.fromhex(step["hex"])))


def _prepend(out: Path, step: Step) -> None:
    path = out / step["path"]
    path.write_bytes(bytes.fromhex(step["hex"]) + path.read_bytes())


def _replace_line(out: Path, step: Step) -> None:
    path = out / step["path"]
    text = step["prefix"] + step["unit"] * step["count"]
    if "unit2" in step:
        text += step.get("middle", "") + step["unit2"] * step["count"]
    path.write_bytes(path.read_bytes().replace(step["find"].encode(), (text + step["suffix"]).encode()))


def _chmod(out: Path, step: Step) -> None:
    (out / step["path"]).chmod(int(step["mode"], 8))


def _symlink(out: Path, step: Step) -> None:
    path = out / step["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(step["target"])


def _zstd(out: Path, step: Step) -> None:
    import zstandard

    plain = out / step["path"]
    (out / step["to"]).write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    if step.get("remove"):
        plain.unlink()


def _sqlite(out: Path, step: Step) -> None:
    script, target = out / step["from"], out / step["to"]
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(target)) as database:
        database.executescript(script.read_text(encoding="utf-8"))
        database.commit()
    script.unlink()


_OPERATIONS: dict[str, Callable[[Path, Step], None]] = {
    "replace_bytes": _replace_bytes,
    "prepend": _prepend,
    "replace_line": _replace_line,
    "chmod": _chmod,
    "symlink": _symlink,
    "zstd": _zstd,
    "sqlite": _sqlite,
}


def _name_the_folder(out: Path) -> None:
    for path in out.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.suffix not in {".jsonl", ".json", ".md", ".toml"}:
            continue
        try:
            content = path.read_bytes()
        except PermissionError:
            continue  # a case of an unreadable file
        if CASE_MARK in content:
            path.write_bytes(content.replace(CASE_MARK, str(out).encode()))


if __name__ == "__main__":
    print(materialise(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
