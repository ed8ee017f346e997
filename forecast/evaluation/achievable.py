"""The share of the achievable skill that a model reaches on diagnostic series."""

from collections.abc import Mapping
from typing import Any

from forecast.data.generated.diagnostic import KINDS, best_mse, share_of_skill
from forecast.data.settings import DIAGNOSTIC, DataSettings

SIMPLE = ("last_value", "linear")
"""The simple forecasts: last value and ridge regression. The better one has skill 0."""


def achieved(data: DataSettings, result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how close a result comes to the best possible error; None if the data are not diagnostic.

    `best_mse` and the errors of each split are in original units. `share` is 0 for the better simple forecast and 1
    for the best possible one; None for a control, whose simple forecast is the best. `excess` is the error above the
    best possible one, as a share of it.
    """
    if data.source != DIAGNOSTIC:
        return None
    series = data.diagnostic
    best = best_mse(series)
    facts: dict[str, Any] = {
        "kind": series.kind,
        "is_control": KINDS[series.kind].is_control,
        "types": None if KINDS[series.kind].is_control else series.number_of_types,
        "distance": series.distance,
        "events": series.events,
        "noise": series.noise,
        "best_mse": best,
    }
    for part in ("validation", "test"):
        mse = result[part]["original"]["mse"]
        simple = min(row[part]["original"]["mse"] for name in SIMPLE if (row := result["baselines"][name]) is not None)
        share = None if facts["is_control"] else share_of_skill(mse, simple, best)
        facts[part] = {"mse": mse, "simple_mse": simple, "share": share, "excess": mse / best - 1}
    return facts


def achieved_line(facts: Mapping[str, Any]) -> str:
    """Return the sentence below the table of a run."""
    test, best = facts["test"], f"the best possible one has {facts['best_mse']:.4g}"
    if facts["is_control"]:
        return f"Control {facts['kind']}: test MSE {test['mse']:.4g}, {best} ({100 * test['excess']:+.1f} %)"
    return (
        f"Share of the achievable skill: {test['share']:.3f} (test MSE {test['mse']:.4g}; the better of last value and "
        f"ridge has {test['simple_mse']:.4g}, {best})"
    )
