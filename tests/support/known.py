"""Tables with every role, future rows of them, and small runs that read known covariates."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.predict.__main__ import main as predict
from forecast.training.train import train
from tests.support.forecasts import dated
from tests.support.small import HORIZON, quick, write

TARGETS, PAST = ["load", "oil"], ["air", "state"]
KNOWN = ["wind speed", "promo", "kind", "tariff"]
ORIGIN = 240
"""Row of the first forecast value."""

FEW = ORIGIN - 60
"""First row of input files, which are short to save time."""

Make = Callable[[], pd.DataFrame]
"""A function without arguments that makes a table."""


def whole(rows: int = 300) -> pd.DataFrame:
    """Return hourly loads that answer to numbers, a boolean, a label and a numbered label."""
    generator = np.random.default_rng(0)
    hour = np.arange(rows)
    wind, air, noise, other = generator.standard_normal((4, rows))
    promo, tariff = generator.random(rows) < 0.3, generator.choice([1, 2, 3], rows)
    kind, state = generator.choice(["a", "b", "c"], rows), generator.choice(["on", "off"], rows)
    effect = 2 * wind + 3 * promo + np.where(kind == "a", 2, 0) + tariff
    return pd.DataFrame(
        {
            "date": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "load": 100 + 10 * np.sin(hour * np.pi / 12) + effect + 0.1 * noise,
            "oil": 5 + np.cos(hour * np.pi / 12) - effect + 0.1 * other,
            "air": air,
            "state": state,
            "wind speed": wind,
            "promo": promo,
            "kind": kind,
            "tariff": tariff,
        }
    )


def past() -> pd.DataFrame:
    """Return the rows before the forecast."""
    return whole().iloc[:ORIGIN]


def future(rows: int = HORIZON) -> pd.DataFrame:
    """Return the known covariates of the rows from the forecast on."""
    return whole().iloc[ORIGIN : ORIGIN + rows].reset_index(drop=True)[["date", *KNOWN]]


DATES = pd.DatetimeIndex(future()["date"])
"""Times of the forecast."""


def extended(rows: int = HORIZON) -> pd.DataFrame:
    """Return the past, and rows with known covariates only."""
    table = whole().iloc[: ORIGIN + rows].copy()
    table.loc[ORIGIN:, [*TARGETS, *PAST]] = np.nan
    return table


def replaced(make: Make, row: int, column: str, cell: object) -> Make:
    """Return a function that makes the table with another cell."""

    def changed() -> pd.DataFrame:
        table = make().copy()
        table[column] = table[column].astype(object)
        table.loc[row, column] = cell
        return table

    return changed


def recoded(make: Make, column: str, change: Callable[[object], object]) -> Make:
    """Return a function that makes the table with other cells in one column."""
    return lambda: make().assign(**{column: make()[column].map(change)})


def train_known(folder: Path, *words: str, model: str = "patch_informer") -> Path:
    """Train a few steps on the table with every role, and return the run folder."""
    folder.mkdir(exist_ok=True)
    source = write(folder / "table.csv", whole())
    roles = [f"data.past_covariates=[{','.join(PAST)}]", f"data.known_covariates=[{','.join(KNOWN)}]"]
    if model == "patch_informer":
        roles.append("data.static_covariates={region:{load:north,oil:south}}")
    data = ["data=csv", f"data.path={source}", *roles, "data.categorical=[tariff]"]
    config = quick(folder / "outputs", *data, "training.max_steps=4", *words, model=model)
    return Path(train(config)[0].path)


def save(path: Path, table: pd.DataFrame) -> Path:
    """Write the table as Parquet or CSV, by the ending of the path."""
    if path.suffix != ".parquet":
        return write(path, table)
    table.to_parquet(path)
    return path


def run_predict(run: Path, folder: Path, source: pd.DataFrame, *known: Path) -> tuple[int, set[str]]:
    """Run `predict` on files in `folder`; return the exit code and the names of the files that it made."""
    given = save(folder / "input.csv", source)
    before = {path.name for path in folder.iterdir()}
    words = ["--run", str(run), "--input", str(given), "--output", str(folder / "out.csv")]
    code = predict([*words, *(word for path in known for word in ("--known", str(path)))])
    return code, {path.name for path in folder.iterdir()} - before


def check_forecast(path: Path, expected: pd.DataFrame) -> None:
    """Assert that a forecast file has these values at the times of the forecast."""
    actual = dated(path)
    assert list(actual.columns) == TARGETS
    assert actual.index.name == "date"
    assert list(actual.index) == list(DATES)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line on the standard error, which must be an error of the program."""
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error.rstrip()
