"""The bundled price tables: every row has a source and a date, no two rows claim the same request, gaps stay gaps."""

from __future__ import annotations

import csv
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline import prices
from pipeline.prices import PriceBook, PriceRow

DATA = Path(__file__).parents[2] / "data"

HEADERS = {
    "model_prices.csv": (
        "vendor,model_id,effective_from,effective_to,min_context_tokens,service_tier,input_usd_per_mtok,"
        "output_usd_per_mtok,cache_read_usd_per_mtok,cache_write_5m_usd_per_mtok,cache_write_1h_usd_per_mtok,"
        "source_url,checked_on,note"
    ),
    "model_aliases.csv": "alias,model_id,service_tier,source,checked_on,note",
    "model_wrappings.csv": "pattern,source,checked_on,note",
    "service_tiers.csv": "vendor,recorded,service_tier,source,checked_on,note",
    "price_modifiers.csv": (
        "kind,vendor,model_id,recorded,effective_from,effective_to,value,source_url,checked_on,note"
    ),
    "peak_hours.csv": (
        "vendor,effective_from,effective_to,iso_weekdays,start_utc,end_utc,service_tier,source_url,checked_on,note"
    ),
}


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return prices.load(DATA, None)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="ascii", newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


def holds(row: Any, day: date) -> bool:
    return (row.effective_from or date.min) <= day < (row.effective_to or date.max)


def chosen(book: PriceBook, model_id: str, tier: str, day: date, context: int) -> PriceRow | None:
    """The row that prices a request: of its model, tier and day, the highest band that its prompt reaches."""
    reached = [
        p
        for p in book.prices
        if p.model_id == model_id and p.service_tier == tier and holds(p, day) and p.min_context_tokens <= context
    ]
    return max(reached, key=lambda p: p.min_context_tokens, default=None)


def rates(row: PriceRow) -> list[float | None]:
    return [getattr(row, name) for name in prices.RATE_COLUMNS]


# --- form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADERS)
def test_header_is_the_contract(name: str) -> None:
    assert (DATA / name).read_bytes().split(b"\n")[0].decode() == HEADERS[name]


@pytest.mark.parametrize("name", HEADERS)
def test_plain_ascii_with_lf(name: str) -> None:
    content = (DATA / name).read_bytes()
    assert content.isascii()
    assert b"\r" not in content
    assert content.endswith(b"\n")
    assert not content.endswith(b"\n\n")


@pytest.mark.parametrize("name", HEADERS)
def test_every_row_has_a_source_and_a_date(name: str) -> None:
    found = rows(name)
    assert found
    for row in found:
        assert (row.get("source_url") or row.get("source") or "").strip(), row
        assert date(2025, 1, 1) < date.fromisoformat(row["checked_on"]) < date(2030, 1, 1), row


def test_price_rows_are_whole_or_holes(book: PriceBook) -> None:
    for row in book.prices:
        listed = [rate for rate in rates(row) if rate is not None]
        if listed:
            assert row.input_usd_per_mtok is not None, row
            assert row.output_usd_per_mtok is not None, row
        else:
            assert row.note.endswith("not priced") or "not priced;" in row.note, row


def test_a_model_has_one_vendor(book: PriceBook) -> None:
    assert {(p.model_id, p.vendor) for p in book.prices} == set(book.vendors.items())


def test_every_model_with_prices_has_a_band_from_zero(book: PriceBook) -> None:
    """A small prompt is never unpriced because only the long band of its model is listed."""
    for model_id, tier in {(p.model_id, p.service_tier) for p in book.prices}:
        assert any(
            p.min_context_tokens == 0 for p in book.prices if (p.model_id, p.service_tier) == (model_id, tier)
        ), (model_id, tier)


# --- periods and bands ---------------------------------------------------------------------------------------------


def test_no_two_rows_price_the_same_request(book: PriceBook) -> None:
    groups: dict[tuple[str, str, int], list[PriceRow]] = {}
    for row in book.prices:
        groups.setdefault((row.model_id, row.service_tier, row.min_context_tokens), []).append(row)
    for key, group in groups.items():
        bounds = {day for row in group for day in (row.effective_from, row.effective_to) if day is not None}
        days = {bound + timedelta(days=n) for bound in bounds for n in range(-3, 4)} | {
            date(2020, 1, 1),
            date(2035, 1, 1),
        }
        for day in days:
            assert sum(holds(row, day) for row in group) <= 1, (key, day)


# Bands, periods and tiers that only third parties know, beside a row that would cover them if it were stretched.
HOLES = [
    ("gpt-5.5-pro", "standard", "2026-08-01", 272_001),
    ("gpt-5.5-pro", "batch", "2026-08-01", 272_001),
    ("gpt-5.5-pro", "flex", "2026-08-01", 272_001),
    ("gpt-5.5", "flex", "2026-08-01", 272_001),
    ("gpt-5.5", "batch", "2026-08-01", 272_001),
    ("gpt-5.5", "fast", "2026-08-01", 272_001),
    ("gpt-5.4", "flex", "2026-08-01", 272_001),
    ("gpt-5.4", "batch", "2026-08-01", 272_001),
    ("gpt-5.4-pro", "flex", "2026-08-01", 272_001),
    ("gpt-5.6-sol", "standard", "2026-08-21", 272_001),
    ("gpt-5.6-sol", "standard", "2026-11-21", 400_000),
    ("gpt-5.6-sol", "fast", "2026-07-20", 272_001),
    ("gpt-5.6-terra", "standard", "2026-07-29", 272_001),
    ("gpt-5.6-luna", "standard", "2026-07-09", 272_001),
    ("gpt-6-sol", "fast", "2026-10-01", 272_001),
    ("gpt-6-luna", "batch", "2026-10-01", 272_001),
    ("gpt-6.1-sol", "flex", "2026-10-01", 272_001),
    ("gpt-6.1-terra", "standard", "2026-11-01", 272_001),
    ("gpt-6.2-sol", "ultrafast", "2026-11-20", 272_001),
    ("gpt-6.2-sol", "ultrafast", "2027-03-01", 272_001),
    ("grok-4.20-0309-reasoning", "standard", "2026-04-29", 200_000),
    ("grok-4.20-0309-reasoning", "standard", "2026-04-30", 200_000),
    ("grok-4.20-0309-non-reasoning", "standard", "2026-05-01", 200_000),
    ("grok-4.20-multi-agent-0309", "standard", "2026-05-01", 1_000_000),
    ("grok-4.3", "standard", "2026-05-01", 200_000),
    ("claude-sonnet-4-5-20250929", "batch", "2026-04-29", 200_001),
    ("claude-opus-4-6", "batch", "2026-03-12", 200_001),
]

# The same requests, one token, one day or one tier off: (..., input rate).
PRICED = [
    ("gpt-5.5-pro", "standard", "2026-08-01", 272_000, 30),
    ("gpt-5.5", "standard", "2026-08-01", 272_001, 10),
    ("gpt-5.4", "fast", "2026-08-01", 272_001, 5),
    ("gpt-5.6-sol", "standard", "2026-08-20", 272_001, 10),
    ("gpt-5.6-sol", "standard", "2026-08-21", 272_000, 4),
    ("gpt-5.6-terra", "standard", "2026-07-29", 272_000, 2.5),
    ("gpt-5.6-terra", "standard", "2026-07-30", 272_001, 4),
    ("gpt-6-sol", "standard", "2026-10-01", 272_001, 4),
    ("gpt-6.2-sol", "fast", "2026-11-20", 272_001, 8),
    ("grok-4.20-0309-reasoning", "standard", "2026-04-29", 199_999, 2),
    ("grok-4.3", "standard", "2026-05-01", 199_999, 1.25),
    ("claude-sonnet-4-5-20250929", "standard", "2026-04-29", 200_001, 6),
    ("claude-sonnet-4-5-20250929", "standard", "2026-04-29", 200_000, 3),
    ("claude-opus-4-6", "standard", "2026-03-12", 200_001, 10),
    ("claude-opus-4-6", "standard", "2026-03-13", 200_001, 5),
    ("claude-haiku-5-5", "standard", "2026-11-01", 100_001, 0.5),
    ("claude-haiku-5-5", "standard", "2026-11-01", 100_000, 0.1),
    ("claude-sonnet-5", "standard", "2026-09-01", 900_000, 2),
    ("glm-4.7-flash", "standard", "2026-05-01", 1_000, 0),
    ("o3", "batch", "2025-06-10", 1_000, 1),
]

# A tier, a model or a day without any row.
ABSENT = [
    ("claude-opus-4-5-20251101", "fast", "2026-05-01"),
    ("claude-opus-4-6", "fast", "2026-06-29"),
    ("claude-opus-4-6", "priority", "2026-05-01"),
    ("gpt-5.6-sol", "standard", "2026-11-22"),
    ("gpt-5.6-terra", "batch", "2026-07-30"),
    ("gpt-6.1-terra", "batch", "2026-11-01"),
    ("gpt-6.1-sol", "ultrafast", "2026-11-01"),
    ("gpt-5.3-codex", "fast", "2026-05-01"),
    ("gpt-6-astra", "standard", "2026-11-01"),
    ("claude-fable-5-2", "standard", "2026-11-20"),
    ("o3", "standard", "2025-06-09"),
    ("o3", "batch", "2025-06-09"),
    ("deepseek-chat", "standard", "2025-09-29"),
    ("deepseek-v4-flash", "standard", "2026-05-23"),
    ("deepseek-v4-pro", "standard", "2026-08-17"),
    ("gemini-3.1-pro-preview", "flex", "2026-05-01"),
    ("mistral-small-latest", "standard", "2026-03-16"),
]


@pytest.mark.parametrize(("model_id", "tier", "day", "context"), HOLES)
def test_what_only_third_parties_know_is_a_hole(
    book: PriceBook, model_id: str, tier: str, day: str, context: int
) -> None:
    row = chosen(book, model_id, tier, date.fromisoformat(day), context)
    assert row is not None
    assert rates(row) == [None] * 5


@pytest.mark.parametrize(("model_id", "tier", "day", "context", "rate"), PRICED)
def test_the_hole_is_no_larger_than_the_claim(
    book: PriceBook, model_id: str, tier: str, day: str, context: int, rate: float
) -> None:
    row = chosen(book, model_id, tier, date.fromisoformat(day), context)
    assert row is not None
    assert row.input_usd_per_mtok == rate


@pytest.mark.parametrize(("model_id", "tier", "day"), ABSENT)
def test_no_row_is_no_price(book: PriceBook, model_id: str, tier: str, day: str) -> None:
    assert chosen(book, model_id, tier, date.fromisoformat(day), 1_000) is None


def test_no_tier_is_stretched_over_a_band_of_its_model(book: PriceBook) -> None:
    """Where the standard tier has a band of its own, every other tier of the model has that band too, or a hole."""
    flat_by_vendor = {("claude-opus-4-6", "fast")}  # the fast tier's band was dropped three weeks before the other
    for band in book.prices:
        if band.service_tier != "standard" or band.min_context_tokens == 0:
            continue
        for base in book.prices:
            if base.model_id != band.model_id or base.min_context_tokens != 0:
                continue
            if (base.model_id, base.service_tier) in flat_by_vendor:
                continue
            day = max(base.effective_from or date.min, band.effective_from or date.min)
            if holds(base, day) and holds(band, day):
                row = chosen(book, base.model_id, base.service_tier, day, band.min_context_tokens)
                assert row is not None
                assert row.min_context_tokens == band.min_context_tokens, (base, band)


# --- names ---------------------------------------------------------------------------------------------------------


def test_aliases_are_lower_case_unique_and_no_ids(book: PriceBook) -> None:
    names = [row["alias"] for row in rows("model_aliases.csv")]
    assert len(names) == len(set(names))
    assert names == [name.lower() for name in names]
    ids = set(book.vendors) | {alias.model_id for alias in book.aliases.values()}
    assert not ids.intersection(names), "an alias would hide a model of that very name"


def test_an_alias_leads_to_a_price_or_says_that_there_is_none(book: PriceBook) -> None:
    for alias in book.aliases.values():
        assert ("no confirmed price" in alias.note) == (alias.model_id not in book.vendors), alias


def test_fast_names_imply_the_fast_tier(book: PriceBook) -> None:
    """Gateways sell fast mode under a name of its own; the plain price would be a fraction of the bill."""
    for alias in book.aliases.values():
        is_fast_variant = alias.alias.endswith("-fast") and "grok" not in alias.alias
        assert alias.service_tier == ("fast" if is_fast_variant else None), alias


# Names as clients recorded them, and the price list entries that apply.
SAME_MODEL = {
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5-20250929",
    "claude-sonnet-4-5": "claude-sonnet-4-5-20250929",
    "claude-sonnet-4-5[1m]": "claude-sonnet-4-5-20250929",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5-20250929",
    "arn:aws:bedrock:us-east-1:000000000000:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0": (
        "claude-sonnet-4-5-20250929"
    ),
    "claude-sonnet-4-5@20250929": "claude-sonnet-4-5-20250929",
    "anthropic/claude-sonnet-4.5": "claude-sonnet-4-5-20250929",
    "anthropic/claude-4.5-opus-20251101": "claude-opus-4-5-20251101",
    "vertex_ai/claude-opus-4-5@20251101": "claude-opus-4-5-20251101",
    "eu.anthropic.claude-opus-4-5-20251101-v1:0": "claude-opus-4-5-20251101",
    "openrouter/anthropic/claude-opus-4.5": "claude-opus-4-5-20251101",
    "claude-opus-4-5-20251101": "claude-opus-4-5-20251101",
    # two wrappings
    "openrouter/anthropic/claude-opus-4.5[1m]": "claude-opus-4-5-20251101",
    "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5-20250929",
    "bedrock/arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0": (
        "claude-sonnet-4-5-20250929"
    ),
    "projects/acme/locations/us-east5/publishers/anthropic/models/claude-opus-4-5@20251101": (
        "claude-opus-4-5-20251101"
    ),
    "GPT-5.6": "gpt-5.6-sol",
    # one name, two models: the alias goes before the wrapping
    "mistral-medium-3": "mistral-medium-3-5",
    "vertex_ai/mistral-medium-3": "mistral-medium-2505",
    "openrouter/mistralai/mistral-medium-3": "mistral-medium-2505",
    # known, not priced
    "openai/gpt-6-astra": "gpt-6-astra",
    "gpt-6-astra": "gpt-6-astra",
}

NO_MODEL = [
    "acme-claude-opus-4-5-distill-mini",
    "claude-opus-4-10",
    "glm-9.9-air",
    "corp/internal-glm-x",
    "claude-opus-4-5-20251102",
    "claude-sonnet-4-5-thinking",
    "xvertex_ai/claude-opus-4-5",
    "claude-sonnet-4-5[1m]x",
    "claude-sonnet-4-5[2m]",
    "openai/gpt-5.5:free",
    "azure/my-deployment",
    "arn:aws:bedrock:us-east-1:000000000000:application-inference-profile/abc123",
    "bedrock/us-east-1/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "openrouter/openrouter/openrouter/anthropic/claude-opus-4.5",
    "gpt-5.3-codex-spark",
    "<synthetic>",
    "",
    " ",
]


@pytest.mark.parametrize(("name", "model_id"), SAME_MODEL.items())
def test_spellings_of_one_model(book: PriceBook, name: str, model_id: str) -> None:
    assert prices.model_ids([name], book) == {name: model_id}


@pytest.mark.parametrize("name", NO_MODEL)
def test_likeness_is_no_name(book: PriceBook, name: str) -> None:
    assert prices.model_ids([name], book) == {name: None}


def test_wrappings_are_anchored_and_plain(book: PriceBook) -> None:
    """Anchored on one side, so that a match is never inside a name; no syntax that RE2 lacks."""
    for wrapping in book.wrappings:
        assert wrapping.pattern.startswith("^") != wrapping.pattern.endswith("$"), wrapping
        assert not re.search(r"\(\?|\\[A-Za-z0-9]", wrapping.pattern), wrapping


# --- what stands beside the token rates ----------------------------------------------------------------------------


def test_modifiers(book: PriceBook) -> None:
    found = {
        (m.kind, m.vendor, m.model_id): m.value
        for m in book.modifiers
        if m.model_id in (None, "gpt-4.1", "claude-opus-4-6")
    }
    assert found == {
        ("web_search_usd", "anthropic", None): 0.01,
        ("web_search_usd", "openai", None): 0.01,
        ("web_search_usd", "openai", "gpt-4.1"): None,
        ("web_search_usd", "xai", None): 0.005,
        ("inference_geo_factor", "anthropic", "claude-opus-4-6"): 1.1,
    }
    for modifier in book.modifiers:
        assert modifier.model_id is None or book.vendors[modifier.model_id] == modifier.vendor, modifier
    factors = {m.model_id for m in book.modifiers if m.kind == "inference_geo_factor"}
    assert not factors & {"claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"}


def tiers_at(book: PriceBook, day: date, minute: int) -> list[str]:
    return [
        h.service_tier
        for h in book.peak_hours
        if holds(h, day) and str(day.isoweekday()) in h.iso_weekdays and h.start_minute <= minute < h.end_minute
    ]


def test_peak_hours_cover_a_week_without_overlap(book: PriceBook) -> None:
    monday = date(2026, 11, 16)
    for day in (monday + timedelta(days=n) for n in range(7)):
        for minute in range(0, 1440, 10):
            is_peak = day.isoweekday() < 6 and (60 <= minute < 240 or 360 <= minute < 600)
            assert tiers_at(book, day, minute) == ["peak" if is_peak else "off-peak"], (day, minute)


@pytest.mark.parametrize(
    ("day", "minute", "tiers"),
    [
        ("2025-02-28", 1000, []),
        ("2025-03-01", 989, []),
        ("2025-03-01", 990, ["off-peak"]),
        ("2025-03-02", 29, ["off-peak"]),
        ("2025-03-02", 30, []),
        ("2025-09-06", 1000, []),
        ("2026-08-16", 120, []),
        ("2026-08-17", 120, ["peak"]),
        ("2026-08-22", 120, []),  # a Saturday: whether weekends still counted is not known
        ("2026-08-22", 300, ["off-peak"]),
        ("2026-08-23", 599, []),
        ("2026-08-24", 599, ["peak"]),
        ("2026-08-24", 600, ["off-peak"]),
        ("2026-08-29", 120, ["off-peak"]),
    ],
)
def test_peak_hours_at_their_limits(book: PriceBook, day: str, minute: int, tiers: list[str]) -> None:
    assert tiers_at(book, date.fromisoformat(day), minute) == tiers


def test_a_tier_by_the_hour_has_prices(book: PriceBook) -> None:
    for hours in book.peak_hours:
        day = hours.effective_from
        assert day is not None
        assert any(
            p.vendor == hours.vendor and p.service_tier == hours.service_tier and holds(p, day) for p in book.prices
        ), hours
