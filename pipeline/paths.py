"""Where things are: the package's own files, the lake, the home, the name of this machine."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

APP = "agentlens"


def resource(name: str) -> Path:
    """The folder `sql` or `data`: inside an installed package, else beside it in a checkout."""
    package = Path(__file__).resolve().parent
    packaged = package / f"_{name}"
    return packaged if packaged.is_dir() else package.parent / name


def default_lake(environ: Mapping[str, str]) -> Path:
    """`$AGENTLENS_LAKE`, else the platform's folder for a user's data."""
    named = environ.get("AGENTLENS_LAKE")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir(APP, appauthor=False)) / "lake"


def machine_name(name: str | None) -> str:
    """A machine's name as files may bear it: the one given, else the host's."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name or platform.node()).strip("._") or "machine"


@contextmanager
def put_in_place(final: Path) -> Iterator[Path]:
    """A temporary name beside a file's own: what is written there takes the file's place as one step."""
    temporary = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)


def cpu_count() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1
