"""Sections of a report: settings that are compared on the same data.

A *setting* is one configuration; its runs differ only in their seed. A *group* holds the settings that forecast the
same targets of a table over the same horizon; only these are compared. An *arm* is a setting's mechanism and the few
options that distinguish it, without its look-back. Its *conditions* are the device, precision and batches of its costs;
costs under different conditions are not compared.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forecast.common.files import flatten, look_up
from forecast.runs.labels import arm_labels, data_key, differing, facts_apart, shown, start_weights
from forecast.runs.read import FinishedRun, InTurn


def conditions_of(run: FinishedRun) -> str:
    """Return the conditions of a run's costs: facts that change its costs but not its scores."""
    training = run.config["training"]
    processes = int(run.result.get("processes", 1))
    words = [
        str(run.result["device"]),
        *([f"{processes} processes"] if processes > 1 else []),
        str(run.result["precision"]),
        f"batches of {training['batch_size']} and {training.get('evaluation_batch_size')}",
        *(["activation checkpointing"] if training.get("activation_checkpointing") else []),
        *(["table mapped"] if look_up(run.result, "data.placement.where") == "mapped" else []),
    ]
    return ", ".join(words)


Key = tuple[str, int]
"""Key of a setting in its group: its arm and its look-back."""


def _is_untrained_sum(run: FinishedRun) -> bool:
    """Return whether the forecast is the ridge regression: the best step of a sum with it came before training."""
    is_ridge = look_up(run.result, "config.model.linear_path") == "ridge" and run.result.get("start_from") is None
    return is_ridge and run.number("model.best_step") == 0


@dataclass(frozen=True)
class Setting:
    """One line of a report: `arm` (the mechanism's name first), `look_back` in steps, one run per seed."""

    arm: str
    look_back: int
    runs: tuple[FinishedRun, ...]

    @property
    def key(self) -> Key:
        """The key in its group."""
        return self.arm, self.look_back

    @property
    def mechanism(self) -> str:
        """The self-attention of the encoder."""
        return str(self.runs[0].config["attention"]["name"])

    @property
    def seeds(self) -> list[int]:
        """The seeds in rising order."""
        return sorted(run.result["seed"] for run in self.runs)

    @property
    def conditions(self) -> str:
        """Conditions of the costs; all of them if the runs differ."""
        return " / ".join(dict.fromkeys(map(conditions_of, self.runs)))

    @property
    def is_linear_path(self) -> bool:
        """Whether no forecast uses attention: the mixing weight is 0, or a sum with the ridge is not trained."""
        return all(run.number("model.mixing_weight") == 0 or _is_untrained_sum(run) for run in self.runs)

    @property
    def in_turn(self) -> InTurn | None:
        """Times interleaved with other settings; None unless one sweep measured them for all runs."""
        first, *others = (run.in_turn for run in self.runs)
        return (
            first
            if all(first is not None and each is not None and each.sweep == first.sweep for each in others)
            else None
        )

    def values(self, path: str) -> np.ndarray:
        """Return each run's number at a dotted path of its result."""
        return np.array([run.number(path) for run in self.runs])

    def mean(self, path: str) -> float:
        """Return the mean over the seeds, NaN where a run lacks the number."""
        return float(self.values(path).mean())

    def deviation(self, path: str) -> float:
        """Return the standard deviation over the seeds (n - 1), NaN for a single seed."""
        return float(self.values(path).std(ddof=1)) if len(self.runs) > 1 else float("nan")


REFERENCE, CONTROL = "full", "mean"
"""The mechanisms to compare with: exact attention, and a mean over all positions."""

LONGEST = 24
"""Maximum length of a value in a title, in characters."""


@dataclass(frozen=True)
class RunGroup:
    """Settings with the same targets and horizon, by arm and look-back; `title` (data, horizon) is unique."""

    title: str
    settings: tuple[Setting, ...]

    @property
    def arms(self) -> list[str]:
        """The arms, the reference first and the control last."""
        return in_order((setting.arm for setting in self.settings), self.reference, self.control)

    @property
    def look_backs(self) -> list[int]:
        """All look-backs in rising order."""
        return sorted({setting.look_back for setting in self.settings})

    @property
    def same_windows(self) -> bool:
        """Whether all runs were scored on the same test windows, as far as their results tell."""
        facts = ("data.first_test_target", "data.windows.test", "data.windows_left_out.test")
        runs = [run for setting in self.settings for run in setting.runs]
        return len({tuple(str(look_up(run.result, fact)) for fact in facts) for run in runs}) == 1

    @property
    def reference(self) -> str | None:
        """The arm to compare with: `full` with the fewest other options, or None."""
        return self._arm_of(REFERENCE)

    @property
    def control(self) -> str | None:
        """The arm of the control `mean`, or None."""
        return self._arm_of(CONTROL)

    def of(self, arm: str) -> list[Setting]:
        """Return the settings of an arm in order of look-back."""
        return [setting for setting in self.settings if setting.arm == arm]

    def at(self, arm: str | None, look_back: int) -> Setting | None:
        """Return the setting of an arm at a look-back."""
        return next((setting for setting in self.settings if setting.key == (arm, look_back)), None)

    def nearest(self, mechanism: str, setting: Setting) -> Setting | None:
        """Return the most similar setting of a mechanism at the same look-back; equal conditions count most."""
        words = set(setting.arm.split(", "))

        def distance(other: Setting) -> tuple[bool, int, str]:
            return other.conditions != setting.conditions, len(words ^ set(other.arm.split(", "))), other.arm

        key = mechanism, setting.look_back
        return min((one for one in self.settings if (one.mechanism, one.look_back) == key), key=distance, default=None)

    def _arm_of(self, mechanism: str) -> str | None:
        return plainest(setting.arm for setting in self.settings if setting.mechanism == mechanism)


def plainest(arms: Iterable[str]) -> str | None:
    """Return the arm with the fewest other options, None if there is none."""
    return min(arms, key=lambda arm: (arm.count(","), arm), default=None)


def in_order(arms: Iterable[str], reference: str | None, control: str | None) -> list[str]:
    """Return each arm once, the reference first and the control last."""
    return sorted(dict.fromkeys(arms), key=lambda arm: (arm == control, arm != reference))


def groups_of(runs: Sequence[FinishedRun]) -> list[RunGroup]:
    """Return the groups, those with the most runs first; runs that differ only in their seed are one setting."""
    by_data: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_data.setdefault(data_key(run.result), []).append(run)
    groups = sorted(by_data.values(), key=len, reverse=True)
    titles = [f"{group[0].result['data']['name']}, horizon {group[0].config['horizon']:,}" for group in groups]
    facts = facts_apart(titles, [_data_facts(group[0]) for group in groups], differing)
    words = [", ".join(f"{key} {_short(value)}" for key, value in own.items()) for own in facts]
    unique = [
        f"{title} ({text or place})" if titles.count(title) > 1 else title
        for place, (title, text) in enumerate(zip(titles, words, strict=True), 1)
    ]
    unique = [
        f"{title}, number {unique[: place + 1].count(title)}" if unique.count(title) > 1 else title
        for place, title in enumerate(unique)
    ]  # long values that differ after their first characters
    return [RunGroup(title, _settings(group)) for title, group in zip(unique, groups, strict=True)]


def _data_facts(run: FinishedRun) -> dict[str, object]:
    data = run.result["data"]
    facts = {
        **flatten(run.config["data"]),
        "targets": data["targets"],
        "evaluation_stride": data.get("evaluation_stride", 1),
        "sha256": data.get("sha256"),
    }
    return {key: facts[key] for key in sorted(facts) if key != "path"}


def _short(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _settings(runs: Sequence[FinishedRun]) -> tuple[Setting, ...]:
    groups: dict[str, list[FinishedRun]] = {}
    for run in sorted(runs, key=lambda run: run.result["seed"]):
        groups.setdefault(run.of, []).append(run)
    firsts = [group[0] for group in groups.values()]
    names = arm_labels([run.config for run in firsts])
    keys = [(name, run.config["context_length"]) for name, run in zip(names, firsts, strict=True)]
    facts = facts_apart(keys, [_conditions(run) for run in firsts], differing)
    settings = [
        Setting(", ".join([name, *words.values()]), look_back, tuple(group))
        for (name, look_back), words, group in zip(keys, facts, groups.values(), strict=True)
    ]
    return tuple(sorted(settings, key=lambda setting: setting.key))


DATES = ("time_column", "time_columns", "date_format", "time_zone")
"""Keys of `data` that say how dates are read: two ways of reading make two settings."""


def _conditions(run: FinishedRun) -> dict[str, str]:
    """Return device, precision, batch size, the start and the reading of dates, which distinguish equal names."""
    size = run.config["training"].get("evaluation_batch_size")
    return {
        "device": str(run.result["device"]),
        "precision": str(run.result["precision"]),
        "batch": f"evaluation_batch_size={size}",
        "start": start_weights(run.result),
        **{key: f"data.{key}={shown(run.config['data'].get(key))}" for key in DATES},
    }
