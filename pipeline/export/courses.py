"""How a count went, as a line of bars for a terminal: the context of a session along its requests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from pipeline.export import Course
from pipeline.export.columns import clean
from pipeline.export.marks import NA, count

if TYPE_CHECKING:
    import pyarrow as pa

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*%#"
GAP = " "  # n/a: no bar at all, not the lowest one
_WIDEST = 72
_NARROWEST = 8
_MOST = 20  # courses that are drawn; more of them are nothing that a person looks at


class Courses:
    """The courses of all groups of which a row is shown, each over all of its rows, whatever the order of these."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._values: dict[tuple[str, ...], list[tuple[int, int | None]]] = {}
        self._shown: dict[tuple[str, ...], None] = {}

    def take(self, batch: pa.RecordBatch, keep: int) -> None:
        """Add the rows of a batch, of which the first `keep` are shown."""
        groups = list(zip(*(batch[name].to_pylist() for name in self._course.groups), strict=True))
        places, values = batch[self._course.along].to_pylist(), batch[self._course.count].to_pylist()
        for group, place, value in zip(groups, places, values, strict=True):
            self._values.setdefault(group, []).append((place, value))
        self._shown.update(dict.fromkeys(groups[:keep]))

    def lines(self, width: int | None, *, is_ascii: bool) -> list[str]:
        """A heading and a line a group: its bars, from the least of its values to the largest, and these two."""
        drawn = list(self._shown)[:_MOST]
        values = {group: [value for _, value in sorted(self._values[group], key=itemgetter(0))] for group in drawn}
        names = dict(zip(drawn, _names(drawn), strict=True))
        spans = {group: _span(values[group]) for group in drawn}
        beside = max(map(len, names.values())) + max(map(len, spans.values())) + 4
        room = min(_WIDEST, max(_NARROWEST, (width or 120) - beside))
        longest = max(len(values[group]) for group in drawn)
        each = -(-longest // room)
        bars = {group: sparkline(values[group], each, is_ascii=is_ascii) for group in drawn}
        name_width, bar_width = max(map(len, names.values())), max(map(len, bars.values()))
        what = self._course.count.replace("_", " ")
        scale = "a bar is a request" if each == 1 else f"a bar is the largest of {each:,} requests"
        lines = ["", f"{what}, {scale}, from the least to the largest of its session:"]
        lines += [f"{names[g]:<{name_width}}  {bars[g]:<{bar_width}}  {spans[g]}" for g in drawn]
        more = len(self._shown) - len(drawn)
        return [*lines, f"and {more:,} more sessions; choose one with --session"] if more else lines


def _names(groups: Sequence[tuple[str, ...]]) -> list[str]:
    """Short names for groups: ids by their first characters, as many as tell them apart."""
    ids = [clean(str(group[-1])) for group in groups]
    length = next((n for n in range(8, 64) if len({name[:n] for name in ids}) == len(set(ids))), 64)
    return [f"{clean(' '.join(group[:-1]))} {name[:length]}".strip() for group, name in zip(groups, ids, strict=True)]


def _span(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NA
    least, largest = (count(edge(known), measured=True) for edge in (min, max))
    return least if least == largest else f"{least} to {largest}"


def sparkline(values: Sequence[int | None], each: int = 1, *, is_ascii: bool = False) -> str:
    """Values as bars, the largest of `each` in one. What is not known is a gap; values that are all alike are low."""
    bars = PLAIN_BARS if is_ascii else BARS
    merged = [
        max((value for value in part if value is not None), default=None) for part in _parts(values, max(1, each))
    ]
    known = [value for value in values if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    step = (high - low) / len(bars)
    return "".join(
        GAP if value is None else bars[min(len(bars) - 1, int((value - low) / step) if step else 0)] for value in merged
    )


def _parts(values: Sequence[int | None], each: int) -> list[tuple[int | None, ...]]:
    iterator = iter(values)
    return list(iter(lambda: tuple(itertools.islice(iterator, each)), ()))
