"""What is said on stderr: one line each, prefixed, never on stdout."""

from __future__ import annotations

import logging
import sys

LOGGER = logging.getLogger("pipeline")


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = record.getMessage().replace("\n", " ")
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"agentlens: {level}{text}{trace}"


def set_up(*, quiet: bool = False, debug: bool = False) -> None:
    """Send the project's log lines to stderr: notes and warnings, with `quiet` errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.DEBUG if debug else logging.ERROR if quiet else logging.INFO)
