"""Compare a plan with real trainings: `python -m benchmarks.plan_check data=etth1 --rounds 5`.

Each round measures a mechanism as `python -m forecast.plan` does, and trains it in a separate process. The tables show
the ratio of plan to training, and whether both rank the mechanisms alike.
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

from forecast.common.cli import finish, positive
from forecast.common.errors import Interrupted, ProcessFailed
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
"""Maximum deviation of the median ratio from 1 for a plan that passes."""

TIME, PEAK = "seconds", "peak_mib"
QUIET = {"progress": False, "profile": False}
"""Options of `training` that turn off displays and records."""

HEADINGS = ("mechanism", "figure", "plan", "training", "plan / training", "by pair")


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, train and compare for the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = options_of("benchmarks.plan_check", "Make a plan and real trainings in turn, and compare the two.")
    parser.add_argument("--check-steps", type=positive, help="steps of each training (default: as configured)")
    options = parser.parse_intermixed_args(given)
    return finish(lambda: run(options, given))


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Plan and train, print both tables, and write the plan and the check to `--output`."""
    check = Check(options.check_steps)
    rows, facts = plan(options, arguments, measure=check.measure, module="benchmarks.plan_check")
    result = check.result(options.rounds)
    content = {**facts, "mechanisms": rows, "check": result}
    checked = [check_table(result)] if result["mechanisms"] else []  # no table if no mechanism fits
    publish([plan_table(rows, facts), *checked], content, options.output)


@dataclass(frozen=True)
class Pair:
    """Figures of a plan and of the real training: time of steps and validations, and peak memory."""

    planned: Mapping[str, float]
    real: Mapping[str, float]

    @classmethod
    def of(cls, plan: Answer, result: Mapping[str, Any]) -> "Pair":
        """Return the pair of a plan and a training's result, for the training's number of steps."""
        assert plan.pace is not None
        assert plan.length is not None
        assert plan.peak_mib is not None
        speed = result["speed"]
        planned = {TIME: plan.pace.fit_seconds(plan.length, result["model"]["steps"]), PEAK: plan.peak_mib}
        return cls(planned, {TIME: speed["fit_seconds"], PEAK: speed["peak_memory_mib"]})


class Check:
    """Measurements of a plan, each with a training, alternately after and before it.

    A training has `steps` steps, or its configured number if `steps` is None.
    """

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self.pairs: dict[str, list[Pair]] = {}

    def measure(
        self, candidate: Candidate, send: estimates.Send, seconds: float, memory: int, first: Answer | None = None
    ) -> Answer:
        """Measure a mechanism as the planner does, train it, and store the pair."""
        pairs = self.pairs.setdefault(candidate.label, [])
        before = self._train(candidate) if len(pairs) % 2 else None
        answer = estimates.measure(candidate, send, seconds, memory, first)
        if not answer.why:
            pairs.append(Pair.of(answer, before or self._train(candidate)))
        return answer

    def result(self, rounds: int) -> dict[str, Any]:
        """Return the ratios of each mechanism, and the rankings by plans and by trainings."""
        compared = {
            label: {what: compare(made, what) for what in (TIME, PEAK)} for label, made in self.pairs.items() if made
        }
        ranking = {what: rank({label: ratios[what] for label, ratios in compared.items()}) for what in (TIME, PEAK)}
        return {"pairs": rounds, "mechanisms": compared, "ranking": ranking}

    def _train(self, candidate: Candidate) -> dict[str, Any]:
        """Train into a temporary folder, and return the result."""
        assert candidate.config is not None
        training = candidate.config["training"] | QUIET
        if self.steps is not None:
            training["max_steps"] = self.steps
        try:
            with TemporaryDirectory() as folder:
                return train_apart({**candidate.config, "training": training}, Path(folder) / "run", sys.argv)
        except JobFailed as failed:
            code = failed.failure.exit_code
            raise ProcessFailed(f"{candidate.label}: a training ended without a result: {failed}", code) from None
        except (Interrupted, SystemExit) as end:
            code = end.exit_code if isinstance(end, Interrupted) else int(end.code or 0)
            raise Interrupted("nothing was written, since a check cannot resume", code - 128) from None


def compare(pairs: Sequence[Pair], what: str) -> dict[str, Any]:
    """Return the ratios of a mechanism's pairs, their median, and whether it is close to 1."""
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
    """Return the mechanisms by increasing median, planned and real, and the pairs that the plan orders wrongly.

    For such a pair, `apart` is the relative difference of the real medians. `alike` counts the trainings, out of
    `turns`, in the order of their medians; about half means that the trainings do not differ either. `claimed` is True
    if all plans have the wrong order.
    """
    swapped = []
    for pair in combinations(compared, 2):
        low, high = sorted((compared[label] for label in pair), key=lambda figures: float(figures["real"]))
        if low["real"] < high["real"] and low["planned"] > high["planned"]:
            turns = list(zip(low["reals"], high["reals"], strict=False))  # a failed mechanism has fewer
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
    """Return the table that compares a plan with trainings."""
    cells = [
        [
            label,
            what,
            show(figures["planned"]),
            show(figures["real"]),
            decimals(figures["median"]),
            " ".join(map(decimals, figures["ratios"])),
        ]
        for label, compared in check["mechanisms"].items()
        for what, key, show in (("time", TIME, duration), ("peak MiB", PEAK, three_digits))
        for figures in (compared[key],)
    ]
    notes = [f"plan / training: median of {check['pairs']} pairs, measured in turn; passes within 1 ± {WITHIN:g}"]
    for what, key in (("time", TIME), ("peak", PEAK)):
        ranks = check["ranking"][key]
        notes.append(f"order by {what}, trained: {' < '.join(ranks['real'])}; planned: {' < '.join(ranks['planned'])}")
        notes += [
            f"wrong order by {what}: {' and '.join(swap['mechanisms'])}, {100 * swap['apart']:.1f} % apart in the "
            f"trainings, in this order in {swap['alike']} of {swap['turns']} rounds; "
            + ("all plans had the wrong order" if swap["claimed"] else "the plans marked the order as uncertain")
            for swap in ranks["swapped"]
        ]
    return Table("The plan compared with real trainings of the same number of steps", HEADINGS, cells, tuple(notes))


if __name__ == "__main__":
    sys.exit(main())
