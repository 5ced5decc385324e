"""The command `agentlens mcp`."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import click

from pipeline import log
from pipeline.cli.options import lake_options
from pipeline.errors import AgentLensError
from pipeline.window import local_zone


@click.command("mcp")
@click.option(
    "--row-limit", type=click.IntRange(1), default=1000, show_default=True, help="Most rows that a call may ask for."
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds after which a call's query is stopped.",
)
@lake_options
def command(lake: Path, row_limit: int, time_limit: float) -> None:
    """Serve the views and SQL to agents, by MCP on stdin and stdout.

    A tool a view, with its window and filters, and `sql`; all read-only. Nothing is sent anywhere but to the program
    that started this one. Needs the extra `mcp`: pip install 'agentlens-pipeline[mcp]'

    \b
      # Claude Code
      claude mcp add --scope user agentlens -- agentlens mcp
      # Codex
      codex mcp add agentlens -- agentlens mcp
      # any other client, in its settings
      # {"mcpServers": {"agentlens": {"command": "agentlens", "args": ["mcp"]}}}

    Without a lake it answers that there is none; `agentlens run` makes one.
    """  # noqa: D301 - click takes the character \b for "leave these lines as they are"
    try:
        from pipeline.mcp import Settings, serve
    except ImportError as error:
        hint = "install it with: pip install 'agentlens-pipeline[mcp]'"
        raise AgentLensError(f"the package mcp, 2.3 or newer, is not installed ({error})", hint=hint) from error

    if sys.stdin.isatty():
        log.LOGGER.info("waiting for an MCP client on stdin; `agentlens mcp --help` says how to register this with one")
    logging.getLogger("mcp").setLevel(logging.ERROR)  # it tells of every message that it does not know
    serve(Settings(lake.absolute(), local_zone(os.environ), row_limit, time_limit))
