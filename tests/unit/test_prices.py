"""Loading the price book, a user's price file, names, and the tables for the warehouse."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline import prices
from pipeline.errors import ConfigError
from pipeline.prices import PriceBook

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
HEADER = ",".join(prices.PRICE_COLUMNS)
BOOK = prices.load(DATA, None)


def user_file(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "my prices.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path


def line(
    model_id: str, begin: str = "", end: str = "", band: str = "0", tier: str = "standard", rate: str = "1"
) -> str:
    return f"test,{model_id},{begin},{end},{band},{tier},{rate},2,0.1,1.25,2,contract,2026-01-01,"


def of_model(book: PriceBook, model_id: str) -> list[prices.PriceRow]:
    return [p for p in book.prices if p.model_id == model_id]


# --- the user's file -----------------------------------------------------------------------------------------------


def test_a_users_rows_replace_a_model_whole(tmp_path: Path) -> None:
    before = {p.service_tier for p in of_model(BOOK, "claude-opus-4-6")}
    book = prices.load(DATA, user_file(tmp_path, line("claude-opus-4-6", rate="0.5")))
    assert before == {"standard", "batch", "fast"}
    (row,) = of_model(book, "claude-opus-4-6")
    assert (row.vendor, row.service_tier, row.input_usd_per_mtok, row.output_usd_per_mtok) == (
        "test",
        "standard",
        0.5,
        2,
    )
    assert (row.origin, row.source_url, row.checked_on) == ("user", "contract", date(2026, 1, 1))
    assert book.prices[0] is row
    assert of_model(book, "claude-opus-4-7") == of_model(BOOK, "claude-opus-4-7")
    assert {p.origin for p in book.prices} == {"user", "bundled"}


@pytest.mark.parametrize("name", ["claude-opus-4-5", "Claude-Opus-4.5", "openrouter/anthropic/claude-opus-4.5"])
def test_a_user_may_write_any_spelling(tmp_path: Path, name: str) -> None:
    book = prices.load(DATA, user_file(tmp_path, line(name)))
    assert [p.origin for p in of_model(book, "claude-opus-4-5-20251101")] == ["user"]


def test_a_user_may_add_a_model(tmp_path: Path) -> None:
    book = prices.load(DATA, user_file(tmp_path, line("Corp/Internal-GLM-X")))
    assert prices.model_ids(["corp/internal-glm-x", "openrouter/corp/internal-GLM-x"], book) == {
        "corp/internal-glm-x": "corp/internal-glm-x",
        "openrouter/corp/internal-GLM-x": "corp/internal-glm-x",
    }
    assert prices.model_ids(["corp/internal-glm-x"], BOOK) == {"corp/internal-glm-x": None}


def test_only_model_and_two_rates_are_needed(tmp_path: Path) -> None:
    path = user_file(tmp_path, "3.50,mine,0", "", header="output_usd_per_mtok,model_id,input_usd_per_mtok")
    (row,) = of_model(prices.load(DATA, path), "mine")
    assert (row.input_usd_per_mtok, row.output_usd_per_mtok, row.cache_read_usd_per_mtok) == (0.0, 3.5, None)
    assert (row.service_tier, row.min_context_tokens, row.effective_from, row.checked_on) == ("standard", 0, None, None)


def test_periods_bands_and_tiers_beside_each_other(tmp_path: Path) -> None:
    path = user_file(
        tmp_path,
        line("mine", "2026-02-01"),
        line("mine", "", "2026-02-01"),
        line("mine", band="200001"),
        line("mine", tier="batch"),
    )
    assert len(of_model(prices.load(DATA, path), "mine")) == 4


def test_a_spreadsheets_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(f"\ufeff{HEADER}\r\n{line('mine')}\r\n".encode())
    assert of_model(prices.load(DATA, path), "mine")


def test_exported_prices_are_a_user_file(tmp_path: Path) -> None:
    path = user_file(tmp_path, line("mine") + ",bundled", header=HEADER + ",origin")
    assert [p.origin for p in of_model(prices.load(DATA, path), "mine")] == ["user"]


def test_one_tier_with_two_names(tmp_path: Path) -> None:
    """OpenAI's priority tier is its fast tier; another vendor's priority tier is not."""
    path = user_file(
        tmp_path, line("gpt-5.5", tier="Priority"), line("claude-opus-5", tier="priority"), line("mine", tier="default")
    )
    book = prices.load(DATA, path)
    tiers = {p.model_id: p.service_tier for p in book.prices if p.origin == "user"}
    assert tiers == {"gpt-5.5": "fast", "claude-opus-5": "priority", "mine": "standard"}
    with pytest.raises(ConfigError, match="overlaps line 2"):
        prices.load(DATA, user_file(tmp_path, line("gpt-5.5", tier="fast"), line("gpt-5.5", tier="priority")))


GOOD = line("mine").split(",")


def with_cell(column: str, value: str) -> str:
    cells = list(GOOD)
    cells[prices.PRICE_COLUMNS.index(column)] = value
    return ",".join(cells)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("model_id", ""),
        ("input_usd_per_mtok", "-1"),
        ("input_usd_per_mtok", "nan"),
        ("input_usd_per_mtok", "inf"),
        ("input_usd_per_mtok", "1e999"),
        ("input_usd_per_mtok", "$3"),
        ("input_usd_per_mtok", '"2,50"'),
        ("cache_read_usd_per_mtok", "1_000"),
        ("cache_write_1h_usd_per_mtok", "free"),
        ("min_context_tokens", "200k"),
        ("min_context_tokens", "-1"),
        ("min_context_tokens", "1.5"),
        ("effective_from", "2026-02-30"),
        ("effective_from", "01.02.2026"),
        ("effective_from", "20260201"),
        ("effective_to", "2026-13-01"),
        ("checked_on", "today"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, column: str, value: str) -> None:
    path = user_file(tmp_path, line("other"), with_cell(column, value))
    with pytest.raises(ConfigError) as caught:
        prices.load(DATA, path)
    assert (caught.value.path, caught.value.line, caught.value.column) == (path, 3, column)
    assert caught.value.hint
    assert f"{path}, line 3, column {column}: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([line("mine", "2026-03-01", "2026-03-01")], "2026-03-01 is not after effective_from"),
        ([line("mine"), line("mine")], "overlaps line 2"),
        ([line("mine", end="2026-03-02"), line("mine", "2026-03-01")], "overlaps line 2"),
        ([line("mine", "2026-03-01"), line("mine", end="2026-03-02")], "overlaps line 3"),
        ([line("claude-opus-4-5"), line("claude-opus-4.5")], "overlaps line 2"),
    ],
)
def test_impossible_periods(tmp_path: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        prices.load(DATA, user_file(tmp_path, *lines))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("header", "column", "problem"),
    [
        ("", "model_id", "is missing"),
        ("model_id,input_usd_per_mtok", "output_usd_per_mtok", "is missing"),
        (HEADER.replace(",", ";"), "model_id", "is missing"),
        (HEADER.replace("cache_read_usd_per_mtok", "cache_read_usd"), "cache_read_usd", "is not known"),
        (HEADER + ",note", "note", "stands twice"),
    ],
)
def test_a_bad_header_is_named(tmp_path: Path, header: str, column: str, problem: str) -> None:
    path = user_file(tmp_path, header=header)
    with pytest.raises(ConfigError, match=problem) as caught:
        prices.load(DATA, path)
    assert (caught.value.path, caught.value.line, caught.value.column) == (path, 1, column)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the price file"):
        prices.load(DATA, tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xe9")
    with pytest.raises(ConfigError, match="UTF-8"):
        prices.load(DATA, tmp_path / "latin.csv")
    with pytest.raises(ConfigError, match="3 cells, the header 14") as caught:
        prices.load(DATA, user_file(tmp_path, "a,b,c"))
    assert caught.value.line == 2
    with pytest.raises(ConfigError, match=r"line 2: ") as caught:
        prices.load(DATA, user_file(tmp_path, 'a,"b'))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("name", "old", "new", "column"),
    [
        ("peak_hours.csv", "00:30", "24:30", "end_utc"),
        ("peak_hours.csv", "00:30", "", "end_utc"),
        ("model_aliases.csv", "2026-11-30", "", "checked_on"),
    ],
)
def test_a_damaged_bundled_table_is_named(tmp_path: Path, name: str, old: str, new: str, column: str) -> None:
    data = shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns("sample"))
    text = (data / name).read_text(encoding="ascii")
    (data / name).write_text(re.sub(rf",{old},", f",{new},", text, count=1), encoding="ascii")
    with pytest.raises(ConfigError) as caught:
        prices.load(data, None)
    assert (caught.value.path, caught.value.column) == (data / name, column)


# --- names ---------------------------------------------------------------------------------------------------------

# As a view resolves them: the fewest wrappings win, two answers are none.
NAMES_SQL = """
with zero as (select model, lower(model) as name from names),
one as (select model, regexp_replace(name, pattern, '') as name from zero cross join model_wrappings),
two as (select model, regexp_replace(name, pattern, '') as name from one cross join model_wrappings),
candidates as (
    select model, name, 0 as taken_off from zero
    union all select model, name, 1 from one
    union all select model, name, 2 from two
),
found as (
    select model, taken_off, min(model_id) as low, max(model_id) as high
    from candidates inner join model_aliases on alias = name
    group by model, taken_off
)
select model, case when low = high then low end as model_id
from found
qualify row_number() over (partition by model order by taken_off) = 1
"""


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name, table in prices.tables(BOOK).items():
        con.register("arrow", table)
        con.execute(f"create table {name} as select * from arrow")
        con.unregister("arrow")
    return con


_KNOWN = sorted(BOOK.aliases) + sorted(BOOK.vendors)
_PIECES = [
    "vertex_ai/", "gemini/", "openrouter/", "bedrock/", "bedrock/converse/", "bedrock/invoke/", "models/",
    "litellm_proxy/", "vercel_ai_gateway/", "github_copilot/", "publishers/anthropic/models/", "anthropic/", "openai/",
    "projects/p/locations/l/publishers/google/models/", "[1m]", ":free", "-v1:0", "@default", "-", "x", "us.",
    "arn:aws:bedrock:us-east-1:000000000000:inference-profile/", "arn:aws-cn:bedrock:::foundation-model/",
]  # fmt: skip
_NAME = st.one_of(
    st.text(st.characters(max_codepoint=0x24F, exclude_characters="\0"), max_size=30),
    st.lists(st.sampled_from(_PIECES + _KNOWN), min_size=1, max_size=4).map("".join),
    st.sampled_from(_KNOWN).map(str.upper),
)


@given(st.lists(_NAME, min_size=1, max_size=20, unique=True))
@example(["openrouter/vertex_ai/claude-opus-4-5@20251101", "models/models/models/gemini-2.5-pro", "[1m]", "[1M]"])
@example(["bedrock/converse/arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-8"])
def test_sql_and_python_resolve_alike(con: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    con.execute("create or replace temp table names (model varchar)")
    con.executemany("insert into names values (?)", [[name] for name in names])
    in_sql = dict.fromkeys(names) | dict(con.execute(NAMES_SQL).fetchall())
    assert prices.model_ids(names, BOOK) == in_sql


@given(_NAME)
def test_a_name_resolves_only_by_what_is_left_of_it(name: str) -> None:
    """What is left of a resolved name, end by end, is a name of the tables: nothing inside it was changed."""
    found = prices.model_ids([name], BOOK)[name]
    ends = [known for known in _KNOWN if known in name.lower()]
    if found is not None:
        assert any((BOOK.aliases[known].model_id if known in BOOK.aliases else known) == found for known in ends)


def test_two_models_for_one_name_is_no_model(tmp_path: Path) -> None:
    data = shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns("sample"))
    with (data / "model_aliases.csv").open("a", encoding="ascii") as stream:
        stream.write("vertex_ai/odd,gpt-5,,test,2026-11-30,\nodd[1m],gpt-5.1,,test,2026-11-30,\n")
    book = prices.load(data, None)
    assert prices.model_ids(["vertex_ai/odd[1m]", "odd[1m]"], book) == {"vertex_ai/odd[1m]": None, "odd[1m]": "gpt-5.1"}


# --- tables --------------------------------------------------------------------------------------------------------


def test_tables_are_keyed_by_model(con: duckdb.DuckDBPyConnection) -> None:
    def column(sql: str) -> list[object]:
        return [value for (value,) in con.execute(sql).fetchall()]

    assert column("select count(*) from model_aliases group by alias having count(*) > 1") == []
    assert column("select model_id from model_aliases where alias = 'gpt-5'") == ["gpt-5"]
    assert column("select service_tier from model_aliases where alias = 'anthropic/claude-opus-4.8-fast'") == ["fast"]
    fee = "select value from price_modifiers where kind = 'web_search_usd' and model_id = "
    assert column(fee + "'claude-opus-5'") == [0.01]
    assert column(fee + "'gpt-5.5'") == [0.01]
    assert column(fee + "'gpt-4.1'") == []
    assert column(fee + "'gemini-2.5-pro'") == []
    factor = "select value from price_modifiers where kind = 'inference_geo_factor' and recorded = 'us' and model_id = "
    assert column(factor + "'claude-opus-4-6'") == [1.1]
    assert column(factor + "'claude-opus-4-5-20251101'") == []
    tier = "select service_tier from service_tiers where recorded = '{}' and model_id = '{}'"
    assert column(tier.format("priority", "gpt-5.5")) == ["fast"]
    assert column(tier.format("default", "gpt-5.5")) == ["standard"]
    assert column(tier.format("priority", "claude-opus-5")) == []
    assert column("select distinct model_id from peak_hours where service_tier = 'peak' order by 1") == [
        "deepseek-flash",
        "deepseek-v4-flash",
        "deepseek-v4-flash-vision-exp",
        "deepseek-v4-pro",
    ]


def test_a_users_model_keeps_its_vendors_fees_and_its_own_flat_rate(tmp_path: Path) -> None:
    path = user_file(tmp_path, line("claude-opus-4-6"), line("deepseek-v4-pro"), line("mine"))
    found = {name: table.to_pylist() for name, table in prices.tables(prices.load(DATA, path)).items()}
    kinds = {row["kind"] for row in found["price_modifiers"] if row["model_id"] == "claude-opus-4-6"}
    assert kinds == {"web_search_usd", "inference_geo_factor"}
    assert not [row for row in found["peak_hours"] if row["model_id"] == "deepseek-v4-pro"]
    assert not [row for row in found["price_modifiers"] if row["model_id"] == "mine"]
    assert [row["recorded"] for row in found["service_tiers"] if row["model_id"] == "mine"] == ["default"]


def test_empty_tables_are_typed() -> None:
    empty = prices.tables(PriceBook((), {}, (), (), (), (), {}))
    full = prices.tables(BOOK)
    assert {name: table.schema for name, table in empty.items()} == {name: table.schema for name, table in full.items()}
    assert all(table.num_rows == 0 for table in empty.values())
    types = {str(field.type) for table in full.values() for field in table.schema}
    assert types == {"string", "date32[day]", "double", "int64"}


def test_fingerprint_changes_with_any_price(tmp_path: Path) -> None:
    same = prices.fingerprint(prices.load(DATA, None))
    one = prices.fingerprint(prices.load(DATA, user_file(tmp_path, line("mine"))))
    other = prices.fingerprint(prices.load(DATA, user_file(tmp_path, line("mine", rate="1.5"))))
    assert same == prices.fingerprint(BOOK)
    assert len({same, one, other}) == 3


def test_loading_needs_no_heavy_library() -> None:
    code = (
        "import sys; from pathlib import Path; from pipeline import prices; "
        f"prices.fingerprint(prices.load(Path({str(DATA)!r}), None)); "
        "print(sorted({'pyarrow', 'polars', 'duckdb', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
