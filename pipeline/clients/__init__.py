"""The registry: every module in this folder is a client; other packages add theirs by entry point."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from functools import cache
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.client import Client

ENTRY_POINT_GROUP = "agentlens.clients"


@cache
def names() -> tuple[str, ...]:
    """Names of all clients, without importing one."""
    return tuple(sorted({*_bundled(), *_outside()}))


def load(name: str) -> Client:
    """The client of that name. Raises ConfigError for an unknown one."""
    if name in _bundled():
        client: Client = importlib.import_module(f"pipeline.clients.{name.replace('-', '_')}").CLIENT
        return client
    try:
        found = _outside()[name]
    except KeyError:
        raise ConfigError(f"there is no client {name!r}", hint=f"known clients: {', '.join(names())}") from None
    outside: Client = importlib.import_module(found).CLIENT
    return outside


@cache
def _bundled() -> frozenset[str]:
    return frozenset(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


@cache
def _outside() -> dict[str, str]:
    """Clients of other installed packages: entry points of the group, name -> module with a CLIENT."""
    if not any(_declares_clients(folder) for folder in sys.path):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}


def _declares_clients(folder: str) -> bool:
    """Does a package that is installed there name the group? A look at its file spares loading importlib.metadata."""
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError), open(os.path.join(name, "entry_points.txt"), "rb") as file:
            if f"[{ENTRY_POINT_GROUP}]".encode() in file.read():
                return True
    return False
