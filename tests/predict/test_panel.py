"""Forecasts of long tables, in Python and on the command line."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import forecast
from forecast.common.errors import InputError
from forecast.predict.__main__ import main
from forecast.predict.answer import seasonal_naive
from forecast.predict.exported import INPUTS, Exported
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.known import MissingKnown
from forecast.predict.panel import PanelForecaster
from forecast.predict.panel_inputs import PanelInputs
from tests.conftest import TinyRun
from tests.support.panels import FUTURE, STORES, long_table, stores
from tests.support.reading import series_from_frame
from tests.support.small import HORIZON, snapshot, write

KNOWN = ["promo", "kind"]


@pytest.fixture(scope="module")
def model(panel_run: TinyRun) -> PanelForecaster:
    """Return the model of the ten stores."""
    loaded = forecast.load(panel_run.path)
    assert isinstance(loaded, PanelForecaster)
    return loaded


@pytest.fixture(scope="module")
def expected(model: PanelForecaster) -> pd.DataFrame:
    """Return the forecast of all stores with an interval."""
    return model.predict(stores(), levels=[80])


def of(table: pd.DataFrame, store: int) -> pd.DataFrame:
    return table[table["store"].astype(int) == store].reset_index(drop=True)


def test_each_series_is_forecast_from_its_own_end(expected: pd.DataFrame) -> None:
    assert list(expected.columns) == ["store", "date", "sales", "sales_lower_80", "sales_upper_80"]
    assert list(expected["store"].unique()) == list(STORES)
    table = stores()
    for store in STORES:
        own = of(table, int(store))
        assert list(of(expected, int(store))["date"]) == list(own["date"][own["sales"].isna()])
    assert (expected["sales_lower_80"] < expected["sales_upper_80"]).all()


@pytest.mark.parametrize("store", [1, 3, 10])
def test_a_series_alone_is_forecast_as_in_its_panel(model: PanelForecaster, expected: pd.DataFrame, store: int) -> None:
    alone, within = model.predict(of(stores(), store), levels=[80]), of(expected, store)
    deviation = model.scales.scale[model.scales.names.index((str(store),)), 0]
    columns = ["sales", "sales_lower_80", "sales_upper_80"]
    np.testing.assert_allclose(alone[columns], within[columns], rtol=0, atol=1e-5 * deviation + 1e-6)
    assert list(alone["date"]) == list(within["date"])


def test_other_series_and_their_order_change_no_digit(model: PanelForecaster, expected: pd.DataFrame) -> None:
    table = stores()
    changed = table.assign(sales=table["sales"].where(table["store"] == 4, 3 * table["sales"] + 50))
    found = model.predict(changed.sample(frac=1, random_state=0), levels=[80])
    pd.testing.assert_frame_equal(of(found, 4), of(expected, 4), check_exact=True)
    assert not of(found, 5)["sales"].equals(of(expected, 5)["sales"])
    shuffled = model.predict(
        table.sample(frac=1, random_state=1)[["kind", "sales", "date", "promo", "store"]], levels=[80]
    )
    pd.testing.assert_frame_equal(shuffled, expected, check_exact=True)


def test_batches_change_nothing(
    model: PanelForecaster, expected: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecast.predict.panel.BATCH", 3)
    found = model.predict(stores(), levels=[80])
    pd.testing.assert_frame_equal(found, expected, rtol=0, atol=1e-4)


def test_a_model_that_was_exported_for_one_window_forecasts_all_series(
    model: PanelForecaster, expected: pd.DataFrame
) -> None:
    class OneAtATime(Exported):
        facts = {"export": {"batch": 1}}  # noqa: RUF012

        def compute(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            assert len(inputs["past"]) == 1
            return model.model(*(inputs[name] for name in INPUTS))

    found = replace(model, model=OneAtATime()).predict(stores(), levels=[80])
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)


@pytest.mark.parametrize("value", [1e9, -7.0])
def test_the_padding_before_a_short_series_changes_nothing(model: PanelForecaster, value: float) -> None:
    table = stores()
    short = table.groupby("store").tail(FUTURE + 20)  # a look-back has 48 rows
    series = model.checked(short, "the frame", ())
    assert series.ids is not None
    inputs = PanelInputs.of(model, series, series.ids.offsets[1:], beyond_training=False).at(np.arange(10))
    assert inputs.past_observed is not None
    assert (inputs.past_observed.sum(1) == 20).all()
    hidden = ~inputs.past_observed
    poisoned = torch.where(hidden, value, inputs.past)
    question, units = Question((80.0,), None, False, False), model.units_of(series, series.ids.offsets[1:])
    one, other = (model._quantiles(inputs._replace(past=past), units, question) for past in (inputs.past, poisoned))
    assert torch.equal(one, other)


def test_known_columns_of_the_horizon_change_the_forecast(model: PanelForecaster, expected: pd.DataFrame) -> None:
    table = stores()
    ahead = table["sales"].isna() & (table["store"] == 2)
    found = model.predict(table.assign(promo=table["promo"] ^ ahead), levels=[80])
    assert not of(found, 2)["sales"].equals(of(expected, 2)["sales"])
    pd.testing.assert_frame_equal(of(found, 3), of(expected, 3), check_exact=True)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_known_columns_may_be_in_a_table_of_their_own(
    model: PanelForecaster, expected: pd.DataFrame, text: bool
) -> None:
    table = stores()
    ahead = table["sales"].isna()
    known = table.loc[ahead, ["store", "date", *KNOWN]].sample(frac=1, random_state=0)
    past = table[~ahead].assign(store=lambda rows: rows["store"].astype(str) if text else rows["store"])
    pd.testing.assert_frame_equal(model.predict(past, known, levels=[80]), expected, check_exact=True)


def test_a_table_may_lack_known_columns_on_which_no_forecast_depends(model: PanelForecaster) -> None:
    alone = replace(model, contract=replace(model.contract, unread=KNOWN))
    table = stores(future=False)
    lacking = table.drop(columns=KNOWN)
    pd.testing.assert_frame_equal(alone.predict(lacking), alone.predict(table))
    start = str(table["date"].max() - pd.Timedelta(days=3))
    pd.testing.assert_frame_equal(alone.backtest(lacking, start), alone.backtest(table, start))


def test_a_known_column_that_ends_early_for_some_ids_names_the_first(model: PanelForecaster) -> None:
    table = stores()
    last = table.groupby("store")["date"].transform("max")
    early = table["store"].isin([2, 7]) & (table["date"] > last - pd.Timedelta(hours=3))
    for shorter in (table[~early], table.assign(promo=table["promo"].astype(object).mask(early))):
        with pytest.raises(MissingKnown) as caught:
            model.predict(shorter)
        text = str(caught.value)
        assert "6 rows of 2 of 10 series, the first 'promo' of store '2' at " in text
        assert "\n" not in text
        assert caught.value.template.index.unique().tolist() == ["2", "7"]


def with_column(name: str, change: Callable[[pd.Series], Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda table: table.assign(**{name: change(table[name])})


def without_most_of_5(table: pd.DataFrame) -> pd.DataFrame:
    kept = (table["store"] != 5) | (table.groupby("store").cumcount(ascending=False) < FUTURE + 11)
    return table[kept]


REFUSED: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], tuple[str, ...], str]] = {
    "no such id": (lambda table: table, ("77",), "--ids 77: the frame has no such series, only 1, 2, 3"),
    "a series that is too short": (without_most_of_5, (), "the frame, store '5': it has 11 rows, and 1 series have"),
    "no id column": (
        lambda table: of(table, 1).drop(columns="store"),
        (),
        "has no column 'store', which the model was",
    ),
    "no value": (
        lambda table: table.assign(sales=table["sales"].mask(table["store"] == 6)),
        (),
        "store '6': no target has a value",
    ),
    "a label where a number was": (
        with_column("promo", lambda promo: promo.map({True: "yes", False: "no"})),
        (),
        "column 'promo', row 2, store '1'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_long_table_that_does_not_fit_is_refused_in_one_line(model: PanelForecaster, name: str) -> None:
    change, ids, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        model.predict(change(stores()), ids=ids)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "train with" not in str(caught.value)


def test_ids_that_are_not_asked_for_may_be_new(model: PanelForecaster, expected: pd.DataFrame) -> None:
    table = stores()
    more = pd.concat([table, of(table, 4).assign(store=99)])
    found = model.predict(more, ids=["4", "2"], levels=[80])
    assert found["store"].unique().tolist() == ["2", "4"]
    np.testing.assert_allclose(of(found, 4)["sales"], of(expected, 4)["sales"], atol=1e-3)


def test_a_series_that_training_did_not_have_is_forecast_from_its_own_rows_and_says_so(
    model: PanelForecaster, expected: pd.DataFrame
) -> None:
    table = stores()
    new = of(table, 4).assign(store=11, sales=lambda rows: 100 * rows["sales"])
    with pytest.warns(UserWarning, match=r"1 of 11 series were not in training: store '11': scaled by their own rows"):
        found = model.predict(pd.concat([table, new]), levels=[80])
    pd.testing.assert_frame_equal(found[found["store"] != "11"], expected, check_exact=True)
    ratio = of(found, 11)["sales"].to_numpy() / of(expected, 4)["sales"].to_numpy()
    np.testing.assert_allclose(ratio, 100, rtol=0.02)  # training scaled store 4 by fewer rows


def test_the_scale_of_a_new_series_knows_no_row_after_its_origin(model: PanelForecaster) -> None:
    table = of(stores(future=False), 4).assign(store=11)
    start, last = table["date"].iloc[-60], table["date"].iloc[-30]
    poisoned = table.assign(sales=table["sales"].mask(table["date"] >= start, 1e6))
    one, other = (model.backtest(each, start, start) for each in (table, poisoned))
    assert last > start
    pd.testing.assert_series_equal(one["value"], other["value"], check_exact=True)


@pytest.mark.filterwarnings("ignore:1 of 1 series were not in training")
@pytest.mark.parametrize("last_rows", [None, 100])
def test_a_backtest_scales_a_new_series_as_predict_does(model: PanelForecaster, last_rows: int | None) -> None:
    contract = replace(model.contract, reading=replace(model.contract.reading, last_rows=last_rows))
    limited, table = replace(model, contract=contract), of(stores(future=False), 4).assign(store=11)
    start, before = table["date"].iloc[-60], table["date"] < table["date"].iloc[-60]
    found = limited.predict(table[before], table[~before], levels=[80])
    rolled = limited.backtest(table, start, start, levels=[80])
    names = {"sales": "value", "sales_lower_80": "lower_80", "sales_upper_80": "upper_80"}
    pd.testing.assert_frame_equal(found[list(names)].rename(columns=names), rolled[list(names.values())])


@pytest.mark.filterwarnings("ignore:1 of 1 series were not in training")
def test_the_last_rows_of_training_are_the_last_rows_of_predict_but_not_of_a_backtest(model: PanelForecaster) -> None:
    contract = replace(model.contract, reading=replace(model.contract.reading, last_rows=100))
    limited, new = replace(model, contract=contract), of(stores(), 4).assign(store=11)
    rows = len(new) - FUTURE
    found = limited.predict(new)
    pd.testing.assert_frame_equal(found, model.predict(new.iloc[rows - 100 :]), check_exact=True)
    assert not found["sales"].equals(model.predict(new)["sales"])
    start = new["date"].iloc[rows - 110]
    pd.testing.assert_frame_equal(limited.backtest(stores(), start), model.backtest(stores(), start))


@pytest.mark.parametrize("ids", [4, "4", [4], ("4",), [("4",)]], ids=repr)
def test_ids_may_be_numbers_and_one_needs_no_list(model: PanelForecaster, ids: Any) -> None:
    assert model.predict(stores(), ids=ids)["store"].unique().tolist() == ["4"]


def test_the_seasonal_naive_forecast_reads_its_own_series_or_repeats_its_last_value() -> None:
    series = series_from_frame(long_table({"a": 60, "b": 10, "c": 40}))
    assert series.ids is not None
    values = series.frame["y"].to_numpy()
    naive = seasonal_naive(series, series.ids.offsets[1:], ["y"], 24, 30)[..., 0]
    step = np.arange(30) % 24
    np.testing.assert_array_equal(naive[0], values[60 - 24 + step])
    np.testing.assert_array_equal(naive[1], np.where(step >= 14, values[(70 - 24 + step).clip(max=69)], values[69]))
    np.testing.assert_array_equal(naive[2], values[110 - 24 + step])


@pytest.fixture
def predict(panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Return a function that runs `python -m forecast.predict`: exit code, output, errors."""

    def run(source: Path, *words: str, output: str = "next.csv") -> tuple[int, str, str]:
        command: Sequence[str] = [
            "--run",
            str(panel_run.path),
            "--input",
            str(source),
            "--output",
            str(tmp_path / output),
        ]
        code = main([*command, *words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_writes_all_series_as_a_table(predict, panel_run, expected, ending, tmp_path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = predict(panel_run.source, "--levels", "80", output=f"next.{ending}")
    assert code == 0
    path = tmp_path / f"next.{ending}"
    table = pd.read_csv(path, parse_dates=["date"]) if ending == "csv" else pd.read_parquet(path)
    columns = [name for name in table.columns if name != "sales_naive"]
    assert columns == list(expected.columns)
    assert table["store"].astype(str).tolist() == expected["store"].tolist()
    np.testing.assert_allclose(table["sales"], expected["sales"])
    assert table["date"].tolist() == expected["date"].tolist()
    assert "10 series of 12 steps" in out
    assert "2 of 10 series end earlier than the others and are forecast from their own end, the first store '3'" in out
    assert (tmp_path / "next.png").stat().st_size > 0
    sidecar = json.loads((tmp_path / "next.json").read_text())
    assert sidecar["forecast"]["series"] == 10
    assert sidecar["forecast"]["id_columns"] == ["store"]


def test_the_command_forecasts_the_named_series_and_draws_one(predict, panel_run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = predict(panel_run.source, "--ids", "7", "3", "--picture", "store=7")
    assert code == 0
    assert "2 series of 12 steps" in out
    assert pd.read_csv(tmp_path / "next.csv")["store"].unique().tolist() == [3, 7]


def test_the_template_of_known_columns_has_all_ids_and_is_used(predict, expected, tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = stores()
    source = write(tmp_path / "past.csv", stores(future=False))
    code, _, error = predict(source, "--levels", "80")
    assert code == 2
    assert "120 rows of 10 of 10 series" in error
    (path,) = (file for file in tmp_path.glob("*.csv") if file != source)
    template = pd.read_csv(path)
    assert list(template.columns) == ["store", "date", *KNOWN]
    assert template.groupby("store").size().tolist() == [HORIZON] * 10
    given = table.assign(date=table["date"].astype(str))[["store", "date", *KNOWN]]
    filled = template[["store", "date"]].merge(given, on=["store", "date"], how="left")
    assert filled.notna().all(axis=None)
    known = write(tmp_path / "filled.csv", filled)
    code, _, _ = predict(source, "--levels", "80", "--known", str(known))
    assert code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "next.csv")["sales"], expected["sales"])


BAD_WORDS = {
    ("--picture", "store=99"): "--picture store=99: no such series in the forecast: name one as store=…",
    ("--ids", "99"): "--ids 99: ",
    ("--layout", "long"): "--layout long: the forecast of a long table has a column per target: leave it out",
    (
        "--attention",
        "full",
        "--levels",
        "80",
    ): "--attention full: intervals are calibrated for the attention of training",
}


@pytest.mark.parametrize("words", BAD_WORDS, ids=" ".join)
def test_an_option_that_a_long_table_has_not_is_refused_before_anything_is_written(  # type: ignore[no-untyped-def]
    predict, panel_run, words: tuple[str, ...], tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    code, _, error = predict(panel_run.source, *words)
    assert code == 2
    assert BAD_WORDS[words] in error
    assert error.count("\n") == 1
    assert snapshot(tmp_path) == before


def test_options_of_a_long_table_are_refused_for_one_series(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    assert main([*words, "--ids", "a"]) == 2
    assert "--ids and --picture: the model has one series: leave them out" in capsys.readouterr().err


def test_the_mean_of_two_runs_of_a_panel_is_their_forecast(
    panel_run: TinyRun, expected: pd.DataFrame, tiny_run: TinyRun, tmp_path: Path
) -> None:
    other = shutil.copytree(panel_run.path, tmp_path / "other")
    mean = forecast.load(panel_run.path, other)
    pd.testing.assert_frame_equal(mean.predict(stores(), levels=[80]), expected)
    with pytest.raises(InputError, match="a model of one series"):
        forecast.load(panel_run.path, tiny_run.path)
    with pytest.raises(InputError, match="a model of a long table"):
        Forecaster.load(panel_run.path)


def test_another_attention_forecasts_a_panel(panel_run: TinyRun, expected: pd.DataFrame) -> None:
    same, other = (PanelForecaster.load(panel_run.path, word).predict(stores()) for word in ("full", "taylor"))
    pd.testing.assert_series_equal(same["sales"], expected["sales"], check_exact=True)
    assert not other["sales"].equals(expected["sales"])


def test_a_model_of_one_series_refuses_a_long_table(tiny_run: TinyRun) -> None:
    table = pd.concat([tiny_run.table.assign(unique_id=name) for name in ("a", "b")])
    with pytest.raises(
        InputError, match="a long table of 2 series, the first unique_id 'a'; the model was trained on one"
    ):
        forecast.load(tiny_run.path).predict(table)
