"""Training from Python: `forecast.fit(frame, horizon=48)` returns the model that `forecast.load` returns."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.conf_files import choice_files
from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.common.settings import options_of
from forecast.data.settings import FILE, DataSettings
from forecast.predict.ensemble import Ensemble, load
from forecast.predict.forecaster import Forecaster
from forecast.predict.input import described
from forecast.predict.panel import PanelForecaster
from forecast.runs.settings import Settings
from forecast.training.train import train

TABLE = "table.parquet"
"""The table of a run, in its folder."""

CHOICES = ("attention", "model", "experiment", "optimizer", "scheduler", "trainer")
"""Groups whose choice is one word."""


def fit(
    frame: Any,
    horizon: int | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    **options: Any,
) -> Forecaster | PanelForecaster:
    """Train a model on a table, and return it as `forecast.load` does.

    Parameters
    ----------
    frame
        A DataFrame of pandas, with the times in a column or in its index, or any table with `__arrow_c_stream__`, such
        as those of polars, DuckDB and pyarrow. A long table with ids gives a model of many series.
    horizon
        Steps to forecast; None: chosen for the table.
    folder
        The run folder, as the command `forecast train` writes it; None: a temporary one, removed with the model.
    verbose
        Print what the command prints, with a progress bar.
    options
        Options of the command line by their names: those of `data` as they are (`targets=["load"]`,
        `known_covariates=[…]`, `id_columns=["store"]`), a choice as a word (`attention="probsparse"`,
        `experiment="general"`), a group as a dict (`training={"max_time": "00:00:02:00"}`), and `context_length`,
        `seed`, `loss`, …

    Returns
    -------
    Forecaster or PanelForecaster
        The trained model. Its `result` has the scores, its `settings` all options.

    Raises
    ------
    InputError
        If the table or an option cannot be used.
    """
    table = as_frame(frame)
    with _run_folder(folder) as (place, temporary):
        table.to_parquet(place / TABLE, index=False)
        settings = _settings(place / TABLE, {"horizon": horizon, **options}, verbose=verbose)
        with nullcontext() if verbose else redirect_stdout(StringIO()), _called_the_frame(place / TABLE):
            run, _ = train(settings, folder=place)
        model = load(run.path)
    assert not isinstance(model, Ensemble)
    if temporary:
        weakref.finalize(model, shutil.rmtree, place, ignore_errors=True)
    return model


@contextmanager
def _run_folder(folder: str | os.PathLike[str] | None) -> Iterator[tuple[Path, bool]]:
    """Yield the run folder, and whether it is temporary; a folder of a training that failed is removed."""
    place = Path(tempfile.mkdtemp(prefix="forecast-")) if folder is None else Path(folder)
    if folder is not None and place.exists() and any(place.iterdir()):
        raise InputError(f"{place}: is not empty: choose a new folder")
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield place, folder is None
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


@contextmanager
def _called_the_frame(path: Path) -> Iterator[None]:
    """Name the table in messages as the user does."""
    try:
        yield
    except InputError as error:
        error.args = (str(error).replace(str(path), "the frame"),)
        raise


def as_frame(table: Any) -> pd.DataFrame:
    """Return a table as a DataFrame with the times in a column; raise InputError for another kind of object."""
    if isinstance(table, pd.Series):
        table = table.to_frame("value" if table.name is None else None)
    if not isinstance(table, pd.DataFrame):
        if not hasattr(table, "__arrow_c_stream__"):
            raise InputError(f"fit takes a table with a column of times: this is {described(table)}")
        import pyarrow

        table = pyarrow.table(table).to_pandas()
    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis(index="date" if table.index.name is None else table.index.name).reset_index()
    return pd.DataFrame(table.rename(columns=str))


def _settings(path: Path, options: Mapping[str, Any], *, verbose: bool) -> Settings:
    """Return the settings of a training on a file."""
    words, values = ["data=csv"], dict[str, Any]()
    of_data = {name for name, each in options_of(DataSettings).items() if each.applies_to(FILE)}
    for name, value in options.items():
        if name in CHOICES and isinstance(value, str):
            chosen = [file.stem for file in choice_files(name)]
            if value not in chosen:
                raise InputError(f"{name}={value!r}: choose one of {', '.join(chosen)}")
            words.append(f"{name}={value}")
        elif name in of_data:
            values.setdefault("data", {})[name] = value
        else:
            values[name] = value
    plain = plain_values(compose_words([*words, f"data.path={path}"]))
    plain["training"]["progress"] = verbose
    if unknown := [name for name in values if name not in plain]:
        raise InputError(f"{unknown[0]}: is not an option of a training: see `forecast train --help`")
    return Settings.parse(_merged(plain, {key: value for key, value in values.items() if value is not None}))


def _merged(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with other values; mappings are merged."""
    merged = dict(base)
    for key, value in values.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
