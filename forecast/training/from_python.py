"""Training from Python: `forecast.fit(frame, horizon=48)` returns the model that `forecast.load` returns."""

import os
import shutil
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lightning.pytorch.utilities.seed import isolate_rng

from forecast.common.errors import InputError, Interrupted, first_line
from forecast.common.files import replacing
from forecast.common.progress import is_quiet, quietly
from forecast.data.sources import load_source
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from forecast.runs.resume import RESTART_JOB_HINT
from forecast.runs.settings import Settings, follow_table
from forecast.runs.summary import print_closing_lines, print_table
from forecast.tables.formats.frames import as_frame
from forecast.tables.series import Series
from forecast.training.options import Options
from forecast.training.sweep.ensemble import score_members
from forecast.training.sweep.job import typed_as
from forecast.training.time_budget import check_budget, parse_budget, spend
from forecast.training.train import train

TABLE = "table.parquet"
"""The table of a run, in its folder."""

_ONE_AT_A_TIME = threading.Lock()
"""Held by a training: the random numbers of torch and the configuration of Hydra belong to the process."""


def fit(
    frame: Any,
    horizon: int | None = None,
    *,
    validation: Any = None,
    time_budget: str | float | timedelta | None = None,
    folder: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    **options: Any,
) -> Forecaster | Ensemble | PanelForecaster:
    """Train a model on a table, and return it as `forecast.load` does.

    Parameters
    ----------
    frame
        A DataFrame of pandas, with the times in a column or in its index, or any table with `__arrow_c_stream__`, such
        as those of polars, DuckDB and pyarrow. A long table with ids gives a model of many series.
    horizon
        Steps to forecast; None: chosen for the table.
    validation
        A table of the rows after `frame`, which select the weights and are scored; None: a share of `frame`, by
        `split`. There is no test split then: `score` measures the model on other rows.
    time_budget
        Time of the whole call, such as "2min" or seconds, spent on steps, then on further seeds, whose forecasts are
        averaged. `result["time_budget"]` says how. None: the length that the options set.
    folder
        The run folder, as the command `forecast train` writes it; None: a temporary one, removed with the model. The
        same call with the folder of an interrupted training continues it.
    verbose
        Print what the command prints. A terminal or notebook shows the progress in any case, unless
        `training={"progress": False}`.
    options
        Options of the command line by their names: those of `data` as they are (`targets=["load"]`,
        `holidays="DE-BY"`, `id_columns=["store"]`), a choice as a word (`attention="probsparse"`,
        `experiment="general"`), a group as a dict (`training={"max_time": "00:00:02:00"}`), and `context_length`,
        `seed`, `ensemble`, `loss`, …; `start_from` is a trained model, or its folder, whose weights begin the training,
        with its architecture and its roles of columns.

    Returns
    -------
    Forecaster, Ensemble or PanelForecaster
        The trained model, or the ensemble of several seeds. Its `result` has the scores, its `settings` all options.

    Raises
    ------
    InputError
        If the table or an option cannot be used.
    KeyboardInterrupt
        If the training is interrupted. The message says how to continue it.

    Examples
    --------
    >>> model = forecast.fit(frame, horizon=48, attention="probsparse")  # doctest: +SKIP
    >>> model.predict(frame, levels=[80])  # doctest: +SKIP
    """
    began = time.monotonic()
    budget = None if time_budget is None else parse_budget(time_budget)
    table, later = as_frame(frame), None if validation is None else as_frame(validation, "validation")
    given = Options.of({"horizon": horizon, **options} if horizon is not None else options)
    with _own_process(), quietly(not verbose), _run_folder(folder, resumed=budget is None) as place:
        with _called_the_frame(place / TABLE):
            if later is None:
                _write(table, place)
            else:
                given = given.with_split(_write_both(table, later, place, given))
            _train(given, place, budget, began)
        model = load(place)
        if verbose and isinstance(model, Ensemble):
            print(model)
    if folder is None:
        weakref.finalize(model, shutil.rmtree, place, ignore_errors=True)
    return model


def _train(given: Options, place: Path, budget: float | None, began: float) -> None:
    """Train on the table of a run folder: within a budget of seconds from `began`, an ensemble, or one model."""
    settings, members = given.settings(place / TABLE)
    with typed_as(["forecast train", *given.words(place / TABLE)]):
        if budget is not None:
            check_budget(settings, members)
            spend(budget, began, settings, place)
        elif members > 1:
            _train_members(settings, members, place)
        else:
            run, result = train(settings, folder=place)
            if not is_quiet():
                print_table(result)
                print_closing_lines(run, result)


def _train_members(settings: Settings, members: int, place: Path) -> None:
    settings, source = follow_table(settings)
    source = load_source(settings.data) if source is None else source
    if source.series.ids is not None:
        raise InputError(f"ensemble={members}: not for a table with id_columns: train single seeds")
    runs = [
        train(settings.at_seed(seed), folder=place / f"seed-{seed}", source=source)[0]
        for seed in range(settings.seed, settings.seed + members)
    ]
    score_members(place, runs, settings)


@contextmanager
def _own_process() -> Iterator[None]:
    """Train alone in this process, and restore what a training changes in it."""
    names = ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")
    with _ONE_AT_A_TIME, ExitStack() as stack:
        before = {name: os.environ.get(name) for name in names}
        exact = torch.backends.cudnn.allow_tf32
        random = isolate_rng()  # restores after an exception too if it ends as without one
        random.__enter__()
        stack.callback(random.__exit__, None, None, None)
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and handler is not None:
            stack.callback(signal.signal, signal.SIGINT, handler)  # Lightning ignores the signal after the first
        try:
            yield
        except Interrupted as end:
            if end.exit_code != 128 + signal.SIGINT:
                raise
            raise KeyboardInterrupt(str(end)) from None
        finally:
            torch.backends.cudnn.allow_tf32 = exact
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextmanager
def _run_folder(folder: str | os.PathLike[str] | None, *, resumed: bool) -> Iterator[Path]:
    """Yield the run folder; remove a temporary one after an error, and a new one after a wrong table or option.

    A folder that holds a run is accepted if it may be `resumed`.
    """
    if folder is None:
        place = Path(tempfile.mkdtemp(prefix="forecast-"))
        try:
            yield place
        except Interrupted as end:
            shutil.rmtree(place, ignore_errors=True)
            text = "interrupted: nothing is kept of a temporary folder: set folder= to continue after an interrupt"
            raise Interrupted(text, end.exit_code - 128) from None
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return
    place = Path(folder)
    is_new = not (resumed and (place / TABLE).is_file())
    if is_new and place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InputError(f"{place}: is not empty: choose a new folder")
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield place
    except InputError:
        if is_new:
            shutil.rmtree(place, ignore_errors=True)
        raise
    except Interrupted as end:
        what = str(end).partition(": resume with")[0].partition(": no run folder")[0]
        raise Interrupted(f"{what}{': the same call continues it' * resumed}", end.exit_code - 128) from None


@contextmanager
def _called_the_frame(path: Path) -> Iterator[None]:
    """Name the table and the folder in messages as the user does."""
    try:
        yield
    except InputError as error:
        text = str(error).partition("; to see the whole table:")[0]
        text = text.replace(str(path), "the frame").replace(RESTART_JOB_HINT, "choose a new folder")
        error.args = (text,)
        raise


def _write(table: pd.DataFrame, place: Path) -> None:
    """Write the table of a run; refuse another table than that of an earlier call."""
    import pyarrow

    content, file = BytesIO(), place / TABLE
    try:
        table.to_parquet(content, index=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"the frame: a column has values of several types ({first_line(error)}): convert it") from None
    if file.is_file() and file.read_bytes() != content.getvalue():
        raise InputError(f"{place}: holds a run on another table: choose a new folder")
    with replacing(file) as opened:
        opened.write(content.getvalue())


def _write_both(table: pd.DataFrame, later: pd.DataFrame, place: Path, options: Options) -> dict[str, int]:
    """Write the rows of training and validation as one table, and return its split in steps."""
    if missing := [name for name in table.columns if name not in later.columns]:
        raise InputError(f"validation has no column {missing[0]!r}: give the columns of the frame")
    whole = pd.concat([table, later[list(table.columns)]], ignore_index=True)
    first, second = (_read(part, options) for part in (table, later))
    ends, begins = (pd.DatetimeIndex(series.frame.index) for series in (first, second))
    if begins.min() <= ends.max():
        raise InputError(f"validation begins at {begins.min()}, the frame ends at {ends.max()}: give the rows after it")
    steps = _read(whole, options).num_steps
    _write(whole, place)
    return {"train": first.num_steps, "validation": steps - first.num_steps, "test": 0}


def _read(table: pd.DataFrame, options: Options) -> Series:
    """Return a table as a training reads it."""
    with tempfile.TemporaryDirectory(prefix="forecast-") as folder, _called_the_frame(Path(folder) / TABLE):
        _write(table, Path(folder))
        return load_source(options.settings(Path(folder) / TABLE)[0].data).series
