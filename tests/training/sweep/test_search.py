"""A search shows, ranks and writes validation scores, and nothing of the test split."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.training.sweep.search import ranking, search_cells
from tests.conftest import LIGHTNING
from tests.support.sweeps import command

pytestmark = [pytest.mark.filterwarnings(text) for text in LIGHTNING]


def jobs(*rows: tuple[str, int, float, float], device: str = "x", **other: Any) -> pd.DataFrame:
    """Return finished jobs: configuration, seed, validation MSE of the model and of the linear map.

    Their settings are the overrides plus `other`. The task is the `data` or `experiment` override, at the horizon in
    the overrides or in `other`.
    """
    columns = {
        "validation_mae": 0.5,
        "best_step": 1,
        "steps": 2,
        "parameters": 3,
        "fit_seconds": 60.0,
        "device": device,
        "folder": "nowhere",
    }
    return pd.DataFrame(
        [
            {
                **columns,
                "configuration": words,
                "words": words.split(),
                **run_of(words, device, other),
                "seed": seed,
                "validation_mse": own,
                "baselines": {"linear": {"validation": {"scaled": {"mse": linear}}}},
            }
            for words, seed, own, linear in rows
        ]
    )


def run_of(words: str, device: str, other: dict[str, Any]) -> dict[str, Any]:
    settings = dict(word.split("=", 1) for word in words.split()) | other
    name = settings.get("data", settings.get("experiment", "some"))
    forecasts = json.dumps([name, settings.get("horizon"), ["y"], settings.get("sha256"), 1, {}])
    return {"of": json.dumps([settings, device]), "settings": settings, "forecasts": forecasts}


def test_choices_are_ranked_by_their_mean_ratio_to_the_linear_map() -> None:
    rows = jobs(
        ("horizon=96 model.dropout=0.3", 1, 0.9, 1.0),
        ("horizon=96 model.dropout=0.3", 2, 1.1, 1.0),
        ("horizon=336 model.dropout=0.3", 1, 1.6, 2.0),
        ("horizon=96 model.dropout=0.5", 1, 0.7, 1.0),
        ("horizon=336 model.dropout=0.5", 1, 2.4, 2.0),
        ("horizon=96 model.dropout=0.7", 1, 0.1, 1.0),
    )
    ranked = ranking(search_cells(rows)).set_index("choice")
    assert list(ranked.index) == ["model.dropout=0.3", "model.dropout=0.5", "model.dropout=0.7"]  # it lacks a cell
    assert list(ranked["mean"]) == pytest.approx([0.9, 0.95, 0.1])
    assert list(ranked["n"]) == [3, 2, 1]
    assert list(ranked["most"]) == pytest.approx([1.0, 1.2, 0.1])


def test_a_look_back_with_a_bad_linear_map_is_not_ranked_higher() -> None:
    rows = jobs(
        ("horizon=96 context_length=96", 1, 0.98, 1.4),
        ("horizon=96 context_length=512", 1, 0.95, 1.0),
    )
    ranked = ranking(search_cells(rows)).set_index("choice")
    assert list(ranked.index) == ["context_length=512", "context_length=96"]
    assert list(ranked["mean"]) == pytest.approx([0.95, 0.98])


def test_a_choice_is_surely_worse_only_if_its_windows_are_significantly_worse(
    tmp_path: Path,
) -> None:
    rng, tables_of_jobs = np.random.default_rng(1), []
    hard = rng.gamma(2, 0.25, 3000)
    by_chance = np.repeat(
        rng.permutation(np.resize([-0.3, 0.31], 30)), 100
    )  # blocks of windows, now better and now worse
    for place, (mse, own) in enumerate(((hard, 0.5), (hard + 0.05, 0.55), (hard + by_chance, 0.505))):
        folder = tmp_path / str(place)
        folder.mkdir()
        config = {"horizon": 96, "training": {"evaluation_stride": 1}}
        (folder / "result.json").write_text(json.dumps({"config": config}))
        origins = pd.date_range("2020-01-01", periods=len(mse), freq="h")
        tables = [pd.DataFrame({"part": part, "origin": origins, "mse": mse}) for part in ("validation", "test")]
        pd.concat(tables).to_parquet(folder / "errors.parquet")
        tables_of_jobs.append(jobs((f"horizon=96 model.dropout=0.{place}", 1, own, 1.0)).assign(folder=str(folder)))
    untested = jobs(("horizon=96 model.dropout=0.9", 1, 0.9, 1.0))
    cells = search_cells(pd.concat([*tables_of_jobs, untested], ignore_index=True))
    assert list(cells["surely_worse"]) == [False, False, True, None]
    assert list(ranking(cells)["worse"]) == [0, 0, 1, 0]
    assert list(ranking(cells)["comparable"]) == [1, 1, 1, 0]
    assert "folders" not in cells


def test_no_verdict_is_given_with_few_blocks_of_validation_windows(tmp_path: Path) -> None:
    rows = []
    for place in range(2):
        folder = tmp_path / str(place)
        folder.mkdir()
        config = {"horizon": 336, "training": {"evaluation_stride": 1}}
        (folder / "result.json").write_text(json.dumps({"config": config}))
        origins = pd.date_range("2020-01-01", periods=8 * 336 - 1, freq="h")
        pd.DataFrame({"part": "validation", "origin": origins, "mse": 0.5 + place}).to_parquet(
            folder / "errors.parquet"
        )
        rows.append(jobs((f"horizon=336 model.dropout=0.{place}", 1, 0.5 + place, 1.0)).assign(folder=str(folder)))
    cells = search_cells(pd.concat(rows, ignore_index=True))
    assert list(cells["surely_worse"]) == [None, None]
    assert list(ranking(cells)["comparable"]) == [0, 0]


def test_cells_are_in_the_order_of_the_ranking() -> None:
    rows = jobs(
        ("data=etth1 loss=mae", 1, 2.0, 1.0),
        ("data=etth2 loss=mse", 1, 0.5, 1.0),
        ("data=etth1 loss=mse", 1, 1.0, 1.0),
    )
    cells = search_cells(rows)
    assert list(cells["choice"]) == ["loss=mse", "loss=mse", "loss=mae"]
    assert list(cells["cell"]) == ["data=etth2", "data=etth1", "data=etth1"]


def test_seeds_with_different_numbers_of_threads_share_a_cell() -> None:
    rows = pd.concat(
        [
            jobs(("model.dropout=0.1", 1, 2.0, 1.0), device="one thread"),
            jobs(("model.dropout=0.1", 2, 2.0, 1.0), device="two threads"),
            jobs(("model.dropout=0.3", 1, 0.7, 1.0), ("model.dropout=0.3", 2, 0.7, 1.0), device="one thread"),
        ],
        ignore_index=True,
    )
    cells = search_cells(rows)
    assert list(cells["choice"]) == ["model.dropout=0.3", "model.dropout=0.1"]
    assert list(cells["n"]) == [2, 2]
    assert list(cells["device"]) == ["one thread", "one thread; two threads"]


def test_experiments_with_different_data_are_cells() -> None:
    rows = jobs(
        ("experiment=etth1 model.dropout=0.1", 1, 0.9, 1.0),
        ("experiment=etth1 model.dropout=0.3", 1, 1.0, 1.0),
        ("experiment=etth2 model.dropout=0.1", 1, 0.27, 0.3),
        ("experiment=etth2 model.dropout=0.3", 1, 0.3, 0.3),
    )
    cells = search_cells(rows)
    assert list(cells["choice"]) == [f"model.dropout=0.{digit}" for digit in (1, 1, 3, 3)]
    assert list(cells["cell"]) == ["experiment=etth1", "experiment=etth2"] * 2
    assert list(cells["of_linear"]) == pytest.approx([0.9, 0.9, 1.0, 1.0])


def test_experiments_over_the_same_data_are_choices() -> None:
    rows = jobs(("data=mine experiment=a", 1, 0.9, 1.0), ("data=mine experiment=b", 1, 1.0, 1.0))
    assert list(search_cells(rows)["choice"]) == ["experiment=a", "experiment=b"]


def test_different_data_are_different_cells_without_an_override() -> None:
    first = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 1.0, 1.0), sha256="one")
    second = jobs(("model.dropout=0.1", 1, 0.27, 0.3), ("model.dropout=0.3", 1, 0.3, 0.3), sha256="two")
    cells = search_cells(pd.concat([first, second], ignore_index=True))
    assert list(cells["cell"]) == ["sha256=one", "sha256=two"] * 2
    assert list(cells["of_linear"]) == pytest.approx([0.9, 0.9, 1.0, 1.0])


def test_a_horizon_swept_in_one_command_and_fixed_in_another_is_one_cell() -> None:
    swept = jobs(("horizon=96 model.dropout=0.1", 1, 0.9, 1.0), ("horizon=336 model.dropout=0.1", 1, 0.9, 1.0))
    said = jobs(("model.dropout=0.5", 1, 0.8, 1.0), horizon="96")
    cells = search_cells(pd.concat([swept, said], ignore_index=True))
    assert sorted(zip(cells["choice"], cells["cell"], strict=True)) == [
        ("model.dropout=0.1", "horizon=336"),
        ("model.dropout=0.1", "horizon=96"),
        ("model.dropout=0.5", "horizon=96"),
    ]


def test_different_constants_under_the_same_overrides_are_different_choices() -> None:
    rows = pd.concat([jobs(("loss=mae", 1, 0.9, 1.0), lr=rate) for rate in ("0.1", "0.2")], ignore_index=True)
    assert sorted(search_cells(rows)["choice"]) == ["loss=mae (lr=0.1)", "loss=mae (lr=0.2)"]


def test_settings_that_differ_without_an_override_are_appended_to_the_choice() -> None:
    narrow = jobs(("model.dropout=0.3", 1, 0.9, 1.0), **{"model.d_model": "32"})
    wide = jobs(("model.dropout=0.1", 1, 0.8, 1.0), **{"model.d_model": "64"})
    said = jobs(("model.dropout=0.1 model.d_model=16", 1, 0.7, 1.0))
    assert sorted(search_cells(pd.concat([narrow, wide, said], ignore_index=True))["choice"]) == [
        "model.dropout=0.1 (model.d_model=64)",
        "model.dropout=0.1 model.d_model=16",
        "model.dropout=0.3 (model.d_model=32)",
    ]
    # if one of the two has the override, the other has the default
    assert sorted(search_cells(pd.concat([narrow, said], ignore_index=True))["choice"]) == [
        "model.dropout=0.1 model.d_model=16",
        "model.dropout=0.3",
    ]


def test_settings_of_an_overridden_group_are_not_repeated_in_the_choice() -> None:
    rows = [
        jobs((f"attention@cross_attention={name}", 1, 0.9, 1.0), **{"cross_attention.name": name, "lr": rate})
        for name, rate in (("full", "0.1"), ("mean", "0.1"), ("mean", "0.2"))
    ]
    for table in rows:
        table["settings"] = [{key: row[key] for key in row if "@" not in key} for row in table["settings"]]
    assert sorted(search_cells(pd.concat(rows, ignore_index=True))["choice"]) == [
        "attention@cross_attention=full (lr=0.1)",
        "attention@cross_attention=mean (lr=0.1)",
        "attention@cross_attention=mean (lr=0.2)",
    ]


def test_settings_that_differ_only_between_cells_do_not_split_a_choice() -> None:
    short = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.8, 1.0), horizon="96", width="32")
    long = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.8, 1.0), horizon="336", width="64")
    cells = search_cells(pd.concat([short, long], ignore_index=True))
    assert sorted(cells["choice"]) == [f"model.dropout=0.{digit}" for digit in (1, 1, 3, 3)]


def test_inputs_besides_the_targets_are_choices() -> None:
    rows = jobs(
        ("horizon=96 data.calendar=null", 1, 0.9, 1.0),
        ("horizon=96 data.calendar=[hour_of_day]", 1, 0.8, 1.0),
        ("horizon=96 data.past_covariates=[oil]", 1, 0.7, 1.0),
    )
    cells = search_cells(rows)
    assert list(cells["choice"]) == ["data.past_covariates=[oil]", "data.calendar=[hour_of_day]", "data.calendar=null"]
    assert set(cells["cell"]) == {"horizon=96"}


def test_seeds_requested_with_fewer_overrides_belong_to_the_same_choice() -> None:
    words = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.75, 1.0))
    fewer = jobs(("model.dropout=0.1", 2, 0.7, 1.0)).assign(words=[[]], configuration="")
    cells = search_cells(pd.concat([words, fewer], ignore_index=True))
    assert list(zip(cells["choice"], cells["n"], strict=True)) == [("model.dropout=0.3", 1), ("model.dropout=0.1", 2)]


@pytest.mark.slow
def test_a_search_shows_no_test_score(tmp_path: Path) -> None:
    words = ["loss=mae,mse", "seed=1,2", "sweep.search=true", "sweep.name=found", "training.max_steps=2"]
    ended = command(tmp_path, *words)
    assert ended.code == 0
    folder = tmp_path / "sweeps" / "found"
    assert {path.name for path in folder.iterdir() if path.is_file()} == {"multirun.yaml", "search.csv"}
    table = pd.read_csv(folder / "search.csv")
    assert sorted(table["choice"]) == ["loss=mae", "loss=mse"]
    assert list(table["n"]) == [2, 2]
    assert not [column for column in table if "test" in column]
    output = ended.both.getvalue()
    assert "val. MSE" in output
    assert "of linear" in output
    assert "test MSE" not in output
    assert "skill" not in output
