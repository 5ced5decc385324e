"""What a view's contract promises of its rows, as SQL: the tests and `agentlens doctor` ask the same of a lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.contracts import Contract, ViewColumn
from pipeline.errors import ContractError


@dataclass(frozen=True, slots=True)
class Check:
    """One promise. `broken` is an aggregate over the view's rows: how many of them break it."""

    view: str
    column: str
    kind: str  # grain | not_null | accepted_values | range | identity | flag
    promise: str
    broken: str


def checks_of(contract: Contract) -> list[Check]:
    """All that can be asked of the rows of a view. NULL breaks nothing but `not_null`, `flag` and the grain."""
    return [*_grain(contract), *(check for column in contract.columns for check in _column(contract, column))]


def question(contract: Contract) -> str:
    """One SELECT that counts for each check, in their order, the rows that break it; it reads the view once."""
    counts = ", ".join(check.broken for check in checks_of(contract))
    return f"select {counts} from main.{contract.name}"


def differing_columns(contract: Contract, names: list[str], types: list[str]) -> list[str]:
    """Columns that a view has and its contract has not, or the other way round, or with another type or place."""
    promised = [(column.name, column.type) for column in contract.columns]
    found = list(zip(names, types, strict=True))
    if promised == found:
        return []
    return [name for name, _ in {*promised} ^ {*found}] or [name for name, _ in found]


def _grain(contract: Contract) -> Iterator[Check]:
    keys = ", ".join(_quoted(key) for key in contract.grain)
    name = ", ".join(contract.grain)
    # A row of keys is not NULL even if all of them are, so rows without keys are compared as well.
    yield Check(contract.name, name, "grain", "is unique", f"count(*) - count(distinct row({keys}))")


def _column(contract: Contract, column: ViewColumn) -> Iterator[Check]:
    name = _quoted(column.name)
    key_is_known = column.name in contract.grain and column.name not in contract.nullable_grain
    if column.null is None or key_is_known:
        yield _check(contract, column, "not_null", "is never n/a", f"{name} is null")
    for test in column.tests:
        ((kind, wanted),) = test.items()
        yield _check(contract, column, kind, *_test(contract, column, kind, wanted))
    if column.measured not in {None, "always", "never"}:
        flag = _quoted(str(column.measured))
        wrong = f"{flag} is null or ({name} is null and {flag})"
        yield _check(contract, column, "flag", "is not called measured where it is n/a", wrong)


def _check(contract: Contract, column: ViewColumn, kind: str, promise: str, wrong: str) -> Check:
    return Check(contract.name, column.name, kind, promise, f"count(*) filter (where {wrong})")


def _test(contract: Contract, column: ViewColumn, kind: str, wanted: Any) -> tuple[str, str]:
    """A test of a contract in words, and the condition of a row that breaks it."""
    name = _quoted(column.name)
    if kind == "accepted_values":
        return f"is one of {', '.join(map(str, wanted))}", f"{name} not in ({', '.join(map(_literal, wanted))})"
    if kind == "range":
        return _range(name, wanted)
    if kind == "identity":
        return f"equals {wanted}", f"{name} is not null and {name} is distinct from ({wanted})"
    raise ContractError(f"{contract.name}.{column.name}: there is no test {kind!r}", view=contract.name)


def _range(name: str, wanted: Mapping[str, float]) -> tuple[str, str]:
    bounds = {"min": ("at least", "<"), "max": ("at most", ">")}
    promise = " and ".join(f"{bounds[end][0]} {limit}" for end, limit in wanted.items())
    return f"is {promise}", " or ".join(f"{name} {bounds[end][1]} {limit}" for end, limit in wanted.items())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
