"""The command `agentlens sql`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline.cli.options import format_option, lake_options, limit_option, output_options


@click.command("sql")
@click.argument("query")
@format_option
@limit_option
@output_options
@lake_options
def command(
    lake: Path, query: str, format_name: str | None, limit: int | None, output: str | None, newline: str
) -> None:
    """Ask the lake in SQL, read-only. QUERY is one SELECT, or - to read it from stdin.

    \b
      agentlens sql "select client, sum(estimated_usd) from requests group by client"
      agentlens sql "describe skills"

    Nothing can be written, and nothing outside the lake be read. Times are UTC.
    """  # noqa: D301 - click takes the character \b for "leave these lines as they are"
    from pipeline.cli.render import write
    from pipeline.export import Rows, columns_of
    from pipeline.warehouse import connect_current

    text = sys.stdin.read() if query == "-" else query
    with connect_current(lake) as warehouse:
        batches = warehouse.sql(text).batches()
        write(Rows("sql", columns_of(batches.schema), batches), format_name, output, newline=newline, limit=limit)
