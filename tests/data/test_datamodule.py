from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.calendar import calendar_cycles, calendar_features
from forecast.data.datamodule import ForecastData
from forecast.data.panel import PanelData
from forecast.data.sources import Source
from forecast.data.storage import Placing
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import Series
from tests.support.reading import series_from_frame

SPLIT = {"train": 200, "validation": 50, "test": 50}


def frame(rows: int = 300) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=rows, freq="h", name="date")
    values = np.random.default_rng(0).standard_normal((rows, 3)) * [1, 10, 100] + [0, 50, -500]
    return pd.DataFrame(values, index=index, columns=["a", "b", "c"])


def make(table: pd.DataFrame | None = None, cycles: tuple[str, ...] | None = None, **changes: Any) -> ForecastData:
    series = Series(frame() if table is None else table, "h")
    options = {"context_length": 24, "horizon": 4, "batch_size": 16, "evaluation_batch_size": 32, "seed": 1, **changes}
    return ForecastData(Source(series, Roles(["c", "a"], ["b"]), cycles=cycles), SPLIT, **options)


def test_targets_come_first_and_are_z_scores_of_the_training_rows() -> None:
    data, table = make(), frame()
    train = table.iloc[:200]
    expected = ((table - train.mean()) / train.std(ddof=0))[["c", "a", "b"]]
    np.testing.assert_allclose(data.parts["train"].values.numpy(), expected.to_numpy(), atol=1e-5)
    np.testing.assert_allclose(data.target_scale, train.std(ddof=0)[["c", "a"]])
    assert (data.sizes["num_targets"], data.sizes["num_past_covariates"]) == (2, 1)


def test_rows_after_the_training_part_change_neither_scaler_nor_calendar_nor_an_earlier_row() -> None:
    table = frame()
    table.iloc[200:] = 1e13
    hostile, clean = make(table), make()
    assert hostile.scaler.to_dict() == clean.scaler.to_dict()
    assert hostile.cycles == clean.cycles
    first, second = hostile.parts["train"], clean.parts["train"]
    assert torch.equal(first.values[:200], second.values[:200])
    assert torch.equal(first.known, second.known)


def test_the_padding_of_a_panel_counts_as_no_row() -> None:
    table = pd.concat([frame(rows).reset_index().assign(unique_id=rows) for rows in (300, 290)])
    series = series_from_frame(table)
    sizes = {"context_length": 24, "horizon": 4, "batch_size": 16, "evaluation_batch_size": 32, "seed": 1}
    data = PanelData(Source(series, Roles(["c", "a"], ["b"], ids=["unique_id"])), SPLIT, **sizes)
    assert len(data.index) > 590
    assert data.source.series.num_rows == 590


@pytest.mark.parametrize("context_length", [1, 24, 100])
def test_the_first_target_of_validation_and_test_is_the_same_at_every_context(context_length: int) -> None:
    data = make(context_length=context_length)
    for part, first in (("validation", 200), ("test", 250)):
        windows = data.parts[part]
        assert len(windows) == 47
        assert int(windows.batch(torch.tensor([0])).origin) == first


def test_validation_reads_every_window_in_the_declared_number_of_batches() -> None:
    loader = make().val_dataloader()
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert torch.cat([batch.origin for batch in batches]).tolist() == list(range(200, 247))


def test_training_draws_only_training_windows_for_the_length_of_the_run() -> None:
    data = make()
    data.total_steps = 30
    origins = torch.cat([batch.origin for batch in data.train_dataloader()])
    assert len(origins) == 30 * 16
    assert int(origins.min()) == 24
    assert int(origins.max()) == 196
    other = make(seed=2)
    other.total_steps = 30
    assert not torch.equal(torch.cat([batch.origin for batch in other.train_dataloader()]), origins)


def test_moving_the_data_keeps_the_table_shared_and_its_masks() -> None:
    data = make()
    observed = torch.ones(300, 3, dtype=torch.bool)
    data.parts = {part: replace(windows, observed=observed) for part, windows in data.parts.items()}
    data.to(torch.device("meta"))
    moved = list(data.parts.values())
    assert all(windows.values is moved[0].values and windows.observed is moved[0].observed for windows in moved)
    assert moved[0].observed is not None
    assert {windows.starts.device.type for windows in moved} == {"meta"}


def gappy(missing: str, table: pd.DataFrame | None = None, **changes: Any) -> ForecastData:
    """Return the data of a table with rows 100 to 109, 220 and 260 absent and a cell of row 30 empty."""
    whole = (frame() if table is None else table).copy()
    whole.iloc[30, 1] = np.nan
    series = series_from_frame(
        whole.drop(index=whole.index[[*range(100, 110), 220, 260]]), policies=Policies("mean", missing)
    )
    options = {"context_length": 24, "horizon": 4, "batch_size": 16, "evaluation_batch_size": 32, "seed": 1, **changes}
    return ForecastData(Source(series, Roles(["c", "a"], ["b"])), SPLIT, **options)


@pytest.mark.parametrize("missing", ["ffill", "interpolate", "mask"])
def test_filled_cells_are_marked_in_the_order_of_the_columns(missing: str) -> None:
    data = gappy(missing)
    observed = data.parts["test"].observed
    assert observed is not None
    wanted = np.ones((300, 3), dtype=bool)
    wanted[[*range(100, 110), 220, 260]] = False
    wanted[30, 2] = False  # column b, the covariate, comes last
    np.testing.assert_array_equal(observed.numpy(), wanted)
    assert {part.past_masked for part in data.parts.values()} == {missing == "mask"}


@pytest.mark.parametrize("missing", ["ffill", "mask", "interpolate"])
@pytest.mark.parametrize("context_length", [1, 24])
def test_windows_with_a_fill_that_depends_on_the_future_are_left_out(missing: str, context_length: int) -> None:
    data = gappy(missing, context_length=context_length)
    gaps = {101, *range(102, 111), 31, 221, 261} if missing == "interpolate" else set()
    for part, rows in vars(data.split).items():
        origins = data.parts[part].starts + context_length
        possible = set(range(max(rows.start, context_length), rows.stop - 3))
        assert origins.tolist() == sorted(possible - gaps)
        assert data.left_out[part] == len(possible & gaps)
    note = "windows left out because their context ends in a gap: 11 train, 1 validation, 1 test"
    assert (note in data.notes) == (missing == "interpolate")
    assert data.notes[0].startswith(f"12 missing rows and 1 row with empty cells filled (data.missing={missing}): ")


@pytest.mark.parametrize("missing", ["ffill", "mask", "interpolate"])
def test_the_scaler_is_fitted_on_measured_training_values(missing: str) -> None:
    table = frame()
    seen = np.ones((300, 3), dtype=bool)
    seen[100:110] = seen[30, 1] = False
    train = table.where(seen).iloc[:200]
    data = gappy(missing)
    np.testing.assert_allclose(data.target_scale, train.std(ddof=0)[["c", "a"]])
    np.testing.assert_allclose(data.scaler.mean, train.mean()[["c", "a", "b"]])


def test_the_manifest_says_how_the_data_were_repaired() -> None:
    facts = gappy("mask").contract().to_dict()["data"]
    assert (facts["duplicates"], facts["missing"]) == ("mean", "mask")
    facts = make().contract().to_dict()["data"]
    assert (facts["duplicates"], facts["missing"]) == ("error", "error")


def test_a_split_without_a_measured_target_is_refused() -> None:
    table = frame()
    table.iloc[199:250, 0] = np.nan
    with pytest.raises(InputError, match="the validation split has no measured value of 'a' to forecast"):
        gappy("ffill", table)
    with pytest.raises(InputError, match="windows of the validation split ends in a gap"):
        gappy("interpolate", table)


@pytest.mark.parametrize("key", ["context_length", "horizon", "batch_size", "evaluation_batch_size"])
def test_a_size_below_1_is_refused_by_name(key: str) -> None:
    with pytest.raises(InputError, match=f"{key} 0: must be at least 1"):
        make(**{key: 0})


def test_a_split_without_a_window_is_refused_with_the_rows_it_needs() -> None:
    with pytest.raises(InputError, match="validation split needs at least 51 rows and has 50"):
        make(horizon=51)


@pytest.mark.parametrize("missing", ["error", "mask", "interpolate"])
def test_a_mapped_table_equals_the_one_in_memory_and_is_shared_by_the_splits(missing: str, tmp_path: Path) -> None:
    placing = Placing("mapped", folder=tmp_path)
    make_it = make if missing == "error" else lambda **options: gappy(missing, **options)
    held, mapped = make_it(), make_it(placing=placing)
    assert mapped.address is not None
    assert held.address is None
    mapped.to(torch.device("cpu"))
    for part, windows in mapped.parts.items():
        for name in ("values", "known", "observed", "starts"):
            ours, theirs = getattr(held.parts[part], name), getattr(windows, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or torch.equal(ours, theirs)
        assert windows.values is mapped.parts["train"].values
        assert windows.mapped_for == torch.device("cpu")
    held.total_steps = mapped.total_steps = 9
    held.first_step = mapped.first_step = 4
    for ours, theirs in zip(held.train_dataloader(), mapped.train_dataloader(), strict=True):
        assert torch.equal(ours.past, theirs.past)
        assert torch.equal(ours.origin, theirs.origin)


def test_the_calendar_comes_from_the_training_split_unless_it_is_set() -> None:
    assert make().cycles == calendar_cycles("h", pd.Timedelta(hours=SPLIT["train"]))
    data = make(cycles=("day_of_year", "hour_of_day"))
    assert data.sizes["num_known"] == 4
    assert data.contract().to_dict()["data"]["cycles"] == ["day_of_year", "hour_of_day"]
    features = calendar_features(data.index, ["day_of_year", "hour_of_day"])
    np.testing.assert_array_equal(data.parts["train"].known, features)


@pytest.mark.parametrize("value", [9.97e36, -9.97e36])
def test_a_value_whose_square_overflows_float32_is_named(value: float) -> None:
    """The fill value of netCDF; in the test split it would also dominate every score."""
    table = frame()
    table.iloc[250, 1] = value
    with pytest.raises(InputError, match=r"^column 'b', .*: -?9\.97e\+36 is .*e\+3\d standard deviations of the train"):
        make(table)


def known(table: pd.DataFrame, missing: str = "error", categorical: tuple[str, ...] = ()) -> ForecastData:
    """Return the data of a table with the target `a` and the known covariate `k`."""
    series = series_from_frame(
        table.reset_index(),
        columns=["a", "k"],
        covariates=["k"],
        known=["k"],
        categorical=categorical,
        policies=Policies("mean", missing),
    )
    return ForecastData(
        Source(series, Roles(["a"], known=["k"])),
        SPLIT, context_length=24, horizon=4, batch_size=16, evaluation_batch_size=32, seed=1,
    )  # fmt: skip


@pytest.mark.parametrize("missing", ["error", "mask"])
def test_a_target_without_a_change_in_training_is_named(missing: str) -> None:
    table = frame()
    table.iloc[:200, 2] = 7.0
    data = make(table) if missing == "error" else gappy(missing, table)
    assert [note for note in data.notes if "'c' is 7 in all training rows: no MASE" in note]
    assert not [note for note in data.notes if "'a' is" in note]


@pytest.mark.parametrize("missing", ["ffill", "interpolate", "mask"])
@pytest.mark.parametrize("gaps", [[50], [30, 90, 91, 150]])
def test_a_copy_of_the_target_is_refused_although_cells_were_filled(missing: str, gaps: list[int]) -> None:
    table = frame()[["a"]].assign(k=frame()["a"])
    table.iloc[gaps, 0] = np.nan
    with pytest.raises(InputError, match="column 'k' is the target 'a', so its future contains the answer"):
        known(table, missing)


def test_labels_that_are_the_values_of_the_target_are_refused() -> None:
    counts = np.random.default_rng(3).integers(0, 12, 300)
    table = frame()[[]].assign(a=counts.astype(float), k=np.roll(counts, -2))
    with pytest.raises(InputError, match="column 'k' is the target 'a' 2 steps later"):
        known(table, categorical=("k",))


def test_a_gap_of_a_known_number_keeps_the_last_value_so_that_no_later_row_is_read() -> None:
    """A line over the end of a horizon would know the value after the gap, which a forecast cannot."""
    table = frame()[["a"]].assign(k=np.arange(300.0))
    table.iloc[100:110, 1] = np.nan
    data = known(table, "interpolate")
    column = data.parts["train"].known[:, -1].numpy()
    np.testing.assert_array_equal(column[100:110], column[99])
    assert column[110] > column[109]
