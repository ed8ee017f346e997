"""A plan held against real trainings, both in turn: `python -m benchmarks.plan_check data=etth1 --rounds 5`.

Each round measures a mechanism as `python -m forecast.plan` does and trains it beside that, in a process of its own.
The tables have the ratios of plan and training, and whether the plan ranks the mechanisms as the trainings do.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from forecast.common.cli import finish
from forecast.common.errors import InputError, Interrupted
from forecast.common.options import positive
from forecast.common.tables import Table
from forecast.common.text import decimals, duration, three_digits
from forecast.common.timing import always_less
from forecast.plan import estimates
from forecast.plan.__main__ import options_of
from forecast.plan.candidates import Candidate
from forecast.plan.messages import Answer
from forecast.plan.planner import plan, publish
from forecast.plan.tables import plan_table
from forecast.training.sweep.isolated import JobFailed, train_apart

WITHIN = 0.25
"""Largest distance from 1 of the median ratio of a plan that passes."""

TIME, PEAK = "seconds", "peak_mib"
QUIET = {"progress": False, "profile": False}
"""Options of `training` that show or record something beside it."""

HEADINGS = ("mechanism", "what", "plan", "training", "plan / training", "of each pair")


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, train and compare as the command line says; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = options_of("benchmarks.plan_check", "Make a plan and real trainings in turn, and compare the two.")
    parser.add_argument(
        "--check-steps", type=positive, help="of each training; as many as the configuration has if not given"
    )
    options = parser.parse_intermixed_args(given)
    return finish(lambda: run(options, given))


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Plan and train, print both tables, and write the plan and the check where a file is named."""
    check = Check(options.check_steps)
    rows, facts = plan(options, arguments, measure=check.measure, module="benchmarks.plan_check")
    result = check.result(options.rounds)
    content = {**facts, "mechanisms": rows, "check": result}
    checked = [check_table(result)] if result["mechanisms"] else []  # none where none fits
    publish([plan_table(rows, facts), *checked], content, options.output)


@dataclass(frozen=True)
class Pair:
    """A plan and the training beside it: the seconds of the training's steps and validations, and its peak."""

    planned: Mapping[str, float]
    real: Mapping[str, float]

    @classmethod
    def of(cls, plan: Answer, result: Mapping[str, Any]) -> "Pair":
        """Return the pair of a plan and a training's result; the plan's time is that of the steps of the training."""
        assert plan.pace is not None
        assert plan.length is not None
        assert plan.peak_mib is not None
        speed = result["speed"]
        planned = {TIME: plan.pace.fit_seconds(plan.length, result["model"]["steps"]), PEAK: plan.peak_mib}
        return cls(planned, {TIME: speed["fit_seconds"], PEAK: speed["peak_memory_mib"]})


class Check:
    """Measurements of a plan with a training beside each, after it and before it in turn.

    A training has `steps` steps, or as many as its configuration has if that is None.
    """

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self.pairs: dict[str, list[Pair]] = {}

    def measure(
        self, candidate: Candidate, put: estimates.Put, seconds: float, memory: int, first: Answer | None = None
    ) -> Answer:
        """Measure a mechanism as the planner does, and keep the pair."""
        pairs = self.pairs.setdefault(candidate.label, [])
        before = self._train(candidate) if len(pairs) % 2 else None
        answer = estimates.measure(candidate, put, seconds, memory, first)
        if not answer.why:
            pairs.append(Pair.of(answer, before or self._train(candidate)))
        return answer

    def result(self, rounds: int) -> dict[str, Any]:
        """Return the ratios of each mechanism, and how plans and trainings rank them."""
        compared = {
            label: {what: compare(made, what) for what in (TIME, PEAK)} for label, made in self.pairs.items() if made
        }
        ranking = {what: rank({label: each[what] for label, each in compared.items()}) for what in (TIME, PEAK)}
        return {"pairs": rounds, "mechanisms": compared, "ranking": ranking}

    def _train(self, candidate: Candidate) -> dict[str, Any]:
        """Train into a folder that is not kept, and return the result."""
        assert candidate.config is not None
        training = candidate.config["training"] | QUIET
        if self.steps is not None:
            training["max_steps"] = self.steps
        try:
            with TemporaryDirectory() as folder:
                return train_apart({**candidate.config, "training": training}, Path(folder) / "run", sys.argv)
        except JobFailed as failed:
            raise InputError(f"{candidate.label}: a training ended without a result: {failed}") from None
        except (Interrupted, SystemExit):
            raise KeyboardInterrupt from None  # the planner says what is kept


def compare(pairs: Sequence[Pair], what: str) -> dict[str, Any]:
    """Return the ratios of a mechanism's pairs, their median, and whether it is near enough to 1."""
    ratios = [pair.planned[what] / pair.real[what] for pair in pairs]
    planned, reals = [pair.planned[what] for pair in pairs], [pair.real[what] for pair in pairs]
    return {
        "planned": median(planned),
        "plans": planned,
        "real": median(reals),
        "reals": reals,
        "ratios": ratios,
        "median": median(ratios),
        "within": abs(median(ratios) - 1) <= WITHIN,
    }


def rank(compared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mechanisms by rising medians, as planned and as they were, and the pairs that are not in order.

    Of such a pair `apart` is by how much the real medians differ, as a share of the smaller, `alike` in how many of the
    `turns` the trainings stood as their medians do (where that is about half, they were not told apart either), and
    `claimed` whether the plans had them apart, each of the one below each of the other.
    """
    swapped = []
    for pair in combinations(compared, 2):
        low, high = sorted((compared[label] for label in pair), key=lambda each: float(each["real"]))
        if low["real"] < high["real"] and low["planned"] > high["planned"]:
            turns = list(zip(low["reals"], high["reals"], strict=False))  # one that failed in a turn has no more
            swapped.append(
                {
                    "mechanisms": list(pair),
                    "apart": high["real"] / low["real"] - 1,
                    "alike": sum(less < more for less, more in turns),
                    "turns": len(turns),
                    "claimed": always_less(high["plans"], low["plans"]),
                }
            )
    orders = {name: sorted(compared, key=lambda label: compared[label][name]) for name in ("planned", "real")}
    return {**orders, "swapped": swapped}


def check_table(check: Mapping[str, Any]) -> Table:
    """Return the table of a plan held against trainings."""
    cells = [
        [
            label,
            what,
            show(each["planned"]),
            show(each["real"]),
            decimals(each["median"]),
            " ".join(map(decimals, each["ratios"])),
        ]
        for label, compared in check["mechanisms"].items()
        for what, key, show in (("time", TIME, duration), ("peak MiB", PEAK, three_digits))
        for each in (compared[key],)
    ]
    notes = [f"ratios: the median of {check['pairs']} pairs, plan and training in turn; wanted: 1 ± {WITHIN:g}"]
    for what, key in (("time", TIME), ("peak", PEAK)):
        ranks = check["ranking"][key]
        notes.append(f"by {what}, trained: {' < '.join(ranks['real'])}; planned: {' < '.join(ranks['planned'])}")
        notes += [
            f"by {what} out of order: {' and '.join(swap['mechanisms'])}, {swap['apart']:.1%} apart in the trainings, "
            f"which stood so in {swap['alike']} of {swap['turns']} turns; the plans "
            + ("all stood the other way" if swap["claimed"] else "did not tell them apart")
            for swap in ranks["swapped"]
        ]
    return Table("The plan beside real trainings of as many steps", HEADINGS, cells, tuple(notes))


if __name__ == "__main__":
    sys.exit(main())
