"""The worth of what is known ahead, with and without it and by attention: `python -m benchmarks.known_ahead`.

Each run is one public command. A run that the record has is not made again; an interrupted one is resumed.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.processes import run_to_its_end
from benchmarks.published.contest import folder_of, only_run
from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, look_up, read_json, replacing
from forecast.common.processes import environment
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import table, write_between
from forecast.evaluation.significance import mean_interval
from forecast.runs.run import ERRORS, RESULT
from forecast.training.sweep.sweep import JOBS_LEFT

RUNS = Path("benchmarks/records/known-ahead/runs.csv")
PAIRS = RUNS.with_name("pairs.csv")
FOLDER = Path("outputs/known_ahead")

TASKS = {
    "epf_np": ("horizon=24", "context_length=168"),
    "epf_de": ("horizon=24", "context_length=168"),
    "gefcom2014": (
        *("horizon=168", "context_length=504", "training.batch_size=64", "training.max_epochs=12"),
        *("training.mixing_prior=0", "training.linear_path_rate=0"),
    ),
    "victoria": ("horizon=48", "context_length=336"),
}
"""Data sets, with the words of their horizon and look-back; two years of `gefcom2014` need smaller batches."""

WITHOUT = ("data.known_covariates=[]", "data.perfect_foresight=[]")
ARMS = {
    "full": (),
    "without": WITHOUT,
    "probsparse": ("attention=probsparse",),
    "linear": ("attention=linear",),
    "mean": ("attention=mean",),
    "mean everywhere": ("attention=mean", "attention@cross_attention=mean"),
}
"""Arms, with their words beside the recipe `experiment=known_ahead`. `without` knows only the calendar ahead."""

SEEDS = (1, 2, 3)
KEY = ["task", "arm", "seed"]
PAIR = ["task", "arm", "seeds", "windows", "mean", "low", "high", "capped"]
"""Columns of a comparison; `capped` marks an interval that is perhaps too narrow."""

FACTS = {
    "validation_mae": "validation.scaled.mae",
    "test_mae": "test.scaled.mae",
    "test_mae_units": "test.original.mae",
    "path_validation_mae": "linear_path.validation.scaled.mae",
    "path_test_mae": "linear_path.test.scaled.mae",
    "ridge_validation_mae": "baselines.linear.validation.scaled.mae",
    "ridge_test_mae": "baselines.linear.test.scaled.mae",
    "ridge_test_mae_units": "baselines.linear.test.original.mae",
    "naive_test_mae": "baselines.seasonal_naive.test.scaled.mae",
    "share": "model.mixing_weight",
    "windows": "data.windows.test",
    "seconds": "speed.fit_seconds",
    "commit": "commit",
    "machine": "device",
}
"""Columns of the record and their paths in `result.json`; MAE on z-scores unless it ends in units."""

LEVEL = 0.99
"""Confidence level of the pairs."""


@dataclass(frozen=True)
class Cell:
    """One run: a data set, an arm and a seed."""

    task: str
    arm: str
    seed: int

    @property
    def words(self) -> list[str]:
        """The overrides of its command."""
        return [f"data={self.task}", "experiment=known_ahead", *TASKS[self.task], *ARMS[self.arm], f"seed={self.seed}"]

    @property
    def folder(self) -> Path:
        """The folder that holds its run alone."""
        return folder_of(FOLDER / f"{self.task}_{self.arm.replace(' ', '-')}_{self.seed}", self.words)

    @property
    def run(self) -> Path | None:
        """The folder of its finished run; raise InputError if there are several, as after a change of the recipe."""
        return only_run(self.folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 1 if a run failed, 5 if the time limit was reached."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.known_ahead",
        description="Run what the record lacks, one training at a time, or write its tables into a Markdown file. Run "
        "the same command again to continue.",
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--minutes", type=float, help="time after which no run starts")
    parser.add_argument("--dry-run", action="store_true", help="print the missing commands; run nothing")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables between their marks in this file")
    options = parser.parse_args(arguments)
    codes: list[int] = []
    return finish(lambda: codes.append(_run(options))) or codes[0]


def _run(options: argparse.Namespace) -> int:
    """Run or write; return the exit code."""
    if not RUNS.parent.is_dir():
        raise InputError(f"{RUNS.parent}: no such folder: run this in the checkout")
    if options.write is not None:
        write_between(options.write, BEGIN, END, tables(read(RUNS), read(PAIRS)))
        return 0
    wanted = [Cell(*key) for key in _product(options.tasks, options.arms, options.seeds)]
    done = {tuple(key) for key in read(RUNS)[KEY].to_numpy().tolist()}
    missing = [cell for cell in wanted if (cell.task, cell.arm, cell.seed) not in done]
    started, failed = time.monotonic(), False
    for cell in missing:
        words = [*cell.words, f"output_dir={cell.folder}", "resume=auto"]
        print(shlex.join(["python", "train.py", *words]), flush=True)
        if options.dry_run:
            continue
        _ = cell.run  # several finished runs are refused before a training
        if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
            print(f"time limit of {options.minutes:g} minutes reached: run the same command again to continue")
            return JOBS_LEFT
        training = [sys.executable, "-m", "forecast.training", *words, "training.progress=false"]
        ended = run_to_its_end(training, env=environment(), stdout=subprocess.DEVNULL)
        failed = failed or ended != 0
        if ended == 0 and cell.run is not None:
            _add(cell, cell.run)
    return int(failed)


def _product(tasks: Sequence[str], arms: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Yield the keys, the first seed of every task and arm first."""
    for seed in seeds:
        for task in tasks:
            for arm in arms:
                yield task, arm, seed


def read(path: Path) -> pd.DataFrame:
    """Return a file of the record; an empty table if there is none yet."""
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=KEY)


def _add(cell: Cell, run: Path) -> None:
    """Add the row of a finished run, and the comparison of its arm with `full` over the seeds so far."""
    result = read_json(run / RESULT)
    facts: dict[str, Any] = {column: look_up(result, path) for column, path in FACTS.items()}
    row = {**vars(cell), **facts, "command": shlex.join(["python", "train.py", *cell.words])}
    arms = [cell.arm] if cell.arm != "full" else [arm for arm in ARMS if arm != "full"]
    pairs = [pair for arm in arms if arm != "full" and (pair := compare(cell.task, arm)) is not None]
    with folder_lock(RUNS.parent, wait=True):  # another command may add rows too
        if pairs:
            _replace_pairs(pairs)
        # last: without its row, a run that is interrupted here is added again
        _write(RUNS, pd.concat([read(RUNS), pd.DataFrame([row])], ignore_index=True).sort_values(KEY))


def _replace_pairs(pairs: Sequence[dict[str, Any]]) -> None:
    """Write these comparisons, which replace comparisons of the same or a smaller number of seeds."""
    before = read(PAIRS).reindex(columns=PAIR).astype({"capped": object})
    new = pd.DataFrame(pairs)
    of_more_seeds = before.set_index(["task", "arm"])["seeds"].to_dict()
    new = new[[pair["seeds"] >= of_more_seeds.get((pair["task"], pair["arm"]), 0) for pair in pairs]]
    kept = before[~before.set_index(["task", "arm"]).index.isin(list(zip(new.task, new.arm, strict=True)))]
    _write(PAIRS, pd.concat([kept, new], ignore_index=True).sort_values(["task", "arm"]))


def _write(path: Path, rows: pd.DataFrame) -> None:
    with replacing(path) as file:
        write_frame(file, rows, index=False)


def compare(task: str, arm: str) -> dict[str, Any] | None:
    """Return how much lower the MAE of `full` is than that of an arm, in per cent, with its interval.

    Windows are paired and averaged over the seeds that both have; None without any.
    """
    seeds = [
        seed for seed in SEEDS if Cell(task, arm, seed).run is not None and Cell(task, "full", seed).run is not None
    ]
    if not seeds:
        return None
    ours, theirs = (_windows([Cell(task, name, seed) for seed in seeds]) for name in ("full", arm))
    horizon = int(TASKS[task][0].partition("=")[2])
    interval = mean_interval((theirs - ours).to_numpy(), horizon, level=LEVEL)
    share = 100 / float(theirs.mean())
    percents: dict[str, Any] = {}
    if interval is not None:
        percents = {name: round(share * getattr(interval, name), 3) for name in ("mean", "low", "high")}
        percents["capped"] = interval.capped
    return {"task": task, "arm": arm, "seeds": len(seeds), "windows": len(ours), **percents}


def _windows(cells: Sequence[Cell]) -> "pd.Series[float]":
    """Return the MAE of each test window, mean over the runs."""
    columns = []
    for cell in cells:
        assert cell.run is not None
        errors = pd.read_parquet(cell.run / ERRORS)
        columns.append(errors[errors["part"] == "test"].set_index("origin")["mae"])
    return pd.concat(columns, axis=1).mean(axis=1).sort_index()


BEGIN = "<!-- known ahead: written by python -m benchmarks.known_ahead --write docs/measurements/known-ahead.md -->"
END = "<!-- /known ahead -->"


Means = dict[tuple[str, str], dict[str, float]]
"""Mean of each number over the seeds, by task and arm; `seeds` is their count."""


def tables(runs: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Return the tables of the record: with and without what is known ahead, and the share of attention."""
    if runs.empty:
        return "No run yet."
    both = runs[runs["arm"].isin(("full", "without"))].groupby(["task", "seed"])["arm"].transform("count") == 2
    return "\n\n".join(
        [_worth(_means(runs[both.reindex(runs.index, fill_value=False)])), _attention(_means(runs), pairs)]
    )


def _means(runs: pd.DataFrame) -> Means:
    """Return the mean of each number over the seeds, and their count."""
    means: Means = {}
    for (task, arm), rows in runs.groupby(["task", "arm"], sort=False):
        numbers = rows.mean(numeric_only=True).to_dict()
        means[str(task), str(arm)] = {str(name): float(value) for name, value in numbers.items()} | {"seeds": len(rows)}
    return means


def _worth(means: Means) -> str:
    headings = (
        *("data, horizon", "ridge without", "model without", "ridge with", "model with", "seeds"),
        *("with against without", "model against ridge"),
    )
    rows = []
    for task, (horizon, *_) in TASKS.items():
        known, blind = means.get((task, "full")), means.get((task, "without"))
        if known is None or blind is None:
            continue
        values = [blind["ridge_test_mae"], blind["test_mae"], known["ridge_test_mae"], known["test_mae"]]
        gains = [known["test_mae"] / blind["test_mae"] - 1, known["test_mae"] / known["ridge_test_mae"] - 1]
        cells = [f"`{task}`, {horizon.partition('=')[2]}", *(f"{value:.4f}" for value in values)]
        rows.append([*cells, f"{known['seeds']:.0f}", *(f"{100 * gain:+.1f} %" for gain in gains)])
    return table(headings, rows)


def _attention(means: Means, pairs: pd.DataFrame) -> str:
    intervals = {(str(row["task"]), str(row["arm"])): row for row in pairs.to_dict("records")}
    headings = ("data", "attention", "test MAE", "seeds", "`full` is lower by", "99 % interval")
    rows = []
    for task in TASKS:
        arms = [arm for arm in ARMS if (task, arm) in means and arm != "without"]
        if len(arms) < 2:
            continue
        for arm in arms:
            numbers, pair = means[task, arm], intervals.get((task, arm), {})
            known = pd.notna(pair.get("mean"))
            narrow = ", perhaps too narrow" if pair.get("capped") is True else ""
            span = f"{pair['low']:.1f} to {pair['high']:.1f} %{narrow}" if known else ""
            cells = [f"{pair['mean']:.1f} %" if known else "", span]
            rows.append([f"`{task}`", f"`{arm}`", f"{numbers['test_mae']:.4f}", f"{numbers['seeds']:.0f}", *cells])
        if (path := means.get((task, "full"))) is None:
            continue
        rows.append(
            [f"`{task}`", "linear path of `full`", f"{path['path_test_mae']:.4f}", f"{path['seeds']:.0f}", "", ""]
        )
    return table(headings, rows)


if __name__ == "__main__":
    sys.exit(main())
