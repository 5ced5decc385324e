"""The notebook API: open a lake, take a view or a query as a polars frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.contracts import public_names
from pipeline.errors import ConfigError
from pipeline.paths import default_lake
from pipeline.warehouse import Answer, Window, connect, connect_current
from pipeline.window import own_options, own_values

if TYPE_CHECKING:
    import polars as pl


class Lake:
    """A lake to ask. Every call opens it anew, so what it answers is what it holds now."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the public views."""
        return public_names()

    def view(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        clients: Sequence[str] = (),
        project: str | None = None,
        timezone: str | None = None,
        by: str | None = None,
        session: str | None = None,
        a: str | None = None,
        b: str | None = None,
        estimator: str | None = None,
    ) -> pl.DataFrame:
        """The rows of a public view: columns, units and what NULL means as `agentlens schema NAME` says.

        `by` is for `usage` and `compare`, `a` and `b` (`column=value`) for `compare`, `session` (an id or how
        one begins) for `flow` and `timeline`, `estimator` (chars4 or calibrated) for sizes of texts. `since` is
        included, `until` is not; a time without a zone is UTC. NULL is n/a: not recorded. A column
        `<count>_measured` tells whether that count is measured. Raises ConfigError for an unknown view or option,
        LakeError if there is no lake.
        """
        asked = {"by": by, "session": session, "a": a, "b": b, "estimator": estimator}
        known = [option.name for option in own_options(name)]
        for option, value in asked.items():
            if value is not None and option not in known:
                raise ConfigError(f"{name} has no option {option!r}", hint=f"it has: {', '.join(known) or 'none'}")
        options = own_values(name, asked)
        window = Window(_aware(since), _aware(until), tuple(clients), project, timezone, options)
        with connect(self.path) as warehouse:
            return _frame(warehouse.view(name, window))

    def sql(self, text: str) -> pl.DataFrame:
        """The rows of one SELECT over the views. Raises QueryError for anything else."""
        with connect(self.path) as warehouse:
            return _frame(warehouse.sql(text))


def open_lake(path: str | os.PathLike[str] | None = None) -> Lake:
    """Open the lake at a path, or the default one. Raises LakeError if there is none."""
    lake = Path(path) if path is not None else default_lake(os.environ)
    with connect_current(lake):
        return Lake(lake)


def _aware(moment: datetime | None) -> datetime | None:
    from datetime import UTC

    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _frame(answer: Answer) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(answer.table())
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()
