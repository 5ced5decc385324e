"""The doctor: what is there, what is read of it, and whether the lake is what it promises. It changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipeline import clients
from pipeline.client import Home
from pipeline.doctor import homes, lakes, machine
from pipeline.doctor.finding import STATUSES, Finding, Status, worst

__all__ = ["STATUSES", "Finding", "Situation", "Status", "examine", "worst"]


@dataclass(frozen=True, slots=True)
class Situation:
    """What to look at, and when."""

    lake: Path
    home: Home
    clients: tuple[str, ...]  # empty: all
    now: datetime
    timezone: str
    timezone_source: str
    utc_offset: timedelta  # of the machine's own clock


def examine(situation: Situation) -> list[Finding]:
    """Every check, in order: the machine, the clients' folders, the lake. Raises ConfigError for an unknown client."""
    names = situation.clients or clients.names()
    lake = lakes.examine(situation.lake, situation.clients, situation.now)
    found = homes.examine(situation.home, names, lake.known, situation.now + machine.SLACK)
    newest = max(filter(None, (lake.newest, found.newest)), default=None)
    return [
        *machine.versions(),
        machine.clock(situation.now, newest, found.in_future),
        machine.timezone(situation.timezone, situation.timezone_source, situation.now, situation.utc_offset),
        *found.findings,
        *lake.findings,
    ]
