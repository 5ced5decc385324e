"""The command `agentlens schema`."""

from __future__ import annotations

import click

from pipeline import contracts, schema
from pipeline.cli.options import format_option, output_options
from pipeline.errors import ConfigError


@click.command("schema")
@click.argument("names", nargs=-1, metavar="[TABLE|VIEW]...")
@format_option
@output_options
def command(names: tuple[str, ...], format_name: str | None, output: str | None, newline: str) -> None:
    """Show the tables of the lake (lake.NAME) and the columns of the views (NAME): type, unit, meaning of n/a.

    Without a name: everything.
    """
    import pyarrow as pa

    from pipeline.cli.render import write
    from pipeline.export import Rows, columns_of

    tables = [f"lake.{name}" for name in schema.TABLES]
    chosen = names or (*tables, *contracts.public_names())
    rows = [row for name in chosen for row in (_table(name) if name in tables else _view(name))]
    fields = ("relation", "column", "type", "unit", "measured", "null", "meaning")
    form = pa.schema([(field, pa.string()) for field in fields])
    batch = pa.RecordBatch.from_pylist([dict(zip(fields, row, strict=True)) for row in rows], schema=form)
    write(Rows("schema", columns_of(form), [batch]), format_name, output, newline=newline)


def _table(name: str) -> list[tuple[str | None, ...]]:
    table = name.removeprefix("lake.")
    columns = (*schema.PARTITION_KEYS, *schema.columns(table))
    return [(name, c.name, c.type, c.unit, c.measured if c.measured != "n/a" else None, c.null, c.doc) for c in columns]


def _view(name: str) -> list[tuple[str | None, ...]]:
    try:
        contract = contracts.load(name)
    except ConfigError as error:
        tables = ", ".join(f"lake.{table}" for table in schema.TABLES)
        raise ConfigError(error.message, hint=f"{error.hint}; tables: {tables}") from None
    return [(name, c.name, c.type, c.unit, c.measured, c.null, c.doc) for c in contract.columns]
