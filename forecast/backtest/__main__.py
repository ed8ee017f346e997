"""How would a model have done: `forecast backtest --run latest --input my.csv --from 2017-01-01 --step 7d`."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import sha256
from forecast.common.text import counted, duration

if TYPE_CHECKING:
    import pandas as pd

    from forecast.backtest.folder import Folder
    from forecast.backtest.refit import Refits
    from forecast.predict.history import Origins
    from forecast.predict.rolling import Rolling


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m forecast.backtest",
        description="Forecast from every origin of a past stretch, each with what was known then, and compare with "
        "what came. Writes forecasts.parquet, scores.csv, backtest.json and backtest.html into a folder. The same "
        "command continues one that was stopped.",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        help="folder of a finished run (default: latest); several times for the mean of their forecasts",
    )
    parser.add_argument("--input", required=True, type=Path, help="CSV or Parquet file with the columns of training")
    parser.add_argument("--from", dest="start", required=True, metavar="time", help="the first time that is forecast")
    parser.add_argument(
        "--to", dest="end", metavar="time", help="no forecast begins after it (default: the last with a whole horizon)"
    )
    parser.add_argument(
        "--step", metavar="step", help="time between two origins, such as 7d, or rows (default: the horizon)"
    )
    parser.add_argument(
        "--refit",
        default="never",
        metavar="step",
        help="train again, on the rows before, at the first origin and after each step, such as 30d; auto: at an "
        "origin whose known errors have grown (default: never)",
    )
    parser.add_argument(
        "--refit-from",
        choices=("last", "scratch"),
        help="begin each training with the weights of the model before, in a quarter of the steps, or from scratch "
        "(default: last)",
    )
    parser.add_argument(
        "--refit-time", metavar="dd:hh:mm:ss", help="time limit of each training (default: that of the run)"
    )
    parser.add_argument("--levels", nargs="+", default=[], type=float, metavar="PERCENT", help="central intervals")
    parser.add_argument(
        "--importance",
        action="store_true",
        help="say which inputs matter: the error if blocks of one input are exchanged between origins",
    )
    parser.add_argument(
        "--output", default=Path("backtest"), type=Path, metavar="folder", help="folder to write (default: backtest)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parser().parse_args(arguments)
    asked = Asked(
        *(options.start, options.end, options.step, tuple(options.levels)),
        *(options.refit, options.refit_time, options.refit_from),
    )
    return finish(lambda: backtest(options.run, options.input, options.output, asked, options.importance))


@dataclass(frozen=True)
class Asked:
    """The origins and intervals of a backtest, as typed."""

    start: str
    end: str | None = None
    step: str | None = None
    levels: tuple[float, ...] = ()
    refit: str = "never"
    refit_time: str | None = None
    refit_from: str | None = None

    def origins(self, step: str | None = None) -> "Origins":
        """Return the origins, or the dates of refits that are a step apart."""
        from forecast.predict.history import Origins

        return Origins(self.start, self.end, self.step if step is None else step)

    def facts(self) -> dict[str, Any]:
        """Return the words by the names of their options."""
        return {
            **{"--from": self.start, "--to": self.end, "--step": self.step, "--levels": list(self.levels)},
            **{"--refit": self.refit, "--refit-time": self.refit_time, "--refit-from": self.refit_from},
        }


def backtest(runs: Sequence[str], source: Path, output: Path, asked: Asked, importance: bool = False) -> None:
    """Write the backtest of a model on a table into a folder, and print how it did, and which inputs matter."""
    if not source.exists():  # before the seconds that torch takes to import
        raise InputError(f"{source}: no such file: check the path")
    for name, value in {"--refit-time": asked.refit_time, "--refit-from": asked.refit_from}.items():
        if asked.refit == "never" and value is not None:
            raise InputError(f"{name} {value}: nothing is trained again: add --refit, or leave it out")
    from forecast.backtest.folder import Folder
    from forecast.backtest.importance import inputs_that_matter
    from forecast.backtest.outcome import write_outcome
    from forecast.backtest.page import PAGE
    from forecast.predict.ensemble import Ensemble, load
    from forecast.predict.forecast import Question
    from forecast.predict.input import read_as_trained
    from forecast.runs.run import Run

    paths = [Run.open_and_say(run).path if run == "latest" else Path(run) for run in runs or ["latest"]]
    predictor = load(*paths)
    members = predictor.members if isinstance(predictor, Ensemble) else [predictor]
    weights = [member.facts.weights for member in members]
    folder = Folder(output, {"--run": weights, "--input": sha256(source), **asked.facts()})
    folder.check()
    frame = read_as_trained(members[0].contract, source)
    rolling = predictor.rolling(frame, asked.origins(), Question(asked.levels), str(source))
    if importance and (rolling.explained is None or asked.refit != "never"):
        raise InputError("--importance: is about one model: give one run, and leave out --refit")
    print(*filter(None, [rolling.history.series_left_out, _opening(rolling)]), sep="\n", flush=True)
    refits = None
    if asked.refit == "never":
        groups = rolling.groups()
        makers: list[Callable[[], pd.DataFrame]] = [partial(rolling.at, group) for group in groups]
        folder.open()
    else:
        from forecast.backtest.refit import LAST, Refits, check_refit  # imported here: Lightning takes seconds

        refits = Refits(
            check_refit(predictor),
            *(frame, str(source), Question(asked.levels), output, asked.refit_time, asked.refit_from or LAST),
        )
        groups, makers = _with_refits(refits, rolling, folder, asked)
    _print_time(rolling, sum(len(groups[number]) for number in folder.missing(len(groups))))
    forecasts = folder.fill(makers)
    facts = {"models": [str(member.path) for member in members], "input": source.name, **asked.facts()}
    if refits is not None:
        made = facts["refits"] = refits.made()
        print(f"{counted(len(made), 'refit')}{': ' * bool(made)}{', '.join(made)}")
    inputs = inputs_that_matter(rolling) if importance else None
    for line in write_outcome(output, source.name, rolling.history, forecasts, facts, inputs):
        print(line)
    print(f"backtest: {shlex.quote(str(output / PAGE))}")


def _with_refits(
    refits: "Refits", rolling: "Rolling", folder: "Folder", asked: Asked
) -> tuple[list[list[int]], list[Callable[[], "pd.DataFrame"]]]:
    """Return the groups of origins and the function that forecasts each; open the folder and print what is trained."""
    from forecast.backtest.refit import AUTO, Watch

    if asked.refit == AUTO:
        makers = Watch(refits, rolling, folder).makers()
        folder.open()
        print(f"a refit, when the errors have grown, takes about {duration(refits.seconds())}", flush=True)
        return [[place] for place in rolling.places], makers
    due = refits.groups(rolling, asked.origins(asked.refit))
    makers = refits.makers(rolling, due)
    folder.open()
    if places := {due[number][0] for number in folder.missing(len(due))}:
        each = refits.seconds()
        print(f"{counted(len(places), 'refit')} of about {duration(each)}: {duration(each * len(places))}", flush=True)
    return [group for _, group in due], makers


def _opening(rolling: "Rolling") -> str:
    """Return the line on the origins before they are forecast."""
    history = rolling.history
    times, out = history.times, history.left_out
    more = f"; {counted(out, 'more origin')} left out, without enough rows or a value to compare with" if out else ""
    return f"{counted(len(times), 'origin')} from {times[0]} to {times[-1]}, {history.model.horizon} steps each{more}"


def _print_time(rolling: "Rolling", count: int) -> None:
    """Print about how long the origins that are still to be forecast take, from the time of the first."""
    if not count:
        print("All forecasts are there already.", flush=True)
        return
    rolling.at(rolling.places[:1])  # the first call takes longer
    began = monotonic()
    rolling.at(rolling.places[:1])
    print(f"{counted(count, 'origin')} to forecast: about {duration((monotonic() - began) * count)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
