"""The marks that a person reads: `12,345` is measured, `~12,345` estimated, `n/a` not recorded."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import isfinite

NA = "n/a"
ESTIMATED = "~"

Number = int | float | Decimal


def count(value: Number | None, *, measured: bool) -> str:
    """A number that is no money."""
    return _marked(value, _number, measured=measured)


def money(value: Number | None, *, measured: bool) -> str:
    """An amount in US dollars."""
    return _marked(value, dollars, measured=measured)


def cost(measured: Number | None, estimated: Number | None, *, complete: bool = True) -> str:
    """The two parts of a cost, never added. A measured part of a sum that is not complete is not marked measured."""
    known = [
        money(value, measured=is_measured)
        for value, is_measured in ((measured, complete), (estimated, False))
        if value is not None
    ]
    return " + ".join(known) or NA


def _marked(value: Number | None, written: Callable[[Number], str], *, measured: bool) -> str:
    if value is None or not isfinite(value):
        return NA
    return written(value) if measured else ESTIMATED + written(value)


def _number(value: Number) -> str:
    """Whole numbers as they are; others with two decimals, or three digits where that would be less."""
    if value == int(value):
        return f"{int(value):,}"
    if not -1 < value < 1:
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{Decimal(f'{value:.3g}'):f}"


def dollars(value: Number) -> str:
    """`$1,234.50`; of less than a cent, two digits that say something: `$0.0034`."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    rounded = Decimal(f"{size:.1e}")
    if rounded == 0 or rounded >= Decimal("0.01"):
        return f"{sign}${size:,.2f}"
    return f"{sign}${rounded:f}"


def rate(value: Number) -> str:
    """A price, of which every digit counts: `$0.075`, `$3.00`."""
    digits = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    cents = max(2, -int(digits.normalize().as_tuple().exponent))
    return f"{'-' if value < 0 else ''}${abs(digits):,.{cents}f}"
