"""A mutated table is read with its own values, or refused in one line."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.scaler import Scaler
from forecast.predict.forecaster import Forecaster
from forecast.tables.reading import Reading
from forecast.tables.roles import Roles
from forecast.tables.series import Series, read_series
from forecast.tables.times.clock import Clock
from tests.support import mutated
from tests.support.contracts import no_facts
from tests.support.mutated import BYTES, CELLS, COLUMNS, FORMS, PARQUET, Mutated
from tests.support.small import CONTEXT, HORIZON

ROLES = Roles(["load", "oil"], ["air"])
SCALER = Scaler(np.array([1000.0, -5.0, 20.0]), np.array([70.0, 0.07, 3.5]), COLUMNS)
CONTRACT = DataContract(ROLES, Reading("date", frequency="h"), Clock(None, "h"), SCALER, CONTEXT, HORIZON)


def read_trained(path: Path) -> Series:
    """Read a file as the model of a run does, whose network is not needed."""
    return Forecaster(lambda *_: pytest.fail("no forecast is asked for"), CONTRACT, no_facts()).read(path)


def read_untrained(path: Path) -> Series:
    """Read a file as a training does."""
    return read_series(path, ROLES)


def read(file: Mutated, trained: bool) -> pd.DataFrame | None:
    """Return the values that were read, None if the file was refused; fail if the reading is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_bytes(file.content)
        try:
            series = (read_trained if trained else read_untrained)(path)
        except InputError as error:
            refusal = str(error).replace(str(path), "")  # a command escapes the name of the file
            series = None
    if series is None:
        assert len(refusal.splitlines()) == 1
        return None
    frame = series.frame
    times = pd.DatetimeIndex(frame.index)
    assert times.is_monotonic_increasing
    assert times.is_unique
    assert np.isfinite(frame.to_numpy()).all()
    assert file.truth is not None, f"accepted: {frame.head()}, {series.notes}"
    assert series.observed is None  # no value was invented
    if not file.only_finite:
        assert list(times) == list(file.truth.index)
        np.testing.assert_array_equal(frame[COLUMNS], file.truth[COLUMNS])
    assert series.notes or not file.noted
    return frame


@pytest.mark.parametrize("kind", [*CELLS, *FORMS, *BYTES])
@given(data=st.data(), trained=st.booleans())
@settings(max_examples=5)
def test_a_mutated_csv_file_has_its_own_values_or_is_refused(kind: str, data: st.DataObject, trained: bool) -> None:
    read(data.draw(mutated.csv_files(trained, kind)), trained)


@pytest.mark.parametrize("kind", PARQUET)
@given(data=st.data(), trained=st.booleans())
@settings(max_examples=3)
def test_a_mutated_parquet_file_has_its_own_values_or_is_refused(kind: str, data: st.DataObject, trained: bool) -> None:
    read(data.draw(mutated.parquet_files(trained, kind)), trained)


@pytest.mark.exhaustive
@given(data=st.data(), trained=st.booleans())
@settings(max_examples=100)
def test_a_csv_file_with_several_mutations_has_its_own_values_or_is_refused(data: st.DataObject, trained: bool) -> None:
    read(data.draw(mutated.csv_files(trained)), trained)


@pytest.mark.exhaustive
@given(data=st.data(), trained=st.booleans())
@settings(max_examples=5000)
def test_any_csv_file_with_several_mutations_has_its_own_values_or_is_refused(
    data: st.DataObject, trained: bool
) -> None:
    read(data.draw(mutated.csv_files(trained)), trained)


@pytest.mark.parametrize("kind", ["a name of 300 letters", "a link to itself", "a folder", "a pipe"])
def test_a_path_that_is_no_file_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    """A name and a pipe ended in a traceback once."""
    path = tmp_path / ("x" * 300 + ".csv" if kind == "a name of 300 letters" else "my.csv")
    if kind == "a link to itself":
        path.symlink_to("my.csv")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    for reader in (read_trained, read_untrained):
        with pytest.raises(InputError) as caught:
            reader(path)
        assert "\n" not in str(caught.value)
