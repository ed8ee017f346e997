"""Forecasts of a folder of series: blocks of ids, each forecast by one pure function and written whole."""

import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from forecast.common.errors import InputError
from forecast.common.files import folder_lock, read_json, write_json
from forecast.predict.ensemble import load
from forecast.predict.forecast import Question
from forecast.predict.known import MissingKnown
from forecast.predict.panel import BATCH, PanelForecaster
from forecast.tables.blocks import MOST_FILES, count_rows, read_block, sort_into
from forecast.tables.formats.folders import Folder
from forecast.tables.panel import Id, first_of, shown_id
from forecast.tables.writing import write_table

if TYPE_CHECKING:
    pass

CONTENT = "_blocks.json"
"""File of the output folder that says what its forecasts are of; readers of Parquet folders pass over it."""

_SORTED = ".sorted"

_loaded = lru_cache(maxsize=2)(load)


def predict_frame(
    path: str | os.PathLike[str],
    frame: pd.DataFrame,
    *,
    levels: Sequence[float] = (),
    quantile: float | None = None,
    beyond_training: bool = False,
) -> pd.DataFrame:
    """Forecast the steps after a table, or after each series of a long one, as `predict` of the loaded model does.

    A pure function for engines that pass frames to workers, such as Spark's `mapInPandas`. Each process loads the model
    once. The series are forecast in batches of one size, the last one filled up, so that a forecast does not depend on
    the number of series in the frame.

    Parameters
    ----------
    path
        Folder of a finished run, as for `load`.
    frame
        Table in original units, with the columns of training. A long table has all rows of its series.
    levels, quantile, beyond_training
        As for `Forecaster.predict`.

    Returns
    -------
    pandas.DataFrame
        A row for each step, with the ids and the time as columns.

    Raises
    ------
    InputError
        As `Forecaster.predict` and `PanelForecaster.predict`.
    UserWarning
        A warning, not an error: if a series is left out.
    """
    question = Question(tuple(levels), quantile, False, beyond_training)
    table, left_out = _forecast(str(path), frame, question, "the frame", BATCH)
    for line in left_out:
        warnings.warn(line, UserWarning, stacklevel=2)
    return table


def _forecast(
    path: str, frame: pd.DataFrame, question: Question, source: str, batch: int
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the forecast of a table, and lines on series that are left out."""
    model = _loaded(path)
    if not isinstance(model, PanelForecaster):
        return model.forecast_of(frame, None, question)[1].wide().reset_index(), ()
    found = model.answer(model.checked(frame, source), question, batch=batch)
    return found.table(model.decimals, naive=False, whole=model.whole), found.ids.left_out


@dataclass(frozen=True)
class Blocks:
    """The forecasts of the series in a folder, in files of the folder `output`, one for each block of ids.

    `run` is the folder of the model, and `batch` the number of series that are forecast together. A block has one or
    more batches.
    """

    run: str
    source: str
    output: str
    question: Question
    batch: int = BATCH

    def write(self, number: int) -> None:
        """Forecast the series of a block and write its file; one thread, so that all engines write the same bytes."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            frame = read_block(Path(self.output) / _SORTED, number)
            table, _ = _forecast(self.run, frame, self.question, f"{self.source}, block {number}", self.batch)
        except MissingKnown as error:
            raise InputError(str(error)) from None  # its template cannot leave a worker
        finally:
            torch.set_num_threads(threads)
        write_table(self.file(number), table, index=False)

    def file(self, number: int) -> Path:
        """Return the file of a block."""
        return Path(self.output) / f"part-{number:05d}.parquet"

    def forecast(self, engine: str, workers: int | None, address: str | None) -> tuple[int, int, int, str | None]:
        """Forecast the blocks without a file; return the number of series, of blocks and of those forecast now.

        The last value is a line on series that are left out; None without any.
        """
        output, folder, model = Path(self.output), Folder(Path(self.source)), _loaded(self.run)
        if not isinstance(model, PanelForecaster):
            raise InputError(f"--output {self.output}: a folder, but the model has one series: name a file")
        model.check_question(self.question)
        ids = model.contract.roles.ids
        output.mkdir(parents=True, exist_ok=True)
        with folder_lock(output, doing="writing"):
            self._check_output(folder, model)
            names = list(count_rows(folder, ids))
            size = self.batch * -(-len(names) // (self.batch * MOST_FILES))
            blocks = {name: place // size for place, name in enumerate(names)}
            count = -(-len(names) // size)
            wanted = [number for number in range(count) if not self.file(number).is_file()]
            place = output / _SORTED
            shutil.rmtree(place, ignore_errors=True)  # of a killed run
            place.mkdir()
            try:
                if wanted:
                    sort_into(folder, place, ids, blocks, wanted)
                self._run(wanted, engine, workers, address)
            finally:
                shutil.rmtree(place, ignore_errors=True)
        short = self._without_forecast(names, model)
        named = first_of([shown_id(ids, name) for name in short])
        line = f"{len(short):,} of {len(names):,} series have fewer than {model.least_context} rows: {named}: left out"
        return len(names) - len(short), count, len(wanted), line if short else None

    def _without_forecast(self, names: Sequence[Id], model: PanelForecaster) -> list[Id]:
        """Return the series that have no forecast in the output folder, since they are too short."""
        if not model.contract.drops_short:
            return []
        written = count_rows(Folder(Path(self.output)), model.contract.roles.ids)
        return [name for name in names if name not in written]

    def _run(self, wanted: Sequence[int], engine: str, workers: int | None, address: str | None) -> None:
        if engine == "ray" and wanted:
            from forecast.predict.on_ray import run_on_ray  # here: ray is an extra, and takes seconds to import

            run_on_ray(self.write, wanted, workers, address)
            return
        for number in wanted:
            self.write(number)

    def _check_output(self, folder: Folder, model: PanelForecaster) -> None:
        """Say in the output folder what its forecasts are of; refuse a folder with forecasts of something else."""
        content: dict[str, Any] = {
            "weights": model.facts.weights,
            "question": asdict(self.question),
            "input": folder.fingerprint(),
        }
        content["question"]["levels"] = list(self.question.levels)
        path = Path(self.output) / CONTENT
        earlier: Any = read_json(path)
        if earlier is None and any(Path(self.output).glob("*.parquet")):
            raise InputError(f"{self.output}: has other .parquet files: choose another --output")
        if earlier not in (None, content):
            raise InputError(
                f"{self.output}: has forecasts of another model, input or option: choose another --output, or remove it"
            )
        write_json(path, content)
