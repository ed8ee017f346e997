"""How much training a run had, and whether that is enough to speak of quality."""

from forecast.reporting.reading import FinishedRun


def windows_seen(run: FinishedRun) -> int:
    """Give the training windows that the steps of a run took, those seen twice counted twice."""
    return int(run.number("model.steps")) * int(run.number("config.training.batch_size"))


def passes(run: FinishedRun) -> float:
    """Give how many times over the training windows were seen."""
    return windows_seen(run) / run.number("data.windows.train")


def is_short(run: FinishedRun) -> bool:
    """Say whether a run ended before its quality did.

    So it is held to be where it made less than one pass over its data, or where validation liked its very last
    step best: more steps might then have done better. What is left of a pass by rounding it to whole steps is none.
    """
    rounding = int(run.number("config.training.batch_size"))
    return windows_seen(run) + rounding <= run.number("data.windows.train") or run.number(
        "model.best_step"
    ) >= run.number("model.steps")
