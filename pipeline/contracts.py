"""The contract of a view: what a row is, its columns in order, what is measured, what NULL means, what must hold.

A view is two files, `sql/<view>.sql` (one select, whose first line is a comment that says what a row is) and
`sql/<view>.toml`. Views in `stg/` and `int/` are steps on the way; only those on top are public.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, ContractError
from pipeline.paths import resource

SCHEMAS = {"": "main", "stg": "stg", "int": "int"}
DIMENSIONS = {"VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP WITH TIME ZONE", "VARCHAR[]"}


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view. `measured` is `always`, `never`, the name of a flag column, or None for what is no count."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    measured: str | None = None
    null: str | None = None
    total: bool = False
    tests: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_flag(self) -> bool:
        return self.name.endswith("_measured")


@dataclass(frozen=True, slots=True)
class Contract:
    """What a view promises. `grain` is unique and not NULL unless `nullable_grain` says which keys may be n/a."""

    name: str
    help: str
    grain: tuple[str, ...]
    columns: tuple[ViewColumn, ...]
    order: tuple[str, ...] = ()
    notes: str = ""
    nullable_grain: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # columns that a narrow terminal should show, beside the grain
    has_window: bool = True
    sizes_texts: bool = False  # are there sizes of texts in it, which an estimator makes
    course: str | None = None  # a count whose course a terminal draws: a line for each key, along the last one

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.is_flag)

    def column(self, name: str) -> ViewColumn:
        for column in self.columns:
            if column.name == name:
                return column
        raise ContractError(f"view {self.name} has no column {name}", view=self.name, column=name)


@dataclass(frozen=True, slots=True)
class View:
    """A file in `sql/`."""

    schema: str
    name: str
    path: Path

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def help(self) -> str:
        """The view in one line, from its first comment."""
        with self.path.open(encoding="utf-8") as file:
            return file.readline().removeprefix("--").strip()


@cache
def views() -> tuple[View, ...]:
    """All views, by schema and name."""
    root = resource("sql")
    return tuple(
        View(schema, path.stem, path)
        for folder, schema in SCHEMAS.items()
        for path in sorted((root / folder if folder else root).glob("*.sql"))
    )


@cache
def public_names() -> tuple[str, ...]:
    """Names of the public views."""
    return tuple(view.name for view in views() if view.schema == "main")


def find(name: str) -> View:
    """The public view of that name. Raises ConfigError for an unknown one."""
    for view in views():
        if view.schema == "main" and view.name == name:
            return view
    raise ConfigError(f"there is no view {name!r}", hint=f"known views: {', '.join(public_names())}")


@cache
def load(name: str) -> Contract:
    """The contract of a public view, or of another one by `stg.name` and `int.name`."""
    view = next((v for v in views() if v.qualified == name), None) or find(name)
    path = view.path.with_suffix(".toml")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ContractError(f"the contract {path.name} cannot be read: {error}", view=name) from error
    columns = tuple(
        ViewColumn(
            name=column,
            type=facts["type"],
            doc=facts.get("doc", ""),
            unit=facts.get("unit"),
            measured=facts.get("measured"),
            null=facts.get("null"),
            total=facts.get("total", False),
            tests=tuple(facts.get("tests", ())),
        )
        for column, facts in data["columns"].items()
    )
    return Contract(
        name=view.name,
        help=view.help,
        grain=tuple(data["grain"]),
        columns=columns,
        order=tuple(data.get("order", ())),
        notes=data.get("notes", ""),
        nullable_grain=tuple(data.get("nullable_grain", ())),
        keep=tuple(data.get("keep", ())),
        has_window=data.get("has_window", True),
        sizes_texts=data.get("sizes_texts", False),
        course=data.get("course"),
    )
