"""Holidays of a panel by a column that names the region of each series."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.holidays import Holidays, Places
from forecast.data.panel import PanelData
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.predict.history import rows_before
from forecast.predict.known import MissingKnown
from forecast.predict.panel import PanelForecaster
from forecast.predict.panel_inputs import PanelInputs
from tests.data.test_panel import HORIZON, LEAST, OPTIONS, SPLIT, network_of
from tests.data.test_static import forecaster
from tests.support.panels import long_table
from tests.support.small import compose, write

pytest.importorskip("holidays", reason="it needs the extra: pip install -e '.[holidays]'")

STATES = {"a": "BY", "b": "BE", "c": "BY"}
PLACES = {"a": "DE-BY", "b": "DE-BE", "c": "DE-BY"}
ALL_SAINTS = pd.Timestamp("2024-11-01")
"""A holiday of Bavaria, and not of Berlin."""

COLUMN = "data.holidays_column=region"
WORDS = ["data.targets=[y]", "data.id_columns=[unique_id]", COLUMN]


def table_of(regions: dict[str, str] = STATES, *, ahead: int = 0) -> pd.DataFrame:
    """Return daily series to 17 December 2024, with a column known ahead; the last rows of each may lack the target."""
    table = long_table({"a": 200, "b": 150, "c": 180}, frequency="D", start="2024-06-01", ends_alike=True)
    later = table.groupby("unique_id").cumcount(ascending=False) < ahead
    promo = np.random.default_rng(1).random(len(table)).round(3)
    return table.assign(region=table["unique_id"].map(regions), promo=promo, y=table["y"].mask(later))


def settings_of(path: Path, *words: str) -> DataSettings:
    return DataSettings.parse(compose("data=csv", f"data.path={path}", *words)["data"])


def panel_of(folder: Path, table: pd.DataFrame, *words: str) -> PanelData:
    source = load_source(settings_of(write(folder / "long.csv", table), *words))
    return PanelData(source, SPLIT, **{**OPTIONS, "least_context": LEAST})


def of_holidays(data: PanelData) -> np.ndarray:
    """Return the inputs of the rows (N, K) that say whether a day is a holiday, or near one."""
    assert data.source.holidays is not None
    first, count = 2 * len(data.cycles) + len(data.encoder.numbers), len(data.source.holidays.columns)
    return data.parts["train"].known[:, first : first + count].numpy()


def expected(index: pd.DatetimeIndex, ids: np.ndarray, places: dict[str, str], *days: int) -> np.ndarray:
    """Return the features of each row at the place of its series, one series after the other."""
    found = np.full((len(index), 1 + sum(days)), np.nan)
    for name, place in places.items():
        found[ids == name] = Holidays(place, *days).features(index[ids == name])
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PanelData:
    words = [*WORDS, "data.holidays=DE", "data.holidays_before=1", "data.holidays_after=2"]
    roles = ["data.known_covariates=[promo]", "data.static_covariates=[]"]
    return panel_of(tmp_path_factory.mktemp("long"), table_of(), *words, *roles)


@pytest.fixture(scope="module")
def model(data: PanelData) -> PanelForecaster:
    return forecaster(data, network_of(data))


def test_each_series_has_the_holidays_of_its_own_region(data: PanelData) -> None:
    ids = np.array(data.ids.names)[data.ids.of_rows, 0]
    found = of_holidays(data)
    np.testing.assert_array_equal(found, expected(data.index, ids, PLACES, 1, 2))
    assert dict(zip(ids[data.index == ALL_SAINTS], found[data.index == ALL_SAINTS, 0], strict=True)) == {
        "a": 1,
        "b": 0,
        "c": 1,
    }


def test_a_panel_of_one_region_has_the_digits_of_the_option_of_all_series(tmp_path: Path) -> None:
    table = table_of({"a": "DE-BY", "b": "DE-BY", "c": "DE-BY"})
    by_column = panel_of(tmp_path, table, *WORDS, "data.holidays_after=1")
    for_all = panel_of(tmp_path, table, *WORDS[:2], "data.holidays=DE-BY", "data.holidays_after=1")
    assert by_column.sizes == for_all.sizes
    ours, theirs = by_column.parts["train"], for_all.parts["train"]
    for mine, other in ((ours.known, theirs.known), (ours.values, theirs.values), (ours.starts, theirs.starts)):
        assert torch.equal(mine, other)


def test_a_forecast_reads_the_region_of_the_input_also_of_a_series_in_another_country(
    data: PanelData, model: PanelForecaster
) -> None:
    places = {"b": "DE-BE", "c": "DE-BE", "new": "AT-1"}
    table = table_of({"a": "AT-1", "b": "BE", "c": "DE-BE"}, ahead=HORIZON).replace({"unique_id": {"a": "new"}})
    series = model.checked(table.sample(frac=1, random_state=0), "the frame")
    assert series.ids is not None
    inputs = PanelInputs.of(model, series, series.ids.offsets[1:], beyond_training=True)
    part = np.array([2, 0, 1])
    found = inputs.at(part)
    first = 2 * len(data.cycles) + 1
    for number, known in enumerate((found.past_known, found.future_known)):
        length = known.shape[1]
        for place, code in enumerate(part):
            stop = inputs.last[code] + 1
            times = inputs.times[stop : stop + length] if number else inputs.times[stop - length : stop]
            features = Holidays(places[series.ids.names[code][0]], 1, 2).features(times)
            np.testing.assert_array_equal(known[place, :, first : first + 4].numpy(), features)
    with pytest.warns(UserWarning, match="1 of 3 series were not in training"):
        assert model.predict(table).notna().all(axis=None)


def test_a_backtest_and_an_explanation_read_the_region_of_each_series(model: PanelForecaster) -> None:
    table = table_of(ahead=HORIZON)
    backtest = model.backtest(table, "2024-10-25", step=20)
    assert len(backtest)
    origin = backtest["origin"].max()
    before = table.assign(y=table["y"].mask(table["ds"] >= origin))
    here = backtest[backtest["origin"] == origin]["value"].to_numpy()
    np.testing.assert_allclose(here, model.predict(before)["y"].to_numpy(), rtol=1e-6)
    assert "holidays" in set(model.explain(table, "b")["part"])


def test_the_table_of_a_refit_keeps_the_region(model: PanelForecaster) -> None:
    found = rows_before(model.contract, table_of(), pd.Timestamp("2024-09-01"), "the frame")
    assert found.groupby("unique_id")["region"].unique().map(list).to_dict() == {n: [s] for n, s in STATES.items()}


def test_an_input_without_the_column_or_with_an_unknown_region_is_refused(model: PanelForecaster) -> None:
    with pytest.raises(InputError, match=r"^the frame has no column 'region', which the model was trained on, only"):
        model.predict(table_of().drop(columns="region"))
    with pytest.raises(InputError, match=r"^the frame, column 'region', row 202, unique_id 'b': unknown subdivision"):
        model.predict(table_of({**STATES, "b": "XX"}))
    with pytest.raises(MissingKnown):  # the regions are right
        model.predict(table_of())


def test_a_region_is_a_static_covariate_too_unless_others_are_named(data: PanelData, tmp_path: Path) -> None:
    found = panel_of(tmp_path, table_of(PLACES), *WORDS)
    assert found.static_inputs.columns == ["region"]
    assert data.static_inputs.columns == []
    assert found.source.targets == ["y"]
    assert "region" not in found.source.series.unread


def test_lines_name_the_places_with_their_series_and_days() -> None:
    days, places = pd.date_range("2024-11-01", periods=3), Places(("DE-BY", "BY"), np.array([0, 1, 0]))
    lines = Holidays(None, column="region").notes(days, places)
    assert lines == ("holidays by 'region': DE-BY (Germany, 2 series, 1 day); BY (Belarus, 1 series, 0 days)",)


def test_a_number_of_a_subdivision_has_its_leading_zero_again() -> None:
    assert [Holidays("PL", column="region")._place_of(cell) for cell in ("2", "14", "PL", "AT-1")] == [
        "PL-02",
        "PL-14",
        "PL",
        "AT-1",
    ]


def with_cell(row: int, value: Any, regions: dict[str, str] = STATES) -> pd.DataFrame:
    table = table_of(regions)
    return table.assign(region=table["region"].where(table.index != row, value))


GERMANY = [*WORDS, "data.holidays=DE"]
REFUSED = {
    "changes": (
        GERMANY,
        with_cell(7, "BE"),
        r"row 9: 'BE' of unique_id 'a' is 'BY' in row 2: a region has one value for each id: correct",
    ),
    "empty": (GERMANY, with_cell(7, None), r"column 'region', row 9: no region \(1 such row\): fill it in"),
    "blank": (GERMANY, with_cell(7, "  "), r"column 'region', row 9: no region \(1 such row\): fill it in"),
    "unknown": (
        GERMANY,
        table_of({**STATES, "b": "by"}),
        r"column 'region', row 202, unique_id 'b': unknown subdivision 'by' of DE \(did you mean BY\?\): choose from",
    ),
    "a name": (
        WORDS,
        table_of({"a": "Bavaria", "b": "Berlin", "c": "Berlin"}),
        r"row 2, unique_id 'a': unknown country 'Bavaria': use its ISO.* or set data.holidays to the country",
    ),
    "no subdivisions": (WORDS, table_of({**PLACES, "c": "SE-1"}), r"row 352,.* has no subdivisions of SE: write SE$"),
    "no column": (
        [*GERMANY[:-2], "data.holidays=DE", "data.holidays_column=regoin"],
        table_of(),
        r"no column 'regoin' \(did you mean 'region'\?\).* correct data.holidays_column",
    ),
    "two places": (
        [*WORDS, "data.holidays=DE-BY"],
        table_of(),
        r"^data.holidays=DE-BY: the column 'region' .* set data.holidays to null, or to a country, such as DE$",
    ),
    "one id": (GERMANY, table_of()[:200], r"^data.holidays_column=region: needs the ids of several series: name"),
    "no ids": (
        [COLUMN, "data.holidays=DE"],
        table_of()[:200].drop(columns="unique_id"),
        r"^data.holidays_column=region: needs the ids of several series: name data.id_columns, or set data.holidays",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_that_names_no_region_of_each_series_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    words, table, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as caught:
        load_source(settings_of(write(tmp_path / "long.csv", table), *words))
    assert "\n" not in str(caught.value)


def test_options_of_holidays_act_on_the_column_too() -> None:
    assert settings_of(Path("my.csv"), COLUMN, "data.holidays_before=2").holidays is None
    with pytest.raises(
        InputError, match=r"^data.holidays_column=region: rows every W-SUN .*set data.holidays_column=nul"
    ):
        Holidays(None, column="region").check_frequency("W-SUN")
