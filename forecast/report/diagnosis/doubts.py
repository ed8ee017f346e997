"""What the reader of the chapter on diagnostic series must know before trusting its answer."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from forecast.common.files import flatten
from forecast.common.text import counted
from forecast.report.budget import LEFT_OUT_GROUPS, is_best_last
from forecast.report.diagnosis.answer import HALF
from forecast.report.diagnosis.tasks import ATTENTION, SIZES, Diagnosis, Task
from forecast.report.phrases import listed, quoted
from forecast.runs.labels import shown
from forecast.runs.read import FinishedRun

NAMED = (
    *ATTENTION,
    *("context_length", "horizon", "seed", "resume", "output_dir", "optimizer.lr"),
    *("training.max_steps", "training.max_epochs", "training.precision", "training.progress"),
    *("training.evaluation_batch_size", "training.checkpoint_minutes"),
)
"""Keys of the configuration that the chapter names elsewhere, or that change no score."""

NAMED_GROUPS = (*(f"{group}." for group in ATTENTION), *LEFT_OUT_GROUPS, "data.")


def doubts(diagnosis: Diagnosis) -> list[str]:
    """Return the sentences on seeds, length of training, search over the learning rate, and unequal options."""
    found = [task for task in diagnosis.tasks if not task.is_control]
    return [
        *_single_seeds(diagnosis),
        *(words for task in found for words in _still_falling(diagnosis, task)),
        *(words for task in diagnosis.tasks for words in _searches(diagnosis, task)),
        *(words for task in diagnosis.tasks for words in _options_of_arms(diagnosis, task)),
        *(words for size, tasks in diagnosis.curves() for words in _options_along(diagnosis, size, tasks)),
    ]


def _single_seeds(diagnosis: Diagnosis) -> Iterator[str]:
    cells = diagnosis.cells.values()
    if singles := sum(len(cell.runs) == 1 for cell in cells):
        has = "has" if len(cells) == 1 else "have"
        yield f"{singles} of {counted(len(cells), 'cell')} of the map {has} one seed: another seed may differ."


def _still_falling(diagnosis: Diagnosis, task: Task) -> Iterator[str]:
    """Yield the arms that did not find the rule although their validation error was lowest at the end."""
    cells = [cell for cell in diagnosis.of(task) if cell.mean < HALF and not cell.is_of_control]
    if arms := [cell.arm for cell in cells if any(map(is_best_last, cell.runs))]:
        yield (
            f"{diagnosis.named(task)}: more steps may help {quoted(arms)}: the validation error was still falling at "
            "the end."
        )


def _searches(diagnosis: Diagnosis, task: Task) -> Iterator[str]:
    """Yield the learning rates of each arm if the arms had unequal ones to choose from."""
    cells = diagnosis.of(task)
    if len({cell.rates for cell in cells}) > 1 or any(cell.rates_left_out for cell in cells):
        words = []
        for cell in cells:
            less = f" (without {_rates(cell.rates_left_out)}, of fewer seeds)" if cell.rates_left_out else ""
            words.append(f"`{cell.arm}` {_rates(cell.rates)}{less}")
        yield f"{diagnosis.named(task)}: the learning rates to choose from were unequal: {'; '.join(words)}."
    if len(counts := {len(cell.runs) for cell in cells}) > 1:
        yield f"{diagnosis.named(task)}: the mechanisms have {min(counts)} to {max(counts)} seeds."


def _rates(rates: Sequence[float | None]) -> str:
    return listed(["none" if rate is None else f"{rate:g}" for rate in rates])


def _options_of_arms(diagnosis: Diagnosis, task: Task) -> Iterator[str]:
    """Yield the options that differ between the arms of a task and that their names do not tell."""
    values = {f"`{cell.arm}`": cell.runs for cell in diagnosis.of(task)}
    differing = [(key, by_arm) for key, by_arm in _differing(values) if not _told(key, by_arm)]
    if differing:
        yield f"{diagnosis.named(task)}: these options differ between the mechanisms: {_listed(differing, 'with')}."


def _told(key: str, by_arm: Mapping[str, Collection[str]]) -> bool:
    group = key.removesuffix("._target_").removesuffix(".name")  # in a name, `scheduler=cosine` stands for its class
    return all(f"{group}=" in arm for arm in by_arm)


def _options_along(diagnosis: Diagnosis, size: str, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the options that differ between the tasks of a curve."""
    values: dict[str, list[FinishedRun]] = {}
    for arm in diagnosis.arms:
        cells = [(task, cell) for task in tasks if (cell := diagnosis.at(task, arm)) is not None]
        for task, cell in cells if len(cells) > 1 else []:
            values.setdefault(f"{getattr(task, size):,}", []).extend(cell.runs)
    if differing := list(_differing(values)):
        yield (
            f"`{tasks[0].kind}` against {SIZES[size]}: the points of the curve differ in these options too: "
            f"{_listed(differing, 'at')}."
        )


def _differing(groups: Mapping[str, Sequence[FinishedRun]]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each option whose values differ between the groups, and the values of each group."""
    flat = {name: [flatten(run.config) for run in runs] for name, runs in groups.items()}
    keys = sorted({key for configs in flat.values() for config in configs for key in config})
    for key in keys:
        if key not in NAMED and not key.startswith(NAMED_GROUPS):
            values = {name: sorted({_value(config, key) for config in configs}) for name, configs in flat.items()}
            if len({tuple(own) for own in values.values()}) > 1:
                yield key, values


def _value(config: Mapping[str, Any], key: str) -> str:
    return shown(config[key]) if key in config else "none"


def _listed(differing: Sequence[tuple[str, Mapping[str, Sequence[str]]]], preposition: str) -> str:
    words = []
    for key, values in differing:
        groups: dict[str, list[str]] = {}
        for name, own in values.items():
            groups.setdefault(" and ".join(own), []).append(name)
        told = [f"{value} {preposition} {listed(names)}" for value, names in groups.items()]
        words.append(f"`{key}` ({'; '.join(told)})")
    return ", ".join(words)
