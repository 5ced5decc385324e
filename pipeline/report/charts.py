"""Charts of the page: Vega draws them here, ahead of time, so that the page needs no script for them.

What Vega returns is taken apart and put together again with nothing but shapes and text, so that a name from a
transcript is a text in it and can be nothing else. A mark's description becomes its `<title>`: a browser shows that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from pipeline.errors import ConfigError, ExportError
from pipeline.export.columns import clean

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Spec = dict[str, Any]

# Seen well on white and on nearly black: each has a contrast of 3 or more against both.
COLOURS = ("#2f7fc1", "#c8642b", "#2c9464", "#a561c4", "#b8860b", "#d1495b", "#178f9e", "#6f8a1f")
OTHERS = "#7f7f7f"
MEASURED, ESTIMATED = COLOURS[0], COLOURS[1]
_VEGA_LITE = "6.4"
_WIDTH = 1060
_FEWEST_BARS = 8  # for which a chart over time has room
_DATES = 9  # on its axis
_ELEMENTS = {"svg", "g", "path", "rect", "line", "text", "tspan"}
_ATTRIBUTES = {
    "class", "d", "dx", "dy", "fill", "fill-opacity", "font-family", "font-size", "font-style", "font-weight",
    "height", "opacity", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit",
    "stroke-opacity", "stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2",
}  # fmt: skip
_SVG = "{http://www.w3.org/2000/svg}"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG_FRACTION = re.compile(r"(\.\d{2})\d+")


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a bar over a stretch of time, in ms since 1970, from `low` up to `high`."""

    begin: int
    end: int
    low: float
    high: float
    series: str
    says: str


@dataclass(frozen=True, slots=True)
class Length:
    """A bar with a name."""

    label: str
    value: float
    is_measured: bool
    says: str


@dataclass(frozen=True, slots=True)
class Point:
    """A request of a session: its place, the size of its context, was the context compacted before it."""

    seq: int
    tokens: int | None
    is_compacted: bool
    says: str


def harmless(text: str) -> str:
    """A text of any origin as one line of what XML can hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", clean(text))


def label(text: str, longest: int = 52) -> str:
    """The same, and short."""
    line = harmless(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def spend(bars: Sequence[Bar], series: Sequence[str], places: Sequence[int], *, mark: str, axis: str) -> Spec:
    """Stacked bars of money over time. A series has the colour of its place; beyond the colours it is grey."""
    colours = [COLOURS[place] if place < len(COLOURS) else OTHERS for place in places]
    values = [
        {"begin": b.begin, "end": b.end, "low": b.low, "high": b.high, "series": b.series, "says": b.says} for b in bars
    ]
    return {
        "height": 220,
        "data": {"values": values},
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": {"field": "begin", "type": "temporal", **_dates(bars)},
            "x2": {"field": "end"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "stack": None,
                "axis": {
                    "title": axis,
                    "tickCount": 5,
                    "minExtent": 62,
                    "labelExpr": f"'{mark}$' + format(datum.value, ',~r')",
                },
            },
            "y2": {"field": "high"},
            "color": {
                "field": "series",
                "type": "nominal",
                "scale": {"domain": list(series), "range": colours},
                "legend": {"title": None, "orient": "bottom", "columns": 3, "labelLimit": 280, "columnPadding": 70},
            },
            "description": {"field": "says"},
        },
    }


def _dates(bars: Sequence[Bar]) -> Spec:
    """A scale of time that is not filled by a single bar, and an axis that names days on which a bar begins."""
    first, last = min(bar.begin for bar in bars), max(bar.end for bar in bars)
    pad = max(0, (_FEWEST_BARS * (bars[0].end - bars[0].begin) - (last - first)) // 2)
    begins = sorted({bar.begin for bar in bars})
    step = -(-len(begins) // _DATES)
    return {
        "scale": {"type": "utc", "domain": [first - pad, last + pad]},
        "axis": {
            "title": None,
            "format": "%Y-%m-%d",
            "values": begins[::step],
            "labelAlign": "left",
            "labelOverlap": "greedy",
        },
    }


def lengths(bars: Sequence[Length], *, axis: str) -> Spec:
    """Bars with names, in the order given; measured and estimated ones in two colours."""
    words = ("measured", "~ estimated")
    names = distinct([b.label for b in bars])
    values = [
        {"label": name, "value": b.value, "kind": words[not b.is_measured], "says": b.says}
        for name, b in zip(names, bars, strict=True)
    ]
    return {
        "height": {"step": 22},
        "data": {"values": values},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {
                "field": "label",
                "type": "nominal",
                "sort": None,
                "axis": {"title": None, "labelLimit": 400, "minExtent": 10 + _widest(names)},
            },
            "x": {
                "field": "value",
                "type": "quantitative",
                "axis": {"title": axis, "tickCount": 6, "format": "~s"},
            },
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": list(words), "range": [MEASURED, ESTIMATED]},
                "legend": {"title": None, "orient": "bottom", "columnPadding": 30},
            },
            "description": {"field": "says"},
        },
    }


def flow(points: Sequence[Point]) -> Spec:
    """The context of a session, request by request, with a dashed line where it was compacted."""
    values = [{"seq": p.seq, "tokens": p.tokens, "says": p.says} for p in points]
    compacted = [{"seq": p.seq, "says": p.says} for p in points if p.is_compacted]
    x = {
        "field": "seq",
        "type": "quantitative",
        "scale": {"nice": False},
        "axis": {"title": "request", "tickCount": 10, "tickMinStep": 1},
    }
    y = {
        "field": "tokens",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": "context (tokens)", "tickCount": 5, "format": "~s", "minExtent": 48},
    }
    return {
        "height": 200,
        "layer": [
            {
                "data": {"values": values},
                "mark": {"type": "line", "color": MEASURED, "strokeWidth": 1.5, "aria": False},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": compacted},
                "mark": {"type": "rule", "color": ESTIMATED, "strokeDash": [4, 3], "strokeWidth": 1.5},
                "encoding": {"x": x, "description": {"field": "says"}},
            },
            {
                "data": {"values": values},
                "mark": {"type": "point", "filled": True, "color": MEASURED, "size": 14, "opacity": 1},
                "encoding": {"x": x, "y": y, "description": {"field": "says"}},
            },
        ],
    }


def _widest(labels: Sequence[str]) -> int:
    """Room for labels in px, whatever font the reader has: Vega measures with its own, which is a narrow one."""
    return min(400, max((round(7.4 * len(label)) for label in labels), default=0))


def draw(spec: Spec) -> str:
    """The chart as SVG to stand in HTML. Raises ConfigError without the library, ExportError if it cannot draw."""
    try:
        import vl_convert
    except ImportError:
        raise missing("vl-convert-python") from None
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "width": _WIDTH, **_LOOK, **spec}
    try:
        # Nothing is to be loaded: all data stands in the chart.
        drawn = vl_convert.vegalite_to_svg(whole, vl_version=_VEGA_LITE, allowed_base_urls=[])
    except (RuntimeError, ValueError) as error:
        raise ExportError(f"a chart cannot be drawn: {str(error).splitlines()[0]}") from error
    return rebuilt(drawn)


def missing(package: str) -> ConfigError:
    """What to say where a library of the extra is not there."""
    hint = "install it with: pip install 'agentlens-pipeline[report]'"
    return ConfigError(f"a report needs the package {package}, which is not installed", hint=hint)


_INK = "currentColor"  # of the page, whose colours follow the reader's scheme
_LOOK: Mapping[str, Any] = {
    "background": None,
    "config": {
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": _INK, "titleColor": _INK, "domainColor": _INK, "tickColor": _INK, "gridColor": _INK,
            "gridOpacity": 0.14, "domainOpacity": 0.5, "tickOpacity": 0.5, "labelFontSize": 12, "titleFontSize": 12,
            "titleFontWeight": "normal", "labelSeparation": 16, "titlePadding": 8,
        },
        "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "symbolType": "square"},
    },
}  # fmt: skip


def rebuilt(svg: str) -> str:
    """A drawing with nothing in it but shapes and text."""
    root = ET.fromstring(svg)  # noqa: S314 - Vega wrote it a moment ago
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)  # in HTML it needs no name space
    _keep_shapes(root)
    root.set("aria-hidden", "true")  # the figure around it says what it shows, a table beside it every number
    root.set("focusable", "false")
    return ET.tostring(root, encoding="unicode")


def _keep_shapes(element: Element) -> None:
    for child in list(element):
        unseen = child.get("display") == "none" or child.get("opacity") == "0"
        empty = child.tag == "path" and child.get("class") in ("background", "foreground")
        if child.tag not in _ELEMENTS or unseen or empty:
            element.remove(child)
            continue
        _keep_shapes(child)
        if child.tag == "g" and not len(child) and not child.text:
            element.remove(child)
    says = element.get("aria-label") if element.tag in {"path", "line", "rect"} else None
    for name in list(element.attrib):
        if name not in _ATTRIBUTES:
            del element.attrib[name]
        elif name in {"d", "transform"}:
            element.set(name, _LONG_FRACTION.sub(r"\1", element.attrib[name]))
    if says:
        title = ET.SubElement(element, "title")
        title.text = says


def distinct(names: Sequence[str]) -> list[str]:
    """Labels of which none stands twice: bars of one label would lie upon each other."""
    taken: dict[str, int] = {}
    made = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        made.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
    return made
