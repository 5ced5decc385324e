"""How sizes of texts are estimated, and how far that is off on a lake's own data, in one line for its reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.warehouse import CALIBRATED, ENOUGH_STEPS, Warehouse

CHARS4 = "chars4"  # characters / 4, rounded up; the other one is `CALIBRATED`


def sentence(warehouse: Warehouse, estimator: str = CHARS4) -> str:
    """One line: which estimator was used, and its error over the steps of the lake that could be measured."""
    families = warehouse.calibration()
    measured = [family for family in families if family["steps"] >= ENOUGH_STEPS]
    if estimator == CALIBRATED and measured:
        rates = "; ".join(f"{f['median_chars_per_token']:.3g} for {_error(f, _median_error(f))}" for f in measured)
        return f"Sizes of texts: estimated by the characters a token measured on this data, {rates}; else by 4."
    if not families:
        return "Sizes of texts: estimated as characters / 4; how far that is off could not be measured on this data."
    errors = "; ".join(_error(family, family["chars4_error"]) for family in families)
    few = f" (no family of models has the {ENOUGH_STEPS} steps to calibrate)" if estimator == CALIBRATED else ""
    return f"Sizes of texts: estimated as characters / 4{few}; measured on this data: {errors}."


def _error(family: Mapping[str, Any], error: float) -> str:
    name = family["model_family"] or "models not recorded"
    return f"{name} in {family['client']} (off by {error:+.1%} in {family['steps']:,} steps)"


def _median_error(family: Mapping[str, Any]) -> float:
    """What the median makes of all results, against what they took."""
    pooled: float = family["pooled_chars_per_token"]
    median: float = family["median_chars_per_token"]
    return pooled / median - 1
