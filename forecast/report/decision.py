"""The decision that an answer begins with: a void comparison, and a baseline that no model beats."""

from collections.abc import Iterator

from forecast.common.files import look_up
from forecast.report.comparisons import MSE, Comparisons, compared_baselines, error
from forecast.report.groups import CONTROL, RunGroup
from forecast.report.phrases import score, signed
from forecast.runs.summary import can_count

MARGIN = 1.1
"""Least ratio of test MSE at which a baseline is called better: baselines have no window errors to test."""

EQUAL = 1.01
"""Ratio of test MSE up to which the linear path of a void comparison is no gain over a baseline."""


def void_words(group: RunGroup) -> Iterator[str]:
    """Yield that no forecast uses attention, if that holds for all settings but the control."""
    settings = [setting for setting in group.settings if setting.mechanism != CONTROL] or group.settings
    if not all(setting.is_linear_path for setting in settings):
        return
    why, other = "validation gave the encoder-decoder no weight in any setting", ""
    if not all(setting.is_linear_path for setting in group.settings):
        why, other = "validation gave the encoder-decoder weight only in the control", "other "
    elif not any(can_count(run.result) for setting in settings for run in setting.runs):
        why = "validation is too short to accept a training"
    yield f"The comparison of attention is void: {why}, so no {other}forecast uses attention."


def advice(group: RunGroup, comparisons: Comparisons, *, void: bool) -> Iterator[str]:
    """Yield the baseline to take if no model is better; validation chooses the baseline.

    In a void comparison, a model that is better by less than `EQUAL` is the same linear path.
    """
    paths = ("validation.scaled.mse", MSE)
    scored = [
        baseline for baseline in compared_baselines(group) if None not in [look_up(baseline.scores, at) for at in paths]
    ]
    chosen = min(scored, key=lambda baseline: float(look_up(baseline.scores, paths[0])), default=None)
    best = error(comparisons.best)
    if chosen is not None and chosen.mse <= (EQUAL if void else 1) * best:
        yield (
            f"Take {chosen.label}, nothing is gained here: it has test MSE {score(chosen.mse)}, the best model, "
            f"`{comparisons.best.arm}`, has {score(best)}."
        )


def beaten_words(group: RunGroup, comparisons: Comparisons) -> Iterator[str]:
    """Yield that a baseline is better than the best model by the margin, with both errors."""
    lowest = min(compared_baselines(group), key=lambda baseline: baseline.mse, default=None)
    best = error(comparisons.best)
    if lowest is not None and lowest.mse > 0 and best >= MARGIN * lowest.mse:
        yield (
            f"Every model is worse than {lowest.label}: the best, `{comparisons.best.arm}`, has test MSE {score(best)} "
            f"against {score(lowest.mse)} ({signed(100 * (best / lowest.mse - 1))} %)."
        )
