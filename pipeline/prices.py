"""The price book: what a token costs, for which model, on which day, in which tier and band, and who says so.

The pricing itself runs in SQL, over the tables that `tables` makes; docs/decisions/0002-prices.md gives the rule.
A row whose rates are empty is a hole: the band or period is known to exist, its price is not, and nothing falls
back to another row.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

Origin = Literal["bundled", "user"]

_AMOUNT = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_COUNT = re.compile(r"[0-9]{1,15}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|(24):(00)")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One line of a price list: USD per million tokens of a model in a period, a band and a tier.

    A period is UTC days, from inclusive, to exclusive, None meaning no limit. A rate that is None is not listed;
    0 is listed as free.
    """

    vendor: str
    model_id: str
    effective_from: date | None
    effective_to: date | None
    min_context_tokens: int
    service_tier: str
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    cache_read_usd_per_mtok: float | None
    cache_write_5m_usd_per_mtok: float | None
    cache_write_1h_usd_per_mtok: float | None
    source_url: str
    checked_on: date | None
    note: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Alias:
    """Another spelling of a model id, and the service tier that the spelling itself implies, if any."""

    alias: str
    model_id: str
    service_tier: str | None
    source: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What a documented gateway puts around a name: an RE2 pattern, anchored, whose match may be taken off."""

    pattern: str
    source: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class Family:
    """Models that share a tokenizer, for calibration: an RE2 pattern of model ids. Never used to look up a price."""

    pattern: str
    family: str
    source: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class ServiceTier:
    """A name that a vendor's API (None: any vendor's) records for a tier of the price table."""

    vendor: str | None
    recorded: str
    service_tier: str
    source: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class Modifier:
    """What changes a price beside the token rates.

    `web_search_usd` is a fee for each search; `inference_geo_factor` multiplies all token rates where the request
    records `recorded`. A row of a model goes before one of its vendor; a value of None means not priced.
    """

    kind: str
    vendor: str
    model_id: str | None
    recorded: str | None
    effective_from: date | None
    effective_to: date | None
    value: float | None
    source_url: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class PeakHours:
    """Hours of the day (minutes since midnight UTC, end exclusive) in which a vendor bills a tier of its own."""

    vendor: str
    effective_from: date | None
    effective_to: date | None
    iso_weekdays: str
    start_minute: int
    end_minute: int
    service_tier: str
    source_url: str
    checked_on: date
    note: str


@dataclass(frozen=True, slots=True)
class PriceBook:
    """All that is known of prices: the bundled tables, and the user's rows before them.

    `vendors` names the vendor of each model with prices: the bundled one, also where the user's rows replace the rates.
    """

    prices: tuple[PriceRow, ...]
    aliases: Mapping[str, Alias]
    wrappings: tuple[Wrapping, ...]
    service_tiers: tuple[ServiceTier, ...]
    modifiers: tuple[Modifier, ...]
    peak_hours: tuple[PeakHours, ...]
    vendors: Mapping[str, str]
    families: tuple[Family, ...] = ()


def _columns(row_type: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(row_type))


PRICE_COLUMNS = tuple(name for name in _columns(PriceRow) if name != "origin")
RATE_COLUMNS = tuple(name for name in PRICE_COLUMNS if name.endswith("_usd_per_mtok"))
_REQUIRED = ("model_id", "input_usd_per_mtok", "output_usd_per_mtok")


def load(data_dir: Path, user_file: Path | None) -> PriceBook:
    """Read the bundled tables and, where given, the user's price file, whose models replace the bundled ones whole.

    Raises ConfigError with the facts path, line and column.
    """
    tiers = tuple(_service_tier(r) for r in _records(data_dir / "service_tiers.csv", _columns(ServiceTier)))
    rows = [_price(r, "bundled") for r in _records(data_dir / "model_prices.csv", PRICE_COLUMNS)]
    book = PriceBook(
        prices=tuple(_canonical_tier(row, tiers, row.vendor) for row in rows),
        aliases={a.alias: a for a in map(_alias, _records(data_dir / "model_aliases.csv", _columns(Alias)))},
        wrappings=tuple(_wrapping(r) for r in _records(data_dir / "model_wrappings.csv", _columns(Wrapping))),
        service_tiers=tiers,
        modifiers=tuple(_modifier(r) for r in _records(data_dir / "price_modifiers.csv", _columns(Modifier))),
        peak_hours=tuple(_peak_hours(r) for r in _records(data_dir / "peak_hours.csv", _HOURS_COLUMNS)),
        vendors={row.model_id: row.vendor for row in rows},
        families=tuple(_family(r) for r in _records(data_dir / "model_families.csv", _columns(Family))),
    )
    return book if user_file is None else _with_user_rows(book, user_file)


def _with_user_rows(book: PriceBook, path: Path) -> PriceBook:
    records = list(_records(path, PRICE_COLUMNS, required=_REQUIRED))
    rows = [_price(record, "user") for record in records]
    ids = model_ids({row.model_id for row in rows}, book)
    rows = [replace(row, model_id=ids[row.model_id] or row.model_id) for row in rows]
    vendors = {row.model_id: row.vendor for row in rows} | dict(book.vendors)
    rows = [_canonical_tier(row, book.service_tiers, vendors[row.model_id]) for row in rows]
    _check_overlaps(list(zip(records, rows, strict=True)))
    replaced = {row.model_id for row in rows}
    return replace(book, prices=(*rows, *(p for p in book.prices if p.model_id not in replaced)), vendors=vendors)


def _canonical_tier(row: PriceRow, tiers: Iterable[ServiceTier], vendor: str) -> PriceRow:
    """One word for one tier, whichever name the list had for it at the time."""
    for tier in tiers:
        if tier.recorded == row.service_tier and tier.vendor in (None, vendor):
            return replace(row, service_tier=tier.service_tier)
    return row


def _check_overlaps(read: Sequence[tuple[_Record, PriceRow]]) -> None:
    groups: defaultdict[tuple[str, str, int], list[tuple[_Record, PriceRow]]] = defaultdict(list)
    for record, row in read:
        groups[row.model_id, row.service_tier, row.min_context_tokens].append((record, row))
    for group in groups.values():
        group.sort(key=lambda pair: (pair[1].effective_from or date.min, pair[0].line))
        for (first, earlier), (second, later) in pairwise(group):
            if (earlier.effective_to or date.max) > (later.effective_from or date.min):
                raise second.wrong(
                    "effective_from",
                    f"the period overlaps line {first.line} for {later.model_id}, tier {later.service_tier}, "
                    f"from {later.min_context_tokens} tokens",
                    "end the earlier row (effective_to, exclusive) where the later one begins",
                )


# --- names ---------------------------------------------------------------------------------------------------------


def model_ids(names: Iterable[str], book: PriceBook) -> dict[str, str | None]:
    """The model id that each recorded name stands for, or None: by exact look-up, never by likeness.

    A name is looked up in lower case as it stands, then with one wrapping taken off, then with two. Where the
    names that are left at one of these steps stand for different models, the answer is None.
    """
    known = _known_names(book)
    patterns = [re.compile(w.pattern) for w in book.wrappings]
    return {name: _resolve(name.lower(), known, patterns) for name in names}


def _resolve(name: str, known: Mapping[str, str], patterns: Sequence[re.Pattern[str]]) -> str | None:
    step = {name}
    for _ in range(3):
        found = {known[candidate] for candidate in step if candidate in known}
        if found:
            return found.pop() if len(found) == 1 else None
        step = {pattern.sub("", candidate) for candidate in step for pattern in patterns} - step
    return None


def _known_names(book: PriceBook) -> dict[str, str]:
    ids = {p.model_id for p in book.prices} | {a.model_id for a in book.aliases.values()}
    return {name: name for name in ids} | {a.alias: a.model_id for a in book.aliases.values()}


# --- tables for the warehouse --------------------------------------------------------------------------------------


def tables(book: PriceBook) -> dict[str, pa.Table]:
    """The book as Arrow tables. What a list says of a vendor is spelled out here for each of its models.

    `model_aliases` holds every id under its own name too, so that one look-up is enough.
    """
    import pyarrow as pa

    text, day, real, count = pa.string(), pa.date32(), pa.float64(), pa.int64()
    kinds = {
        "effective_from": day,
        "effective_to": day,
        "checked_on": day,
        "min_context_tokens": count,
        "start_minute": count,
        "end_minute": count,
        "value": real,
    } | dict.fromkeys(RATE_COLUMNS, real)

    def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        schema = pa.schema([(name, kinds.get(name, text)) for name in columns])
        cells = [{name: None if row[name] == "" else row[name] for name in columns} for row in rows]
        return pa.Table.from_pylist(cells, schema=schema)

    return {
        "model_prices": table(_columns(PriceRow), map(_cells, book.prices)),
        "model_aliases": table(("alias", "model_id", "service_tier"), _alias_rows(book)),
        "model_wrappings": table(("pattern",), map(_cells, book.wrappings)),
        "model_families": table(("pattern", "family"), map(_cells, book.families)),
        "service_tiers": table(("model_id", "recorded", "service_tier"), _tier_rows(book)),
        "price_modifiers": table(
            ("model_id", "kind", "recorded", "effective_from", "effective_to", "value"), _modifier_rows(book)
        ),
        "peak_hours": table(
            (
                "model_id",
                "effective_from",
                "effective_to",
                "iso_weekdays",
                "start_minute",
                "end_minute",
                "service_tier",
            ),
            _hour_rows(book),
        ),
    }


def _cells(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _columns(type(row))}


def _alias_rows(book: PriceBook) -> Iterator[dict[str, Any]]:
    for name, model_id in sorted(_known_names(book).items()):
        alias = book.aliases.get(name)
        yield {"alias": name, "model_id": model_id, "service_tier": alias.service_tier if alias else None}


def _tier_rows(book: PriceBook) -> Iterator[dict[str, Any]]:
    for model_id, vendor in sorted(book.vendors.items()):
        for tier in book.service_tiers:
            if tier.vendor in (None, vendor):
                yield _cells(tier) | {"model_id": model_id}


def _modifier_rows(book: PriceBook) -> Iterator[dict[str, Any]]:
    """The modifiers of each model; those of its vendor only where it has none of that kind for itself."""
    for model_id, vendor in sorted(book.vendors.items()):
        own = [m for m in book.modifiers if m.model_id == model_id]
        kinds = {m.kind for m in own}
        for modifier in own + [
            m for m in book.modifiers if m.model_id is None and m.vendor == vendor and m.kind not in kinds
        ]:
            if modifier.value is not None:
                yield _cells(modifier) | {"model_id": model_id}


def _hour_rows(book: PriceBook) -> Iterator[dict[str, Any]]:
    """Hours of the models that have rates for them: a user's flat rate for such a model stays flat."""
    tiers = {(p.model_id, p.service_tier) for p in book.prices}
    for model_id, vendor in sorted(book.vendors.items()):
        for hours in book.peak_hours:
            if hours.vendor == vendor and (model_id, hours.service_tier) in tiers:
                yield _cells(hours) | {"model_id": model_id}


def fingerprint(book: PriceBook) -> str:
    """A hash of everything in the book: equal books price equally."""
    parts = (
        book.prices,
        tuple(book.aliases.values()),
        book.wrappings,
        book.service_tiers,
        book.modifiers,
        book.peak_hours,
        tuple(sorted(book.vendors.items())),
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Record:
    """One line of a CSV file, whose cells are read by column. An absent column reads as an empty cell."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def wrong(self, column: str, problem: str, hint: str) -> ConfigError:
        message = f"{self.path}, line {self.line}, column {column}: {problem}"
        return ConfigError(message, hint=hint, path=self.path, line=self.line, column=column)

    def text(self, column: str) -> str:
        return self.cells.get(column, "").strip()

    def word(self, column: str) -> str:
        """A name that must be there. Names are compared in lower case."""
        if not (value := self.text(column).lower()):
            raise self.wrong(column, "the cell is empty", "every row needs one")
        return value

    def amount(self, column: str) -> float | None:
        value = self.text(column)
        if not value:
            return None
        if not _AMOUNT.fullmatch(value) or (amount := float(value)) == float("inf"):
            hint = "write USD per million tokens as 2.50, or leave the cell empty if no rate is listed"
            raise self.wrong(column, f"{value!r} is not an amount of 0 or more", hint)
        return amount

    def count(self, column: str) -> int:
        value = self.text(column)
        if value and not _COUNT.fullmatch(value):
            raise self.wrong(column, f"{value!r} is not a number of tokens", "write it in digits only, such as 200001")
        return int(value or 0)

    def day(self, column: str) -> date | None:
        if not (value := self.text(column)):
            return None
        try:
            if _DAY.fullmatch(value):
                return date.fromisoformat(value)
        except ValueError:
            pass  # such as 2026-02-30: the same complaint as for any other text
        raise self.wrong(column, f"{value!r} is not a date", "write it as 2026-11-30")

    def checked(self) -> date:
        if (day := self.day("checked_on")) is None:
            raise self.wrong("checked_on", "the cell is empty", "say when the source was read")
        return day

    def period(self) -> tuple[date | None, date | None]:
        begin, end = self.day("effective_from"), self.day("effective_to")
        if begin is not None and end is not None and begin >= end:
            raise self.wrong(
                "effective_to",
                f"{end} is not after effective_from, {begin}",
                "effective_to is the first day without it",
            )
        return begin, end

    def minute(self, column: str) -> int:
        if not (match := _CLOCK.fullmatch(self.text(column))):
            raise self.wrong(column, f"{self.text(column)!r} is not a time of day", "write it as 16:30, UTC")
        hours, minutes = (part for part in match.groups() if part is not None)
        return int(hours) * 60 + int(minutes)


def _records(path: Path, columns: Sequence[str], required: Sequence[str] | None = None) -> Iterator[_Record]:
    """The lines of a CSV file. Columns may stand in any order; `required` (default: all) must be there.

    `origin` is passed over: `agentlens prices --format csv` writes it, and its output is a good file to begin with.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header, columns, columns if required is None else required)
            for cells in reader:
                if not any(cells):
                    continue
                if len(cells) != len(header):
                    record = _Record(path, reader.line_num, {})
                    problem = f"the line has {len(cells)} cells, the header {len(header)}"
                    raise record.wrong(
                        header[min(len(cells), len(header)) - 1], problem, "quote cells that hold a comma"
                    )
                yield _Record(path, reader.line_num, dict(zip(header, cells, strict=True)))
    except OSError as e:
        raise ConfigError(f"cannot read the price file {path}: {e.strerror}", hint="check the path", path=path) from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path} is not UTF-8 text", hint="save it as CSV UTF-8", path=path) from e
    except csv.Error as e:
        line = reader.line_num
        raise ConfigError(f"{path}, line {line}: {e}", hint="save it as plain CSV", path=path, line=line) from e


def _check_header(path: Path, header: Sequence[str], columns: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    unknown = [name for name in header if name not in (*columns, "origin")]
    twice = [name for name in header if header.count(name) > 1]
    for names, problem in ((missing, "is missing"), (unknown, "is not known"), (twice, "stands twice")):
        if names:
            hint = f"separate cells with commas and use these names: {', '.join(columns)}"
            message = f"{path}, line 1: column {names[0]!r} {problem}"
            raise ConfigError(message, hint=hint, path=path, line=1, column=names[0])


def _price(record: _Record, origin: Origin) -> PriceRow:
    begin, end = record.period()
    return PriceRow(
        vendor=record.text("vendor").lower(),
        model_id=record.word("model_id"),
        effective_from=begin,
        effective_to=end,
        min_context_tokens=record.count("min_context_tokens"),
        service_tier=record.text("service_tier").lower() or "standard",
        input_usd_per_mtok=record.amount("input_usd_per_mtok"),
        output_usd_per_mtok=record.amount("output_usd_per_mtok"),
        cache_read_usd_per_mtok=record.amount("cache_read_usd_per_mtok"),
        cache_write_5m_usd_per_mtok=record.amount("cache_write_5m_usd_per_mtok"),
        cache_write_1h_usd_per_mtok=record.amount("cache_write_1h_usd_per_mtok"),
        source_url=record.text("source_url"),
        checked_on=record.day("checked_on"),
        note=record.text("note"),
        origin=origin,
    )


def _alias(record: _Record) -> Alias:
    return Alias(
        alias=record.word("alias"),
        model_id=record.word("model_id"),
        service_tier=record.text("service_tier") or None,
        source=record.text("source"),
        checked_on=record.checked(),
        note=record.text("note"),
    )


def _wrapping(record: _Record) -> Wrapping:
    return Wrapping(record.text("pattern"), record.text("source"), record.checked(), record.text("note"))


def _family(record: _Record) -> Family:
    return Family(
        pattern=record.text("pattern"),
        family=record.text("family"),
        source=record.text("source"),
        checked_on=record.checked(),
        note=record.text("note"),
    )


def _service_tier(record: _Record) -> ServiceTier:
    return ServiceTier(
        vendor=record.text("vendor") or None,
        recorded=record.word("recorded"),
        service_tier=record.word("service_tier"),
        source=record.text("source"),
        checked_on=record.checked(),
        note=record.text("note"),
    )


def _modifier(record: _Record) -> Modifier:
    begin, end = record.period()
    return Modifier(
        kind=record.word("kind"),
        vendor=record.word("vendor"),
        model_id=record.text("model_id") or None,
        recorded=record.text("recorded") or None,
        effective_from=begin,
        effective_to=end,
        value=record.amount("value"),
        source_url=record.text("source_url"),
        checked_on=record.checked(),
        note=record.text("note"),
    )


_HOURS_COLUMNS = tuple(
    {"start_minute": "start_utc", "end_minute": "end_utc"}.get(name, name) for name in _columns(PeakHours)
)


def _peak_hours(record: _Record) -> PeakHours:
    begin, end = record.period()
    return PeakHours(
        vendor=record.word("vendor"),
        effective_from=begin,
        effective_to=end,
        iso_weekdays=record.word("iso_weekdays"),
        start_minute=record.minute("start_utc"),
        end_minute=record.minute("end_utc"),
        service_tier=record.word("service_tier"),
        source_url=record.text("source_url"),
        checked_on=record.checked(),
        note=record.text("note"),
    )
