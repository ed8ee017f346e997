"""Forecasts without training: any table, its season, its intervals, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.predict.__main__ import Asked, predict
from tests.support.small import write

DAYS = 30


def daily(rows: int = 24 * DAYS, noise: float = 0.05) -> pd.DataFrame:
    hour = np.arange(rows)
    random = np.random.default_rng(1)
    load = 100 + 20 * np.sin(2 * np.pi * hour / 24) + noise * 20 * random.standard_normal(rows)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=rows, freq="h"), "load": load})


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return forecast.zero_shot(daily(), 48, levels=[80, 95])


def test_a_daily_cycle_is_forecast_without_training(found: pd.DataFrame) -> None:
    truth = 100 + 20 * np.sin(2 * np.pi * np.arange(24 * DAYS, 24 * DAYS + 48) / 24)
    assert np.abs(found["load"] - truth).mean() < 2
    assert found.index[0] == pd.Timestamp("2024-01-31")
    assert len(found) == 48


def test_intervals_hold_the_forecast_and_the_wider_holds_the_narrower(found: pd.DataFrame) -> None:
    names = ["load_lower_95", "load_lower_80", "load", "load_upper_80", "load_upper_95"]
    assert (np.diff(found[names].to_numpy(), axis=1) >= 0).all()


def test_the_notes_say_what_the_forecast_consists_of(found: pd.DataFrame) -> None:
    assert "pretrained network" in found.attrs["notes"][-1]
    assert "earlier forecasts of this table" in found.attrs["notes"][-1]


def test_a_table_of_few_rows_is_forecast_by_the_network_alone() -> None:
    short = forecast.zero_shot(daily(10), 6)
    assert short["load"].notna().all()
    assert "alone" in short.attrs["notes"][-1]


def test_the_shortest_table_has_a_horizon_of_one_step() -> None:
    assert len(forecast.zero_shot(daily(3))) == 1


def test_the_series_of_a_long_table_are_forecast_each_from_its_end() -> None:
    first, second = daily(24 * 9).assign(shop="a"), daily(24 * 6).assign(shop="b", load=lambda own: own["load"] * 10)
    found = forecast.zero_shot(pd.concat([first, second]), 24, levels=[80], id_columns=["shop"])
    starts = found.groupby("shop")["date"].min()
    assert starts["a"] == pd.Timestamp("2024-01-10")
    assert starts["b"] == pd.Timestamp("2024-01-07")
    means = found.groupby("shop")["load"].mean()
    assert means["b"] / means["a"] == pytest.approx(10, rel=0.1)


def test_a_series_that_is_never_negative_has_no_negative_forecast() -> None:
    table = daily()
    table["load"] = np.maximum(table["load"] - 100, 0)
    found = forecast.zero_shot(table, 48, levels=[95])
    assert (found.to_numpy() >= 0).all()


def test_a_scaled_table_has_the_scaled_forecast() -> None:
    table = daily()
    scaled = table.assign(load=table["load"] * 1e6 + 3e8)
    ours, theirs = forecast.zero_shot(table, 24), forecast.zero_shot(scaled, 24)
    np.testing.assert_allclose(theirs["load"], ours["load"] * 1e6 + 3e8, rtol=1e-4)


def test_the_command_writes_table_picture_and_sidecar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = write(tmp_path / "my.csv", daily()), tmp_path / "next.csv"
    predict(["pretrained"], source, output, asked=Asked(levels=(80.0,), horizon=24))
    table = pd.read_csv(output, index_col="date", parse_dates=True)
    assert list(table.columns) == ["load", "load_lower_80", "load_upper_80", "load_naive"]
    assert len(table) == 24
    assert output.with_suffix(".png").is_file()
    facts = json.loads(output.with_suffix(".json").read_text())
    assert sum(facts["mixture"].values()) == pytest.approx(1, abs=1e-3)
    assert list(facts["mixture"])[:2] == ["pretrained network", "pretrained network on every second step"]
    assert "without training: pretrained network" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "at least 1"),
        ({"horizon": 10**9}, "horizon 1000000000: must be at least 1 and at most 10,000"),
        ({"beyond_training": True}, "--beyond-training"),
        ({"levels": (99.0,)}, "outside the trained quantiles"),
        ({"adaptive": True, "levels": (80.0,)}, "--adaptive"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, object], words: str, tmp_path: Path) -> None:
    source = write(tmp_path / "my.csv", daily(60))
    with pytest.raises(InputError, match=words):
        predict(["pretrained"], source, tmp_path / "next.csv", asked=Asked(**{"horizon": 6, **options}))


def test_a_trained_model_refuses_another_horizon(tmp_path: Path) -> None:
    source = write(tmp_path / "my.csv", daily(60))
    with pytest.raises(InputError, match="--horizon 6: a trained model has its own"):
        predict(["latest"], source, tmp_path / "next.csv", asked=Asked(horizon=6))


def test_a_frame_is_named_in_errors_and_no_file_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda *_, **__: pytest.fail("a file was written"))
    with pytest.raises(InputError, match=r"^the table is a long table"):
        forecast.zero_shot(pd.concat([daily(40).assign(shop=shop) for shop in "ab"]), 6)


def test_a_table_without_numbers_is_refused() -> None:
    table = daily(30).assign(load="many")
    with pytest.raises(InputError):
        forecast.zero_shot(table, 6)
