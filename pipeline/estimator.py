"""How sizes of texts are estimated, and how far that is off on a lake's own data, in one line for its reports."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.paths import put_in_place
from pipeline.warehouse import REFERENCE, Warehouse, fingerprint

CHARS4 = "chars4"  # characters / 4, rounded up
CALIBRATED = "calibrated"  # by the median of what was measured of the model's family; where too little was, as above
ESTIMATORS = (CHARS4, CALIBRATED)
ENOUGH_STEPS = 30  # as in sql/int/model_rates.sql


def sentence(warehouse: Warehouse, estimator: str = CHARS4) -> str:
    """One line: which estimator was used, and its error over the steps of the lake that could be measured."""
    families = _calibration(warehouse)
    measured = [family for family in families if family["steps"] >= ENOUGH_STEPS]
    if estimator == CALIBRATED and measured:
        rates = "; ".join(f"{f['median_chars_per_token']:.3g} for {_error(f, _median_error(f))}" for f in measured)
        return f"Sizes of texts: estimated by the characters a token measured on this data, {rates}; else by 4."
    if not families:
        return "Sizes of texts: estimated as characters / 4; how far that is off could not be measured on this data."
    errors = "; ".join(_error(family, family["chars4_error"]) for family in families)
    few = f" (no family of models has the {ENOUGH_STEPS} steps to calibrate)" if estimator == CALIBRATED else ""
    return f"Sizes of texts: estimated as characters / 4{few}; measured on this data: {errors}."


def _calibration(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The rows of the view for all of the lake. They are looked for at every report, so they are kept beside it."""
    path = warehouse.lake / REFERENCE / "calibration.json"
    stamp = _stamp(warehouse.lake)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # not there, or not whole: it is made anew
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return list(kept["rows"])
    rows: list[dict[str, Any]] = warehouse.view("calibration").table().to_pylist()
    with contextlib.suppress(OSError), put_in_place(path) as made:  # a lake that one may only read has no notes
        made.write_text(json.dumps({"stamp": stamp, "rows": rows}), encoding="utf-8")
    return rows


def _stamp(lake: Path) -> str:
    """What the lake's rows are made of: other files or views, other stamp. Reads no file's content."""
    digest = hashlib.sha256(fingerprint(lake).encode())
    for table in ("requests", "tool_calls", "prompts", "context_events", "sessions"):
        for file in sorted((lake / table).glob("client=*/month=*/*.parquet")):
            status = file.stat()
            digest.update(f"{file.relative_to(lake)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _error(family: Mapping[str, Any], error: float) -> str:
    name = family["model_family"] or "models not recorded"
    return f"{name} in {family['client']} (off by {error:+.1%} in {family['steps']:,} steps)"


def _median_error(family: Mapping[str, Any]) -> float:
    """What the median makes of all results, against what they took."""
    pooled: float = family["pooled_chars_per_token"]
    median: float = family["median_chars_per_token"]
    return pooled / median - 1
