"""Every error that AgentLens raises on purpose. Imports nothing of the project."""

from __future__ import annotations

from typing import Any


class AgentLensError(Exception):
    """An error to show to a person: one line that says what and where, and a hint what to do.

    Keyword arguments are kept as attributes of the same name, for callers that act on them.
    """

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ConfigError(AgentLensError):
    """A wrong option, environment variable or file given by the user."""


class LakeError(AgentLensError):
    """The lake cannot be read or written. Fact: path."""


class LakeLockedError(LakeError):
    """Another run holds the lake. Facts: path, holder."""


class LedgerError(AgentLensError):
    """A ledger of retrieval tools cannot be read or written. Facts: path, is_locked."""


class SourceError(AgentLensError):
    """A transcript cannot be read. Facts: path, line. Never leaves `ingest`: it becomes a warning."""


class UnknownFormatError(SourceError):
    """A file that lies where a client's transcripts lie, and is none."""


class ContractError(AgentLensError):
    """A view breaks its contract. Facts: view, column, check, count."""


class QueryError(AgentLensError):
    """A query that cannot be run, or must not."""


class ExportError(AgentLensError):
    """A result cannot be written. Fact: path."""


class ReaderGone(Exception):  # noqa: N818 - no error: it has what it wanted
    """Whoever reads our output has closed it. Not a BrokenPipeError, as click makes a failure of that."""
