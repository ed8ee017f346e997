"""How much training a run had, and whether that is enough to speak of quality."""

from forecast.runs.reading import FinishedRun


def windows_seen(run: FinishedRun) -> int:
    """Give the training windows that the steps of a run took, those seen twice counted twice."""
    return int(run.number("model.steps")) * int(run.number("config.training.batch_size"))


def passes(run: FinishedRun) -> float:
    """Give how many times over the training windows were seen."""
    return windows_seen(run) / run.number("data.windows.train")


def is_partial(run: FinishedRun) -> bool:
    """Say whether a run made less than one pass over its data; what rounding to whole steps leaves out is none."""
    rounding = int(run.number("config.training.batch_size"))
    return windows_seen(run) + rounding <= run.number("data.windows.train")


def is_best_last(run: FinishedRun) -> bool:
    """Say whether its very last step was the best that was validated: more of them might have done better."""
    return run.number("model.best_step") >= run.number("model.steps")


def is_short(run: FinishedRun) -> bool:
    """Say whether a run is held to have ended before its quality did, for either reason."""
    return is_partial(run) or is_best_last(run)
