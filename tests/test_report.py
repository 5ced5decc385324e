"""The HTML report: what stands in the page, that it says what the views say, and that it does nothing else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.errors import ConfigError
from pipeline.export.marks import money
from pipeline.report import charts
from pipeline.report.data import POINTS, TOP, Asked
from pipeline.report.page import Wanted, write
from pipeline.report.tables import Cell
from pipeline.warehouse import Window, connect
from tests.conftest import Agentlens
from tests.robustness.transcripts import project
from tests.tools.lakes import ask, ingest, lake_of_all_cases, query, sample_lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
IMAGE = "<img src=x onerror=alert(1)>"
HOSTILE = [
    IMAGE,
    "</script><script>alert(2)</script>",
    "<!--",
    '" onmouseover="alert(3)',
    "{{ 7 * 7 }}",
    "line\u2028break",
    "</style><svg onload=alert(4)>",
    "]]>&lt;b&gt;",
    "\ufffe\x01",
]


MONEY = ("measured usd", "estimated usd")


# --- lakes -----------------------------------------------------------------------------------------------------------


def line(kind: str, number: int, **more: Any) -> bytes:
    when = f"2026-11-{1 + number // 600:02d}T{9 + number // 60 % 10:02d}:{number % 60:02d}:00.000Z"
    same = {"type": kind, "uuid": f"u{number}", "parentUuid": None, "sessionId": f"{IMAGE}S", "isSidechain": False}
    return json.dumps(same | {"cwd": f"/w/{IMAGE}", "version": "2.1.220", "timestamp": when} | more).encode() + b"\n"


def response(number: int, model: str, context: int = 1000, **more: Any) -> bytes:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": context}
    message: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    message |= {"usage": usage | {"output_tokens": 5}, "content": [{"type": "text", "text": "x"}]}
    return line("assistant", number, requestId=f"req_{number}", message=message, **more)


def hostile_session() -> bytes:
    """Names that would like to be more: of skills, of a model, of a project, of the session, of its title."""
    listing = "\n".join(f"- {name}: what it is for" for name in HOSTILE)
    rows = [
        line("attachment", 0, attachment={"type": "skill_listing", "content": listing, "names": HOSTILE}),
        *(response(1 + n, model) for n, model in enumerate(("claude-sonnet-5", *HOSTILE))),
        line("custom-title", 40, customTitle=f"{IMAGE} {HOSTILE[1]}"),
        response(41, "claude-sonnet-5", costUSD=0.25),
        b'{"broken": \n',
    ]
    return b"".join(rows)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    (project(folder / "home") / f"{IMAGE.replace('/', '')}.jsonl").write_bytes(hostile_session())
    ingest(folder / "home", folder / "lake")
    return folder / "lake"


@pytest.fixture(scope="module")
def long_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of one session of 1,000 requests that is compacted after the 500th."""
    folder = tmp_path_factory.mktemp("long")
    rows = [response(n, "claude-sonnet-5", 1000 * (1 + n % 500)) for n in range(500)]
    rows.append(line("system", 500, subtype="compact_boundary", compactMetadata={"trigger": "auto"}))
    rows += [response(n, "claude-sonnet-5", 1000 * (1 + n % 500)) for n in range(501, 1001)]
    (project(folder / "home") / "S.jsonl").write_bytes(b"".join(rows))
    ingest(folder / "home", folder / "lake")
    return folder / "lake"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake(tmp_path_factory.getbasetemp())


def made(lake: Path, window: Window | None = None, **wanted: Any) -> str:
    with connect(lake) as warehouse:
        return write(warehouse, window or Window(), Wanted(**wanted), NOW).decode()


@cache
def page_of(lake: Path) -> str:
    """The page of all of a lake, made once: each takes a second or two."""
    return made(lake, title=f"AgentLens {IMAGE}", sessions=3)


# --- reading a page ----------------------------------------------------------------------------------------------


@dataclass
class Grid:
    """A table of the page: headings, and the rows as pairs of what is read and what is sorted by."""

    caption: str = ""
    headings: list[str] = field(default_factory=list)
    rows: list[list[tuple[str, str | None]]] = field(default_factory=list)

    def column(self, heading: str) -> list[tuple[str, str | None]]:
        place = self.headings.index(heading)
        return [row[place] for row in self.rows]


class Reader(HTMLParser):
    """Elements, attributes and tables of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.grids: dict[str, Grid] = {}
        self.text = ""
        self._grid = Grid()
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self._open.append(tag)
        if tag == "table":
            self._grid = Grid()
        elif tag == "caption":
            self.grids[str(found["id"])] = self._grid
        elif tag == "th" and found.get("scope") == "col":
            self._grid.headings.append("")
        elif tag == "tr" and "tbody" in self._open:
            self._grid.rows.append([])
        elif tag == "td" and "tbody" in self._open:
            self._grid.rows[-1].append(("", found.get("data-raw")))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass  # elements that have no end

    def handle_data(self, data: str) -> None:
        inside = set(self._open)
        if not inside & {"script", "style"}:
            self.text += data
        if "caption" in inside:
            self._grid.caption += data
        elif "thead" in inside and self._grid.headings:
            self._grid.headings[-1] += data.strip()
        elif "tbody" in inside and "td" in inside:
            text, raw = self._grid.rows[-1][-1]
            self._grid.rows[-1][-1] = (text + data, raw)


def number(raw: str | None) -> float | None:
    return None if raw is None else float(raw)


# --- what stands in it -------------------------------------------------------------------------------------------


def test_page_is_whole_and_loads_nothing(sample: Path) -> None:
    page = page_of(sample)
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>\n<html")
    assert not [e for e in reader.elements if e[0] in {"link", "img", "iframe", "object", "embed", "base", "form"}]
    for tag, attributes in reader.elements:
        assert not {name for name in attributes if name.startswith("on") or name in {"src", "style", "xlink:href"}}
        assert str(attributes.get("href", "#")).startswith("#"), tag
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page


def test_policy_lets_nothing_run_but_the_pages_own(sample: Path) -> None:
    elements = Reader(page_of(sample)).elements
    (policy,) = [str(a["content"]) for tag, a in elements if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert len([tag for tag, _ in elements if tag == "script"]) == 1
    assert len([tag for tag, _ in elements if tag == "style"]) == 1


def test_page_can_be_walked(sample: Path) -> None:
    """Landmarks, headings in order, a caption and scopes in every table, a name for every drawing."""
    page = page_of(sample)
    elements = Reader(page).elements
    tags = [tag for tag, _ in elements]
    assert [tags.count(tag) for tag in ("header", "nav", "main", "footer", "h1")] == [1, 1, 1, 1, 1]
    levels = [int(tag[1]) for tag in tags if tag in {"h1", "h2", "h3"}]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert tags.count("table") == tags.count("caption") > 5
    assert all(a.get("scope") for tag, a in elements if tag == "th")
    assert all(a.get("aria-label") for _, a in elements if a.get("role") == "img")
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {str(a["href"])[1:] for tag, a in elements if tag == "a"}
    assert targets <= set(ids)
    assert {str(a["aria-labelledby"]) for _, a in elements if "aria-labelledby" in a} <= set(ids)
    assert [a for tag, a in elements if tag == "html"] == [{"lang": "en"}]


def test_every_chart_is_drawn(sample: Path) -> None:
    page = page_of(sample)
    drawings = [tag for tag, _ in Reader(page).elements if tag == "svg"]
    assert len(drawings) == 1 + 3 + 1  # estimated spend (no client of the sample reports a cost), contexts, overhead


def test_legend_and_sizing_are_said(sample: Path) -> None:
    text = Reader(page_of(sample)).text
    for words in ("not recorded", "estimated, from a text's size", "never added", "Sizes of texts: estimated as"):
        assert words in text


# --- numbers are those of the views ------------------------------------------------------------------------------


def test_spend_is_that_of_usage(sample: Path) -> None:
    grids = Reader(page_of(sample)).grids
    by_day = query(
        sample,
        "select day, sum(estimated_usd) as estimated, sum(measured_usd) as measured, sum(requests) as requests"
        " from usage group by day order by day desc",
    )
    grid = grids["table-period"]
    assert [text for text, _ in grid.column("day")] == [row["day"] for row in by_day]
    for row, estimated, measured in zip(by_day, grid.column("estimated usd"), grid.column("measured usd"), strict=True):
        assert number(estimated[1]) == (pytest.approx(row["estimated"]) if row["estimated"] is not None else None)
        assert estimated[0] == money(row["estimated"], measured=False)
        assert measured == ("n/a", None)
        assert row["measured"] is None
    models = {row["model"] for row in ask(sample, "usage")}
    assert {text for text, _ in grids["table-model"].column("model")} == models
    assert sum(int(str(raw)) for _, raw in grids["table-model"].column("requests")) == sum(
        row["requests"] for row in by_day
    )


def test_measured_and_estimated_money_stand_apart(hostile: Path) -> None:
    """One request's cost is reported, one is estimated, those of unknown models are n/a."""
    reader = Reader(page_of(hostile))
    grid = reader.grids["table-model"]
    (place,) = [i for i, (model, _) in enumerate(grid.column("model")) if model == "claude-sonnet-5"]
    (estimated,) = [r["estimated_usd"] for r in ask(hostile, "requests") if r["estimated_usd"] is not None]
    assert grid.column("measured usd")[place] == ("$0.25", "0.25")
    assert grid.column("estimated usd")[place] == (money(estimated, measured=False), str(estimated))
    unpriced = [row for i, row in enumerate(zip(*map(grid.column, MONEY), strict=True)) if i != place]
    assert set(unpriced) == {(("n/a", None), ("n/a", None))}
    assert len([tag for tag, _ in reader.elements if tag == "svg"]) == 2 + 1 + 1  # money twice, context, overhead


def test_only_a_number_is_marked_as_an_estimate() -> None:
    cells = Cell("~5", 5), Cell("~/skills/pdf", "~/skills/pdf"), Cell("n/a"), Cell("n/a", "n/a"), Cell("5", 5)
    assert [cell.mark for cell in cells] == ["estimated", "", "na", "", ""]


def test_idle_items_are_those_of_the_view(sample: Path) -> None:
    grid = Reader(page_of(sample)).grids["table-idle"]
    rows = ask(sample, "idle")
    assert f"{TOP} of {len(rows)} rows" in grid.caption
    assert [text for text, _ in grid.column("item")] == [row["item"] for row in rows[:TOP]]
    for heading, name in (
        ("idle cost (tokens)", "idle_cost"),
        ("request spared tokens", "request_spared_tokens"),
        ("month spared tokens", "month_spared_tokens"),
        ("month spared usd", "month_spared_usd"),
    ):
        assert [number(raw) for _, raw in grid.column(heading)] == [row[name] for row in rows[:TOP]]
        assert all(text.startswith("~") for text, raw in grid.column(heading) if raw)


def test_overhead_is_summed_over_projects(sample: Path) -> None:
    grid = Reader(page_of(sample)).grids["table-overhead"]
    rows = ask(sample, "context")
    for (item, _), (kind, _), (client, _), (text, raw) in zip(
        *(grid.column(name) for name in ("item", "item kind", "client", "overhead tokens")), strict=True
    ):
        parts = [r for r in rows if (r["item"], r["item_kind"], r["client"]) == (item, kind, client)]
        known = [r["overhead_tokens"] for r in parts if r["overhead_tokens"] is not None]
        assert number(raw) == (sum(known) if known else None)
        assert text.startswith("~") == bool(known and not all(r["overhead_measured"] for r in parts))


def test_unpriced_models_and_rewrites_are_named(sample: Path) -> None:
    grids = Reader(page_of(sample)).grids
    assert [text for text, _ in grids["table-unpriced"].column("model")] == [
        r["model"] for r in ask(sample, "unpriced")
    ]
    rewrites = ask(sample, "cache_rewrites")
    assert sum(int(str(raw)) for _, raw in grids["table-causes"].column("rewrites")) == len(rewrites) > 0
    assert sorted(int(str(raw)) for _, raw in grids["table-rewrites"].column("rewritten tokens")) == sorted(
        row["rewritten_tokens"] for row in rewrites
    )


def test_points_of_a_long_session_are_requests_of_it(long_session: Path) -> None:
    reader = Reader(made(long_session))
    rows = {row["seq"]: row for row in ask(long_session, "flow")}
    grid = reader.grids["table-flow-1"]
    shown = [int(str(raw)) for _, raw in grid.column("seq")]
    assert len(rows) == 1000
    assert POINTS <= len(shown) <= POINTS + 4
    assert shown == sorted(set(shown))
    assert {0, 499, 500, 999} <= set(shown)  # the first, before and after the compaction, the last
    for seq, (_, raw) in zip(shown, grid.column("context tokens"), strict=True):
        assert number(raw) == rows[seq]["context_tokens"]
    assert f"{len(shown)} of 1,000 requests are drawn" in reader.text
    assert "1 compaction;" in reader.text


def test_sources_with_skipped_lines_are_listed(hostile: Path) -> None:
    grid = Reader(page_of(hostile)).grids["table-warnings"]
    assert [raw for _, raw in grid.column("skipped lines")] == ["1"]
    assert IMAGE in grid.column("path")[0][0]


def test_sessions_are_as_many_as_asked_for(sample: Path) -> None:
    for n in (0, 2):
        grids = Reader(made(sample, sessions=n)).grids
        assert len([name for name in grids if name.startswith("table-flow-")]) == n


def test_window_holds_in_every_section(sample: Path) -> None:
    window = Window(clients=("codex",), timezone="Europe/Berlin")
    reader = Reader(made(sample, window))
    assert {
        text for grid in reader.grids.values() if "client" in grid.headings for text, _ in grid.column("client")
    } == {"codex"}
    assert "of codex" in reader.text
    assert "Europe/Berlin" in reader.text


def test_many_days_become_weeks(tmp_path: Path) -> None:
    rows = []
    for n in range(300):
        text = response(n, "claude-sonnet-5").decode()
        day = datetime.fromordinal(datetime(2026, 1, 1).toordinal() + n).date()  # noqa: DTZ001
        rows.append(text.replace(text[text.index('"timestamp": "') + 14 :][:10], str(day)).encode())
    (project(tmp_path / "home") / "S.jsonl").write_bytes(b"".join(rows))
    ingest(tmp_path / "home", tmp_path / "lake")
    reader = Reader(made(tmp_path / "lake"))
    assert reader.grids["table-period"].headings[0] == "week"
    assert "too many days to show each" in reader.text
    assert sum(int(str(raw)) for _, raw in reader.grids["table-period"].column("requests")) == 300


# --- names are texts -----------------------------------------------------------------------------------------------


def test_names_are_nothing_but_text(hostile: Path) -> None:
    page = page_of(hostile)
    reader = Reader(page)
    assert {"img", "b"} & {tag for tag, _ in reader.elements} == set()
    assert len([tag for tag, _ in reader.elements if tag == "script"]) == 1
    assert not [a for _, a in reader.elements if any(name.startswith("on") for name in a)]
    items = [text for text, _ in reader.grids["table-overhead"].column("item")]
    assert {IMAGE, HOSTILE[1], HOSTILE[3], HOSTILE[4]} <= set(items)
    assert "49" not in {text for text, _ in reader.grids["table-overhead"].column("item")}
    assert "<!--" not in page
    assert "\u2028" not in page
    assert f"<title>AgentLens {IMAGE}" not in page


def test_drawing_holds_shapes_and_texts_only() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" onload="a()">'
        '<script>a()</script><a xlink:href="javascript:a()"><text>gone</text></a><image href="x"/>'
        '<g style="fill:url(x)"><path aria-label="&lt;b&gt; &amp; c" role="graphics-symbol" d="M0.123456,0"/></g></svg>'
    )
    assert charts.rebuilt(svg) == (
        '<svg width="9" aria-hidden="true" focusable="false">'
        '<g><path d="M0.12,0"><title>&lt;b&gt; &amp; c</title></path></g></svg>'
    )


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [*charts.COLOURS, charts.OTHERS])
@pytest.mark.parametrize("paper", ["#ffffff", "#14181d"])
def test_colours_are_seen_in_both_schemes(colour: str, paper: str) -> None:
    light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


# --- the command ---------------------------------------------------------------------------------------------------


def test_command_writes_the_page(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    done = agentlens("report", "--lake", sample, "--title", "Ours", "--sessions", "1", "--until", "2030-01-01", code=0)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>Ours</h1>" in page
    assert done.stdout == ""
    assert "report.html" in done.stderr
    to_stdout = agentlens("report", "--lake", sample, "--output", "-", "-q", "--estimator", "calibrated", code=0)
    assert to_stdout.stdout.startswith("<!DOCTYPE html>")
    assert to_stdout.stderr == ""


def test_window_or_lake_without_requests_is_a_page_that_says_so(
    agentlens: Agentlens, sample: Path, home: Path, lake: Path, tmp_path: Path
) -> None:
    agentlens("ingest", "--home", home, "--lake", lake, code=0)
    for given in (("--lake", lake), ("--lake", sample, "--since", "2035-01-01")):
        agentlens("report", *given, "-o", tmp_path / "x.html", code=0)
        reader = Reader((tmp_path / "x.html").read_text(encoding="utf-8"))
        assert "Nothing in this window" in reader.text
        assert [tag for tag, _ in reader.elements].count("main") == 1


def test_what_cannot_be_done_is_one_line(agentlens: Agentlens, sample: Path, tmp_path: Path) -> None:
    for args, code, words in (
        (("--lake", tmp_path / "none"), 1, "there is no lake"),
        (("--lake", sample, "-o", tmp_path), 1, "cannot write"),
        (("--lake", sample, "--sessions", "-1"), 2, "--sessions"),
        (("--lake", sample, "--since", "soon"), 2, "--since"),
    ):
        done = agentlens("report", *args, code=code)
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_missing_library_is_said_in_a_line(sample: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"which is not installed; install it with: pip install .*report"):
        made(sample)


def test_savings_are_estimates_with_their_limits(tmp_path: Path) -> None:
    lake = lake_of_all_cases(tmp_path)
    page = made(lake)
    grid = Reader(page).grids["table-savings"]
    rows = ask(lake, "savings")
    assert rows
    assert [number(raw) for _, raw in grid.column("bytes saved")] == [row["bytes_saved"] for row in rows[:TOP]]
    assert all(text.startswith("~") or text == "n/a" for text, _ in grid.column("bytes saved"))
    assert "a judgement" in Reader(page).text


def test_savings_stand_where_there_is_a_view_of_them(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "savings", lambda asked: asked.of_view("tools"))
    assert Reader(made(sample)).grids["table-savings"].rows
    monkeypatch.setattr(Asked, "savings", lambda _: None)
    assert "savings" not in made(sample)


# --- in a browser ------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A page in Chromium, and everything that it said or asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        why = "no Chromium is installed"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    playwright = pytest.importorskip("playwright.sync_api")
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=as_root)
        yield chromium
        chromium.close()


def opened(browser: Browser, path: Path, **options: Any) -> Watched:
    page = browser.new_context(offline=True, **options).new_page()
    watched = Watched(page)

    def hear(message: ConsoleMessage) -> None:
        watched.said.append(message.text)

    def shut(dialog: Dialog) -> None:
        watched.said.append(dialog.message)
        dialog.dismiss()

    page.on("console", hear)
    page.on("pageerror", lambda error: watched.said.append(str(error)))
    page.on("dialog", shut)
    page.on("request", lambda request: watched.asked.append(request.url))
    page.goto(path.as_uri())
    return watched


@pytest.fixture(scope="module")
def files(sample: Path, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two pages on disk."""
    folder = tmp_path_factory.mktemp("pages")
    for name, lake in (("sample", sample), ("hostile", hostile)):
        (folder / f"{name}.html").write_text(page_of(lake), encoding="utf-8")
    return {path.stem: path for path in folder.glob("*.html")}


@pytest.mark.parametrize("name", ["sample", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_quiet_alone_and_drawn(browser: Browser, files: dict[str, Path], name: str, scheme: str) -> None:
    watched = opened(browser, files[name], color_scheme=scheme)
    page = watched.page
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)"
    )
    for chart in page.locator(".chart").all():
        assert chart.locator("g.role-mark path").count() > 0
        box = chart.bounding_box()
        assert box
        assert box["width"] > 300
        assert box["height"] > 80
    ink = page.evaluate("getComputedStyle(document.querySelector('.chart text')).fill")
    assert ink == page.evaluate("getComputedStyle(document.body).color")
    page.screenshot(full_page=True)
    for row in page.locator("td").all()[:40]:
        row.dispatch_event("mouseover")
    assert watched.said == []
    assert watched.asked == [files[name].as_uri()]
    page.context.close()


def test_policy_holds(browser: Browser, files: dict[str, Path]) -> None:
    """Even a name that came in as HTML would do nothing."""
    watched = opened(browser, files["sample"])
    watched.page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', "
        '\'<img src="https://example.invalid/x" onerror="document.title = 1"><b onclick="document.title = 2">b</b>\')'
    )
    watched.page.locator("main > b").click()
    assert watched.page.title() == f"AgentLens {IMAGE}"
    assert any("Content Security Policy" in text for text in watched.said)
    watched.page.context.close()


def test_tables_are_sorted_by_keyboard(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["sample"]).page
    table = page.locator("table", has=page.locator("#table-model"))
    place = table.locator("th button").all_inner_texts().index("estimated usd")
    head = table.locator("th[scope=col]").nth(place)

    def raw() -> list[float | None]:
        found = table.locator(f"tbody td:nth-child({place + 1})").evaluate_all("cells => cells.map(c => c.dataset.raw)")
        return [None if value is None else float(value) for value in found]

    before = raw()
    known = [value for value in before if value is not None]
    assert None in before
    head.locator("button").focus()
    for key, sort, expected in (
        ("Enter", "descending", sorted(known, reverse=True)),
        ("Space", "ascending", sorted(known)),
    ):
        page.keyboard.press(key)
        assert head.get_attribute("aria-sort") == sort
        assert raw() == [*expected, *[None] * before.count(None)]
    assert table.locator("th[aria-sort=ascending]").count() == 1
    assert "ascending" in page.locator("#sorted").inner_text()
    assert table.locator("tfoot").inner_text().startswith("total")
    page.context.close()


def test_keyboard_begins_with_the_way_to_the_content(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["sample"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.context.close()


def test_narrow_screen_and_paper_hold_the_page(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["hostile"], viewport={"width": 360, "height": 740}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    page.context.close()
