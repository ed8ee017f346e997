"""The windows of a panel: which there are, what they read, and what their scales know."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData
from forecast.data.panel import PanelData
from forecast.data.sources import Source
from forecast.data.windows import Batch
from forecast.evaluation.baselines import SeasonalNaive
from forecast.evaluation.scoring import limits_of_data, units_of
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.run import Architecture
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import series_from_frame as read
from tests.support.panels import long_table
from tests.support.reading import Reading
from tests.support.small import SMALL, compose

SPLIT = {"train": 0.6, "validation": 0.2, "test": 0.2}
LENGTHS = {"a": 200, "b": 150, "c": 180}
CONTEXT, HORIZON, LEAST = 16, 4, 6
OPTIONS = {"context_length": CONTEXT, "horizon": HORIZON, "batch_size": 8, "evaluation_batch_size": 32, "seed": 1}
ROLES = Roles(["y"], ids=["unique_id"])


def make(table: pd.DataFrame, roles: Roles = ROLES, missing: str = "error", **changes: Any) -> PanelData:
    series = read(table, roles, Reading(policies=Policies(missing=missing)), "mine.csv", keeps_ids=True)
    options = {**OPTIONS, "least_context": LEAST, **changes}
    return PanelData(Source(series, roles), options.pop("split", SPLIT), **options)


def plain(table: pd.DataFrame, **changes: Any) -> ForecastData:
    roles = Roles(["y"])
    return ForecastData(Source(read(table, roles), roles), SPLIT, **{**OPTIONS, **changes})


def whole(data: ForecastData, part: str) -> Batch:
    """Return all windows of a split as one batch."""
    return data.parts[part].batch(torch.arange(len(data.parts[part])))


def network_of(data: ForecastData) -> Informer:
    """Return a small model with fresh weights for the data."""
    torch.manual_seed(0)
    config = compose(
        "model=patch_informer", *SMALL["patch_informer"], "model.patch_length=4", "model.linear_path=ridge"
    )
    options, attention = dict(config["model"]), dict(config["attention"])
    mechanisms = Mechanisms(encoder=attention, decoder=attention, cross=dict(config["cross_attention"]))
    sizes = Sizes(**data.sizes, quantiles=[])
    return Architecture(options.pop("name"), options, mechanisms, sizes).build().eval()


def origins(data: PanelData, part: str) -> list[tuple[str, pd.Timestamp]]:
    """Return the id and the date of each window of a split, sorted."""
    batch = whole(data, part)
    assert batch.series is not None
    names = [data.ids.names[place][0] for place in batch.series.tolist()]
    return sorted(zip(names, data.index[batch.origin.numpy()], strict=True))


def expected_origins(table: pd.DataFrame, part: str, *, by_end: bool) -> list[tuple[str, pd.Timestamp]]:
    """Return the id and the date of each window of a split, one by one."""
    groups = {name: list(group["ds"]) for name, group in table.groupby("unique_id")}
    clock = list(pd.date_range(table["ds"].min(), table["ds"].max(), freq="h"))
    most = max(map(len, groups.values())) if by_end else len(clock)
    train, validation = int(most * 0.6), int(most * 0.2)
    bounds = {"train": (0, train), "validation": (train, train + validation), "test": (train + validation, most)}
    start, stop = bounds[part]
    found = []
    for name, dates in groups.items():
        for row, date in enumerate(dates):
            step = most - len(dates) + row if by_end else clock.index(date)
            if row >= LEAST and row + HORIZON <= len(dates) and start <= step and step + HORIZON <= stop:
                found.append((name, date))
    return sorted(found)


@pytest.mark.parametrize("part", ["train", "validation", "test"])
@pytest.mark.parametrize("split_by", ["date", "end"])
@pytest.mark.parametrize("ends_alike", [False, True], ids=["starts alike", "ends alike"])
def test_each_origin_with_enough_rows_of_its_own_series_is_a_window(part: str, split_by: str, ends_alike: bool) -> None:
    table = long_table(LENGTHS, ends_alike=ends_alike)
    data = make(table, split_by=split_by)
    assert origins(data, part) == expected_origins(table, part, by_end=split_by == "end")
    steps = data.parts[part].steps
    assert torch.equal(steps, steps.sort().values)


def test_windows_read_their_own_series_alone_and_hide_the_padding() -> None:
    table = long_table(LENGTHS, ends_alike=True)
    data = make(table)
    batch = whole(data, "train")
    assert batch.series is not None
    assert batch.past_observed is not None
    past = data.series_scaler.inverse(batch.past.numpy(), batch.series.numpy())[..., 0]
    groups = {name: own.set_index("ds")["y"] for name, own in table.groupby("unique_id")}
    for row, (place, origin) in enumerate(zip(batch.series.tolist(), batch.origin.tolist(), strict=True)):
        own = groups[data.ids.names[place][0]]
        before = own.to_numpy()[own.index < data.index[origin]][-CONTEXT:]
        seen = batch.past_observed[row, :, 0].numpy()
        assert seen.sum() == len(before)
        np.testing.assert_allclose(past[row][seen], before, rtol=1e-5)
        np.testing.assert_allclose(past[row][~seen], own.iloc[0], rtol=1e-5)


def test_a_panel_of_one_id_has_the_windows_of_the_table_without_it() -> None:
    table = long_table({"a": 200})
    one, other = make(table, least_context=CONTEXT), plain(table.drop(columns="unique_id"))
    np.testing.assert_allclose(one.series_scaler.mean[0], other.scaler.mean)
    np.testing.assert_allclose(one.series_scaler.scale[0], other.scaler.scale)
    for part in ("train", "validation", "test"):
        for mine, theirs in zip(whole(one, part)[:-2], whole(other, part)[:-2], strict=True):
            if mine is None or theirs is None:
                assert mine is theirs
            else:
                torch.testing.assert_close(mine, theirs)


def test_rows_and_ids_in_another_order_give_the_same_windows() -> None:
    table = long_table(LENGTHS)
    one, other = make(table), make(table.sample(frac=1, random_state=0))
    for part in ("train", "validation", "test"):
        for mine, theirs in zip(whole(one, part), whole(other, part), strict=True):
            assert (mine is None and theirs is None) or torch.equal(mine, theirs)


def test_the_long_form_of_a_wide_table_has_its_windows_and_its_forecasts_from_the_same_weights() -> None:
    lengths = dict.fromkeys("abc", 200)
    table = long_table(lengths)
    panel = make(table, least_context=CONTEXT)
    wide = table.pivot(index="ds", columns="unique_id", values="y").reset_index()
    roles = Roles(list("abc"))
    other = ForecastData(Source(read(wide, roles), roles), SPLIT, **OPTIONS)
    networks = [network_of(data) for data in (panel, other)]
    networks[1].load_state_dict(networks[0].state_dict())
    for part in ("train", "validation", "test"):
        long_batch, wide_batch = whole(panel, part), whole(other, part)
        assert long_batch.series is not None
        with torch.inference_mode():
            forecasts = [
                network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
                for network, batch in zip(networks, (long_batch, wide_batch), strict=True)
            ]
        for place in range(3):
            own = long_batch.series == place
            torch.testing.assert_close(forecasts[0][own][..., 0], forecasts[1][..., place], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(long_batch.past[own][..., 0], wide_batch.past[..., place])
            torch.testing.assert_close(long_batch.future[own][..., 0], wide_batch.future[..., place])
            torch.testing.assert_close(long_batch.past_known[own], wide_batch.past_known)


@pytest.mark.parametrize("most", [1, 9, 30, 1000])
def test_a_budget_keeps_the_same_origins_of_all_series_the_last_one_included(most: int) -> None:
    table = long_table(LENGTHS, ends_alike=True)
    data, every = make(table, most_windows=most), make(table)
    kept, possible = origins(data, "test"), origins(every, "test")
    dates = sorted({date for _, date in kept})
    assert kept == [pair for pair in possible if pair[1] in dates]
    assert len(kept) <= max(most, 3)
    assert dates[-1] == max(date for _, date in possible)
    assert len(set(np.diff(np.array(dates, dtype="datetime64[h]")).tolist())) <= 1
    noted = [note for note in data.notes if note.startswith("test: ")]
    assert len(noted) == (len(kept) < len(possible))
    assert all("training.evaluation_windows" in note and f"{len(dates)} of" in note for note in noted)


SHORT: list[tuple[dict[str, int], str]] = [
    ({"a": 200, "b": LEAST + HORIZON - 1}, "unique_id 'b' (9 rows, 9 in training)"),
    ({"a": 200, "b": 1, "c": 2, "d": 3, "e": 4}, "4 of 5 series have fewer than 10 rows"),
]


@pytest.mark.parametrize(("lengths", "words"), SHORT)
def test_short_series_are_named_and_left_out_only_if_asked_for(lengths: dict[str, int], words: str) -> None:
    table = long_table(lengths)
    with pytest.raises(InputError) as caught:
        make(table)
    assert words in str(caught.value)
    assert "data.short_series=drop" in str(caught.value)
    data = make(table, drops_short=True)
    assert data.ids.names == (("a",),)
    assert any(words in note and "left out (data.short_series=drop)" in note for note in data.notes)


def test_a_series_of_one_window_is_long_enough() -> None:
    assert len(make(long_table({"a": 200, "b": LEAST + HORIZON})).ids) == 2


def test_a_series_that_begins_after_training_is_refused_or_left_out() -> None:
    table = pd.concat([long_table({"a": 200}), long_table({"late": 50}, start="2024-01-07")])
    with pytest.raises(InputError, match=r"unique_id 'late' \(50 rows, 0 in training\)"):
        make(table)
    assert make(table, drops_short=True).ids.names == (("a",),)


def test_a_series_without_values_is_refused_or_left_out() -> None:
    table = long_table(LENGTHS).assign(y=lambda t: t["y"].mask(t["unique_id"] == "b"))
    with pytest.raises(InputError, match=r"1 of 3 series .*unique_id 'b' \(no target value\)"):
        make(table)
    assert make(table, drops_short=True).ids.names == (("a",), ("c",))


def test_a_series_without_a_training_value_of_one_target_is_refused() -> None:
    table = long_table(LENGTHS).assign(z=lambda t: t["y"].mask((t["unique_id"] == "b") & (t.index < 330)))
    with pytest.raises(InputError, match=r"unique_id 'b' \(150 rows, 0 in training\)"):
        make(table, Roles(["y", "z"], ids=["unique_id"]), "mask")


def test_series_that_no_longer_train_once_a_short_one_is_left_out_are_left_out_too() -> None:
    middle, late = long_table({"middle": 100}), long_table({"late": 30}, start="2024-01-03 22:00")
    table = pd.concat([middle, late, long_table({"far": 5}, start="2024-01-09")])  # without it, training ends earlier
    data = make(table, drops_short=True)
    assert data.ids.names == (("middle",),)
    assert (data.series_scaler.scale > 0).all()


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_target_that_a_split_never_measures_is_refused(part: str) -> None:
    table = long_table(LENGTHS)
    first = {"validation": 120, "test": 160}[part]
    hidden = table["ds"].between(*(table["ds"].min() + pd.Timedelta(hours=first + hours) for hours in (0, 39)))
    table = table.assign(z=table["y"].mask(hidden))
    with pytest.raises(InputError, match=f"the {part} split has no measured value of 'z' to forecast"):
        make(table, Roles(["y", "z"], ids=["unique_id"]), "mask")


def test_windows_whose_fill_depends_on_the_future_are_left_out_or_refused() -> None:
    table = long_table(LENGTHS)
    hours = table["ds"].dt.hour
    some = make(table.assign(y=table["y"].mask((hours == 7) & (table["ds"].dt.day == 4))), missing="interpolate")
    assert some.left_out["train"] == 3
    every = table.assign(z=table["y"].mask(hours % 2 == 1), y=table["y"].mask(hours % 2 == 0))
    with pytest.raises(InputError, match=r"each of the \d+ windows of the train split ends in a gap"):
        make(every, Roles(["y", "z"], ids=["unique_id"]), "interpolate")


def test_no_window_at_all_is_one_line() -> None:
    with pytest.raises(InputError, match="have fewer than 10 rows"):
        make(long_table({"a": 9, "b": 8}), drops_short=True)


@pytest.mark.parametrize("split_by", ["date", "end"])
@pytest.mark.parametrize("context_length", [CONTEXT, 60])
def test_no_training_target_is_before_the_first_origin(split_by: str, context_length: int) -> None:
    table = long_table(LENGTHS, ends_alike=True)
    every, later = (
        make(table, split_by=split_by, context_length=context_length, first_origin=first) for first in (None, 70)
    )
    targets, kept = (data.parts["train"].steps + context_length for data in (every, later))
    assert int(targets.min()) == LEAST
    assert torch.equal(kept, targets[targets >= 70])
    for part in ("validation", "test"):
        assert torch.equal(every.parts[part].starts, later.parts[part].starts)
    assert every.series_scaler.to_dict() == later.series_scaler.to_dict()


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (5, "before step 6: set at least 6, or null for the first possible step"),
        (117, "ends with step 119: set at most 116, 4 steps before its end"),
    ],
)
def test_a_first_origin_without_a_window_is_refused_with_its_bound(first: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(long_table(LENGTHS), first_origin=first)


def test_a_split_that_asks_for_too_much_counts_steps() -> None:
    with pytest.raises(InputError, match="250 steps are requested, the table has 200: lower the counts"):
        make(long_table(LENGTHS), split={"train": 150, "validation": 50, "test": 50})


POISONS: dict[str, tuple[str, Any]] = {
    "a target, huge": ("y", 1e9),
    "a past column, huge": ("air", 1e9),
    "a known number, huge": ("load", 1e9),
    "a known label, new": ("day", "strike"),
    "a target, empty": ("y", np.nan),
    "a past column, empty": ("air", np.nan),
    "a known number, empty": ("load", np.nan),
}
ALL_ROLES = Roles(["y"], ["air"], ["load", "day"], ids=["unique_id"])


def with_covariates() -> pd.DataFrame:
    table = long_table(LENGTHS, ends_alike=True)
    random, hour = np.random.default_rng(1), table["ds"].dt.hour
    columns = {"air": random.standard_normal(len(table)), "load": random.standard_normal(len(table))}
    return table.assign(**columns, day=np.where(hour < 8, "night", "day"))


def fitted(data: PanelData) -> dict[str, Any]:
    """Return everything that training fits to a panel, but its windows."""
    limits, units = limits_of_data(data), units_of(data)
    return {
        "scaler": data.series_scaler.to_dict(),
        "encoder": data.encoder.to_dict(),
        "cycles": data.cycles,
        "range": data.training_range().to_dict(),
        "limits": [limits.lower.tolist(), limits.upper.tolist()],
        "units": [table.tolist() for table in (units.mean, units.scale, units.seasonal_error)],
    }


@pytest.mark.parametrize("missing", ["error", "ffill", "interpolate", "mask"])
@pytest.mark.parametrize("split_by", ["date", "end"])
@pytest.mark.parametrize("name", POISONS)
def test_the_future_of_a_series_changes_nothing_that_training_reads(name: str, split_by: str, missing: str) -> None:
    column, value = POISONS[name]
    if missing == "error" and name.endswith("empty"):
        pytest.skip("refused, which other tests show")
    table = with_covariates()
    clean = make(table, ALL_ROLES, missing, split_by=split_by)
    rows = (table["unique_id"] == "b") & (table["ds"] >= clean.index[clean.train_rows].max() + pd.Timedelta(hours=2))
    rows &= table["ds"] < table["ds"].max()  # else the series would end earlier
    poisoned = make(table.assign(**{column: table[column].mask(rows, value)}), ALL_ROLES, missing, split_by=split_by)
    np.testing.assert_equal(fitted(poisoned), fitted(clean))
    for field, mine, theirs in zip(Batch._fields, whole(poisoned, "train"), whole(clean, "train"), strict=True):
        if mine is None or theirs is None:
            given = mine if theirs is None else theirs
            assert given is None or bool(given.all()) or field == "past_observed"
        else:
            assert torch.equal(mine, theirs), field


def test_other_values_in_one_series_change_no_window_of_another() -> None:
    table = with_covariates()
    other = table["unique_id"] == "b"
    changed = table.assign(y=table["y"].where(~other, 3 * table["y"] + 7))
    one, two = make(table, ALL_ROLES), make(changed, ALL_ROLES)
    for part in ("train", "validation", "test"):
        mine, theirs = whole(one, part), whole(two, part)
        assert mine.series is not None
        apart = mine.series != 1
        assert torch.equal(mine.past[apart], theirs.past[apart])
        assert torch.equal(mine.future[apart], theirs.future[apart])


@pytest.mark.parametrize("least", [2, CONTEXT, 30], ids=["padded", "a whole look-back", "more than a look-back"])
def test_the_seasonal_naive_forecast_is_of_the_same_series_or_its_last_value(least: int) -> None:
    table = long_table({"a": 200, "b": 60, "c": 55}, ends_alike=True)
    data = make(table, least_context=least, split={"train": 150, "validation": 25, "test": 25})
    groups = {name: own.set_index("ds")["y"] for name, own in table.groupby("unique_id")}
    for part in ("train", "test"):
        batch = whole(data, part)
        assert batch.series is not None
        naive = data.original(SeasonalNaive(data.parts[part], 24)(batch).numpy(), batch)[..., 0]
        for row, (place, origin) in enumerate(zip(batch.series.tolist(), batch.origin.tolist(), strict=True)):
            own = groups[data.ids.names[place][0]]
            before = own.to_numpy()[own.index < data.index[origin]]
            expected = [before[step - 24] if len(before) >= 24 - step else before[-1] for step in range(HORIZON)]
            np.testing.assert_allclose(naive[row], expected, rtol=1e-5)
