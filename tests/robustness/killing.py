"""Runs that are killed at a moment of their own: between two steps of a commit, not after so many seconds."""

from __future__ import annotations

import os
from pathlib import Path

# What a run does, in this order, before it is killed at the last of them: audit events, and a part of what they name.
MOMENTS: dict[str, list[tuple[str, str]]] = {
    "before-the-commit": [("open", "{table}/client="), ("sqlite3.connect", "")],
    "before-the-rename": [("os.rename", "{table}/client=")],
    "before-the-journal-is-cleared": [("os.rename", "{table}/client="), ("open", "{table}/client=")],
}

_HOOK = """
import os, signal, sys
steps = {steps!r}

def watch(event, given):
    if steps and event == steps[0][0] and steps[0][1] in " ".join(map(str, given[:2])):
        steps.pop(0)
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
"""


def deadly(environ: dict[str, str], folder: Path, moment: str, table: str) -> dict[str, str]:
    """An environment in which a run dies at a moment of its commit of a table."""
    steps = [(event, part.format(table=table)) for event, part in MOMENTS[moment]]
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_HOOK.format(steps=steps), encoding="utf-8")
    return environ | {"PYTHONPATH": os.pathsep.join([str(folder), environ["PYTHONPATH"]])}
