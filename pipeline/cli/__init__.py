"""The command line: a group whose commands are loaded when they are used, so that help and start-up stay quick."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import click

from pipeline import __version__, log
from pipeline.errors import AgentLensError, ConfigError, ReaderGone

COMMANDS = {
    "run": "Bring the lake up to date, then export every view as CSV (the cron job).",
    "ingest": "Read new transcripts into the lake.",
    "export": "Write views to files.",
    "report": "Write one HTML page for people: spend, contexts, overhead, what is idle.",
    "sql": "Ask the lake in SQL, read-only.",
    "mcp": "Serve the views and SQL to agents, by MCP on stdin and stdout.",
    "schema": "Show the tables of the lake and the columns of the views.",
    "doctor": "Say what is there to read, what of it is not, and whether the lake is as it should be.",
}


class Exit(IntEnum):
    """What the process says when it ends."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


class Commands(click.Group):
    """The commands by name. A view's command is made from its contract."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from pipeline.contracts import public_names

        return [*COMMANDS, *public_names()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"pipeline.cli.{cmd_name}").command
            return command
        from pipeline.contracts import public_names

        if cmd_name not in public_names():
            return None
        from pipeline.cli.view import view_command

        return view_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands with their short help, without loading any of them."""
        from pipeline.contracts import find, public_names

        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        with formatter.section("Views"):
            formatter.write_dl([(name, find(name).help) for name in public_names()])


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={
        "auto_envvar_prefix": "AGENTLENS",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="agentlens")
@click.pass_context
def group(ctx: click.Context) -> None:
    """What AI coding agents cost, from the transcripts that they leave on disk.

    Plain numbers are measured, ~numbers are estimated, n/a is not recorded by the client.
    Start with `agentlens run`, then `agentlens usage` or any other view.
    """
    ctx.default_map = _config_file()
    if ctx.invoked_subcommand is None:
        from pipeline.cli.glance import show

        show()


def _config_file() -> dict[str, Any]:
    """Defaults from the user's config file: a TOML table a command, option names with underscores."""
    import tomllib

    import platformdirs

    path = platformdirs.user_config_path("agentlens", appauthor=False) / "config.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="mend it or move it away", path=path) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with 0 (done), 1 (failed) or 2 (wrong usage)."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in args
    log.set_up(debug=debug)
    code = _guarded(args, debug=debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has what it wanted; keep the interpreter from complaining at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _guarded(args: list[str], *, debug: bool) -> int:
    try:
        result = group.main(args, prog_name="agentlens", standalone_mode=False)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "agentlens"
        log.LOGGER.error("%s; see `%s --help`", error.format_message().rstrip("."), command)
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except ReaderGone:
        return Exit.DONE
    except AgentLensError as error:
        log.LOGGER.error("%s", error, exc_info=debug)
        return Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        log.LOGGER.error("%s%s", place, error.strerror or error, exc_info=debug)
        return Exit.FAILED
    return int(result) if isinstance(result, int) else Exit.DONE
