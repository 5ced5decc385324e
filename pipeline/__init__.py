"""AgentLens: what AI coding agents cost, from the transcripts they leave on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["UsageTracker", "__version__", "open_lake"]

if TYPE_CHECKING:
    from pipeline.api import open_lake
    from pipeline.savings import UsageTracker


def __getattr__(name: str) -> Any:
    # What is for use in code is loaded on use, so that the command line starts without it.
    if name == "open_lake":
        from pipeline.api import open_lake

        return open_lake
    if name == "UsageTracker":
        from pipeline.savings import UsageTracker

        return UsageTracker
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
