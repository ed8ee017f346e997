"""The answer of the chapter on diagnostic series: the mechanism to take for each task, and where skill is lost."""

import math
from collections.abc import Iterator, Sequence

from forecast.report.costs import TRAINING, clearly_cheaper, times_cheaper
from forecast.report.diagnosis.tasks import SIZES, Cell, Diagnosis, Task
from forecast.report.phrases import listed, quoted, rounded, two_decimals

NEAR = 0.05
"""Arms whose share of skill is lower than the best by at most this are equally good."""

HALF = 0.5
"""Share of the achievable skill below which a mechanism counts as having lost it."""


def sentences(diagnosis: Diagnosis) -> list[str]:
    """Return the answer: for each task the mechanism to take and its price, then the curves, then the controls."""
    controls = [task for task in diagnosis.tasks if task.is_control]
    return [
        *(words for task in diagnosis.tasks if not task.is_control for words in _choice(diagnosis, task)),
        *(words for size, tasks in diagnosis.curves() if (words := _along(diagnosis, size, tasks))),
        *(_control(diagnosis, task) for task in controls),
    ]


def best_cells(diagnosis: Diagnosis, task: Task) -> list[Cell]:
    """Return the cells within `NEAR` of the best share of skill, without the control if there are others.

    The one with the largest share comes first, unless others train clearly faster: then the fastest of them does. If
    their times cannot be compared, the share decides.
    """
    every = sorted(diagnosis.of(task), key=lambda cell: -cell.mean)
    cells = [cell for cell in every if not cell.is_of_control] or every
    best = cells[0]
    near = [cell for cell in cells if cell.mean >= best.mean - NEAR]
    faster = [cell for cell in near if clearly_cheaper(TRAINING, cell.setting, best.setting)]
    if _times_compare(near) and faster:
        fastest = max(faster, key=lambda cell: times_cheaper(TRAINING, cell.setting, best.setting) or 0.0)
        near.remove(fastest)
        near.insert(0, fastest)
    return near


def _times_compare(cells: Sequence[Cell]) -> bool:
    """Return whether the training times of the cells were measured, under equal conditions and undisturbed."""
    return all(times_cheaper(TRAINING, cell.setting, cells[0].setting) is not None for cell in cells)


def _choice(diagnosis: Diagnosis, task: Task) -> Iterator[str]:
    """Yield the mechanism to take on a task, and those of which more seeds may show that they are as good."""
    cells = sorted(diagnosis.of(task), key=lambda cell: -cell.mean)
    shares = listed([f"`{cell.arm}` {_share(cell)}" for cell in cells])
    name = diagnosis.named(task)
    if max(cell.mean for cell in cells) < NEAR:
        yield f"{name}: no mechanism finds it ({shares} of the achievable skill)."
        return
    found = f"{name}: share of the achievable skill {shares}"
    if len(cells) == 1:
        yield f"{found}."
        return
    control = max((cell.mean for cell in cells if cell.is_of_control), default=-math.inf)
    if max((cell.mean for cell in cells if not cell.is_of_control), default=math.inf) < control + NEAR:
        yield f"{found}; no mechanism is clearly better than the control `mean`."
        return
    near = best_cells(diagnosis, task)
    take, full = near[0], diagnosis.at(task, str(diagnosis.reference))
    if not _times_compare(near):
        yield f"{found}; take `{take.arm}` ({_no_price(near)})."
    else:
        price = f"{rounded(take.milliseconds)} ms a window and a peak of {rounded(take.mebibytes)} MiB in training"
        if full is not None and (times := times_cheaper(TRAINING, take.setting, full.setting)) is not None:
            pairs = (take.setting, full.setting), (full.setting, take.setting)
            if any(clearly_cheaper(TRAINING, *pair) for pair in pairs):
                price += f", {rounded(times)} times as fast as `{full.arm}`"
        yield f"{found}; take `{take.arm}`: {price}."
    if open_ := [cell.arm for cell in cells if cell not in near and _may_equal(cell, cells[0])]:
        yield f"{name}: more seeds may show that {quoted(open_)} {'is' if len(open_) == 1 else 'are'} as good."


def _no_price(cells: Sequence[Cell]) -> str:
    """Return why the training times of the cells cannot be compared."""
    if any(math.isnan(cell.milliseconds) for cell in cells):
        return "the runs were too short to measure a price"
    if any(cell.is_disturbed for cell in cells):
        return "other processes disturbed the training times"
    return "the training times are those of different machines or batches"


def _may_equal(cell: Cell, best: Cell) -> bool:
    """Return whether the intervals of two cells overlap; False with one seed, which has no interval."""
    return cell.mean + cell.half >= best.mean - best.half


def _share(cell: Cell) -> str:
    share = two_decimals(cell.mean)
    return share if math.isnan(cell.half) else f"{share} ± {cell.half:.2f}"


def _along(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> str | None:
    """Return at which size the share of each arm first falls below `HALF`; None without an arm at all sizes."""
    arms = [arm for arm in diagnosis.arms if all(diagnosis.at(task, arm) is not None for task in tasks)]
    if not arms:
        return None
    left, falls, unsure = list(arms), [], []
    for task in tasks:
        below = [arm for arm in left if diagnosis.cells[task, arm].mean < HALF]
        left = [arm for arm in left if arm not in below]
        if below:
            falls.append(f"at {getattr(task, size):,} with {quoted(below)}")
        if both := [
            arm for arm in arms if abs(diagnosis.cells[task, arm].mean - HALF) <= diagnosis.cells[task, arm].half
        ]:
            unsure.append(f"at {getattr(task, size):,} with {quoted(both)}")
    found = [f"first falls below {HALF:g} {listed(falls)}"] if falls else []
    found += [f"stays at {HALF:g} or above with {quoted(left)}"] if left else []
    open_ = f"; its interval includes {HALF:g} {listed(unsure)}" if unsure else ""
    others = diagnosis.sizes(tasks[0], size)
    values = listed([f"{getattr(task, size):,}" for task in tasks])
    steps = sorted({number for task in tasks for arm in arms for number in diagnosis.cells[task, arm].steps})
    trained = f" (trainings of {steps[0]:,} to {steps[-1]:,} steps)" if len(steps) > 1 else ""
    return (
        f"`{tasks[0].kind}`{''.join(f', {word}' for word in others)}, with {values} {SIZES[size]}{trained}: the share "
        f"of the achievable skill {'; it '.join(found)}{open_}."
    )


def _control(diagnosis: Diagnosis, task: Task) -> str:
    cells = sorted(diagnosis.of(task), key=lambda cell: cell.mean)
    errors = listed([f"`{cell.arm}` {100 * cell.mean:.1f} %" for cell in cells])
    return (
        f"Control {diagnosis.named(task)}: the errors lie above the best possible "
        f"one by {errors}; the better of last value and ridge by {100 * cells[0].simple_excess:.1f} %. Attention has "
        "nothing to find here."
    )
