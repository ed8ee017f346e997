"""The future of targets and past covariates changes nothing; that of a known covariate changes the forecast."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData
from forecast.data.settings import DataSettings
from forecast.data.sources import Source, load_source
from forecast.evaluation.ridge import fit_ridge
from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from forecast.tables.repair import MISSING, Policies
from forecast.tables.roles import Roles
from forecast.tables.series import Series
from forecast.training.train import train
from tests.support.covariates import KNOWN, PAST, ROLES, TARGETS, table
from tests.support.covering import covering
from tests.support.kept import kept_run
from tests.support.reading import series_from_frame
from tests.support.small import CONTEXT, HORIZON, compose, quick, write

ROWS, FIRST_TEST = 700, 560
PAST_ROLES = [*TARGETS, *PAST]


def as_data(source: Source) -> ForecastData:
    data = ForecastData(
        source,
        {"train": 0.7, "validation": 0.1, "test": 0.2},
        context_length=CONTEXT,
        horizon=HORIZON,
        batch_size=16,
        evaluation_batch_size=64,
        seed=1,
    )
    data.total_steps = 20
    return data


def read(frame: pd.DataFrame, missing: str = "error") -> Series:
    return series_from_frame(
        frame,
        columns=[*TARGETS, *PAST, *KNOWN],
        covariates=[*PAST, *KNOWN],
        known=KNOWN,
        frequency="h",
        policies=Policies("error", missing),
    )


def poisoned(frame: pd.DataFrame, first: int, column: str, value: float) -> pd.DataFrame:
    """Return the table with a huge value, a label that training never saw, or nothing, from row `first` on."""
    copy = frame.copy()
    copy[column] = copy[column].astype(object)
    copy.loc[first:, column] = None if np.isnan(value) else ("never seen" if column in ("state", "kind") else value)
    return copy.infer_objects()


def fitted(data: ForecastData) -> dict[str, Any]:
    """Return all that is fitted or chosen from the data, and the batches before the test split."""
    ridge = fit_ridge(data.parts["train"], data.parts["validation"])
    batches = [*data.train_dataloader(), *data.val_dataloader()]
    return {
        "scaler": data.scaler.to_dict(),
        "encoder": data.encoder.to_dict(),
        "layout": data.layout,
        "cycles": data.cycles,
        "ridge": [ridge.weight.tolist(), ridge.known.tolist() if ridge.known is not None else None, ridge.penalty],
        "batches": [[_plain(part) for part in batch] for batch in batches],
        "static": data.static.tolist(),
    }


def _plain(part: torch.Tensor | None) -> bytes | None:
    """Return a part of a batch as bytes; a mask of measured values only is None, as if there were no mask."""
    if part is None or (part.dtype == torch.bool and bool(part.all())):
        return None
    return part.contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    ("column", "value", "missing"),
    covering([*PAST_ROLES, *KNOWN], [np.nan, 1e9], MISSING, every=len(MISSING)),
)
def test_the_test_split_changes_nothing_that_is_fitted(column: str, value: float, missing: str) -> None:
    if np.isnan(value) and missing == "error" and column not in ("state", "kind"):  # there empty is a label
        if column not in TARGETS:  # without both targets, the rows are no part of the series
            with pytest.raises(InputError, match="no value"):
                read(poisoned(table(), FIRST_TEST + 50, column, value))
        return
    if missing == "interpolate" and np.isnan(value):
        pytest.skip("a fill to the end repeats the last value, as with ffill")
    first = FIRST_TEST + CONTEXT
    bad = table()
    bad[column] = poisoned(table(), first, column, value)[column]
    sources = (Source(read(frame, missing), Roles(TARGETS, PAST, KNOWN)) for frame in (table(), bad))
    one, other = (fitted(as_data(source)) for source in sources)
    assert one == other


@pytest.fixture(scope="module")
def trained() -> Forecaster:
    """Return the forecaster of a small run with every role."""

    def make(folder: Path) -> None:
        words = ["data=csv", f"data.path={write(folder / 'table.csv', table())}", *ROLES, "model.linear_path=ridge"]
        train(quick(folder / "outputs", *words))

    return load(kept_run("roles", make)[0].path)


ORIGIN = 600


def test_the_future_of_targets_and_past_covariates_changes_no_forecast(trained: Forecaster) -> None:
    frame = table()
    wanted = trained.predict(frame.iloc[:ORIGIN], known=frame.iloc[ORIGIN:])
    for column in PAST_ROLES:
        for value in (np.nan, 1e30):
            bad = poisoned(frame, ORIGIN, column, value)
            known = bad.iloc[ORIGIN:]
            assert trained.predict(frame.iloc[:ORIGIN], known=known).equals(wanted), column


def test_the_future_of_targets_and_past_covariates_changes_no_window(trained: Forecaster) -> None:
    frame = table()
    clean = read(frame)
    wanted, _ = trained.context(clean, ORIGIN)
    for column in PAST_ROLES:
        other = "never seen" if column == "state" else 1e9
        bad = frame.copy()
        bad[column] = bad[column].astype(object)
        bad.loc[ORIGIN:, column] = other
        window, _ = trained.context(read(bad.infer_objects()), ORIGIN)
        for one, two in zip(wanted, window, strict=True):
            assert (one is None and two is None) or torch.equal(one, two), column


@pytest.mark.parametrize(("column", "value"), [("wind", 5.0), ("promo", True), ("kind", "b")])
def test_the_future_of_a_known_covariate_changes_the_forecast(trained: Forecaster, column: str, value: object) -> None:
    frame = table()
    wanted = trained.predict(frame.iloc[:ORIGIN], known=frame.iloc[ORIGIN:])
    changed = frame.iloc[ORIGIN:].copy()
    changed[column] = value
    forecast = trained.predict(frame.iloc[:ORIGIN], known=changed)
    assert (forecast - wanted).abs().to_numpy().max() > 1e-3


def test_python_warns_of_a_label_that_training_has_not_seen(trained: Forecaster) -> None:
    frame = table()
    future = frame.iloc[ORIGIN:].assign(kind="new")
    with pytest.warns(UserWarning, match=r"12 values of 'kind' not seen in training .*\(training has 'a', 'b', 'c'\)"):
        trained.predict(frame.iloc[:ORIGIN], known=future)


@pytest.mark.parametrize("role", ["known_covariates", "past_covariates"])
def test_a_known_column_that_is_the_target_moved_is_refused_before_training(tmp_path: Path, role: str) -> None:
    frame = table().assign(moved=lambda frame: frame["load"].shift(-3).ffill())
    data = compose(
        "data=csv", f"data.path={write(tmp_path / 'table.csv', frame)}", "data.targets=[load]", f"data.{role}=[moved]"
    )
    source = load_source(DataSettings.parse(data["data"]))

    if role == "past_covariates":
        as_data(source)  # its future is not read
        return
    with pytest.raises(InputError, match="'moved' is the target 'load' 3 steps later"):
        as_data(source)
