"""A search shows, ranks and writes what validation says, and nothing of the test part."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.training.sweep.search import ranking, search_cells
from tests.conftest import LIGHTNING
from tests.support.sweeps import command

pytestmark = [pytest.mark.usefixtures("undrawn"), *(pytest.mark.filterwarnings(text) for text in LIGHTNING)]


def jobs(*rows: tuple[str, int, float, float], device: str = "x", **other: Any) -> pd.DataFrame:
    """Return finished jobs: configuration, seed, validation MSE of the model and of the linear map.

    Their settings are the words; `other` ones stand in no word. What they forecast is the word of `data` or
    `experiment`, or else some file, at the horizon that a word or `other` says.
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


def test_the_ranking_is_by_the_mean_over_cells_of_the_ratio_to_the_linear_map() -> None:
    found = jobs(
        ("horizon=96 model.dropout=0.3", 1, 0.9, 1.0),
        ("horizon=96 model.dropout=0.3", 2, 1.1, 1.0),
        ("horizon=336 model.dropout=0.3", 1, 1.6, 2.0),
        ("horizon=96 model.dropout=0.5", 1, 0.7, 1.0),
        ("horizon=336 model.dropout=0.5", 1, 2.4, 2.0),
        ("horizon=96 model.dropout=0.7", 1, 0.1, 1.0),
    )
    ranked = ranking(search_cells(found)).set_index("choice")
    assert list(ranked.index) == ["model.dropout=0.3", "model.dropout=0.5", "model.dropout=0.7"]  # it lacks a cell
    assert list(ranked["mean"]) == pytest.approx([0.9, 0.95, 0.1])
    assert list(ranked["n"]) == [3, 2, 1]
    assert list(ranked["most"]) == pytest.approx([1.0, 1.2, 0.1])


def test_a_look_back_whose_own_linear_map_is_bad_ranks_no_higher_for_it() -> None:
    found = jobs(
        ("horizon=96 context_length=96", 1, 0.98, 1.4),
        ("horizon=96 context_length=512", 1, 0.95, 1.0),
    )
    ranked = ranking(search_cells(found)).set_index("choice")
    assert list(ranked.index) == ["context_length=512", "context_length=96"]
    assert list(ranked["mean"]) == pytest.approx([0.95, 0.98])


def test_a_choice_is_called_surely_worse_where_its_windows_say_so_and_not_for_a_better_mean_alone(
    tmp_path: Path,
) -> None:
    rng, found = np.random.default_rng(1), []
    hard = rng.gamma(2, 0.25, 3000)
    by_chance = np.repeat(np.resize([-0.3, 0.31], 30), 100)  # blocks of windows, now better and now worse
    for place, (mse, own) in enumerate(((hard, 0.5), (hard + 0.05, 0.55), (hard + by_chance, 0.505))):
        folder = tmp_path / str(place)
        folder.mkdir()
        config = {"horizon": 96, "training": {"evaluation_stride": 1}}
        (folder / "result.json").write_text(json.dumps({"config": config}))
        origins = pd.date_range("2020-01-01", periods=len(mse), freq="h")
        tables = [pd.DataFrame({"part": part, "origin": origins, "mse": mse}) for part in ("validation", "test")]
        pd.concat(tables).to_parquet(folder / "errors.parquet")
        found.append(jobs((f"horizon=96 model.dropout=0.{place}", 1, own, 1.0)).assign(folder=str(folder)))
    cells = search_cells(pd.concat([*found, jobs(("horizon=96 model.dropout=0.9", 1, 0.9, 1.0))], ignore_index=True))
    assert list(cells["surely_worse"]) == [False, False, True, None]
    assert list(ranking(cells)["worse"]) == [0, 0, 1, 0]
    assert list(ranking(cells)["told"]) == [1, 1, 1, 0]
    assert "folders" not in cells


def test_where_validation_holds_few_blocks_nothing_is_called_worse_or_not(tmp_path: Path) -> None:
    found = []
    for place in range(2):
        folder = tmp_path / str(place)
        folder.mkdir()
        config = {"horizon": 336, "training": {"evaluation_stride": 1}}
        (folder / "result.json").write_text(json.dumps({"config": config}))
        origins = pd.date_range("2020-01-01", periods=8 * 336 - 1, freq="h")
        pd.DataFrame({"part": "validation", "origin": origins, "mse": 0.5 + place}).to_parquet(
            folder / "errors.parquet"
        )
        found.append(jobs((f"horizon=336 model.dropout=0.{place}", 1, 0.5 + place, 1.0)).assign(folder=str(folder)))
    cells = search_cells(pd.concat(found, ignore_index=True))
    assert list(cells["surely_worse"]) == [None, None]
    assert list(ranking(cells)["told"]) == [0, 0]


def test_the_cells_are_in_the_order_of_the_ranking() -> None:
    found = jobs(
        ("data=etth1 loss=mae", 1, 2.0, 1.0),
        ("data=etth2 loss=mse", 1, 0.5, 1.0),
        ("data=etth1 loss=mse", 1, 1.0, 1.0),
    )
    cells = search_cells(found)
    assert list(cells["choice"]) == ["loss=mse", "loss=mse", "loss=mae"]
    assert list(cells["cell"]) == ["data=etth2", "data=etth1", "data=etth1"]


def test_seeds_that_ran_with_other_threads_are_of_one_cell() -> None:
    found = pd.concat(
        [
            jobs(("model.dropout=0.1", 1, 2.0, 1.0), device="one thread"),
            jobs(("model.dropout=0.1", 2, 2.0, 1.0), device="two threads"),
            jobs(("model.dropout=0.3", 1, 0.7, 1.0), ("model.dropout=0.3", 2, 0.7, 1.0), device="one thread"),
        ],
        ignore_index=True,
    )
    cells = search_cells(found)
    assert list(cells["choice"]) == ["model.dropout=0.3", "model.dropout=0.1"]
    assert list(cells["n"]) == [2, 2]
    assert list(cells["device"]) == ["one thread", "one thread; two threads"]


def test_experiments_that_go_each_with_its_data_are_cells_and_no_choices() -> None:
    found = jobs(
        ("experiment=etth1 model.dropout=0.1", 1, 0.9, 1.0),
        ("experiment=etth1 model.dropout=0.3", 1, 1.0, 1.0),
        ("experiment=etth2 model.dropout=0.1", 1, 0.27, 0.3),
        ("experiment=etth2 model.dropout=0.3", 1, 0.3, 0.3),
    )
    cells = search_cells(found)
    assert list(cells["choice"]) == [f"model.dropout=0.{digit}" for digit in (1, 1, 3, 3)]
    assert list(cells["cell"]) == ["experiment=etth1", "experiment=etth2"] * 2
    assert list(cells["of_linear"]) == pytest.approx([0.9, 0.9, 1.0, 1.0])


def test_experiments_over_the_same_data_are_choices() -> None:
    found = jobs(("data=mine experiment=a", 1, 0.9, 1.0), ("data=mine experiment=b", 1, 1.0, 1.0))
    assert list(search_cells(found)["choice"]) == ["experiment=a", "experiment=b"]


def test_other_data_are_another_cell_though_no_word_of_a_job_says_so() -> None:
    first = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 1.0, 1.0), sha256="one")
    second = jobs(("model.dropout=0.1", 1, 0.27, 0.3), ("model.dropout=0.3", 1, 0.3, 0.3), sha256="two")
    cells = search_cells(pd.concat([first, second], ignore_index=True))
    assert list(cells["cell"]) == ["sha256=one", "sha256=two"] * 2
    assert list(cells["of_linear"]) == pytest.approx([0.9, 0.9, 1.0, 1.0])


def test_a_horizon_that_is_swept_in_one_command_and_said_in_another_is_one_cell() -> None:
    swept = jobs(("horizon=96 model.dropout=0.1", 1, 0.9, 1.0), ("horizon=336 model.dropout=0.1", 1, 0.9, 1.0))
    said = jobs(("model.dropout=0.5", 1, 0.8, 1.0), horizon="96")
    cells = search_cells(pd.concat([swept, said], ignore_index=True))
    assert sorted(zip(cells["choice"], cells["cell"], strict=True)) == [
        ("model.dropout=0.1", "horizon=336"),
        ("model.dropout=0.1", "horizon=96"),
        ("model.dropout=0.5", "horizon=96"),
    ]


def test_other_constants_under_the_same_words_are_other_choices_and_say_so() -> None:
    found = pd.concat([jobs(("loss=mae", 1, 0.9, 1.0), lr=rate) for rate in ("0.1", "0.2")], ignore_index=True)
    assert sorted(search_cells(found)["choice"]) == ["loss=mae (lr=0.1)", "loss=mae (lr=0.2)"]


def test_what_two_commands_set_without_saying_so_stands_behind_every_choice_that_does_not_say_it() -> None:
    narrow = jobs(("model.dropout=0.3", 1, 0.9, 1.0), **{"model.d_model": "32"})
    wide = jobs(("model.dropout=0.1", 1, 0.8, 1.0), **{"model.d_model": "64"})
    said = jobs(("model.dropout=0.1 model.d_model=16", 1, 0.7, 1.0))
    assert sorted(search_cells(pd.concat([narrow, wide, said], ignore_index=True))["choice"]) == [
        "model.dropout=0.1 (model.d_model=64)",
        "model.dropout=0.1 model.d_model=16",
        "model.dropout=0.3 (model.d_model=32)",
    ]
    # where one of them says it, the other is what the experiment has
    assert sorted(search_cells(pd.concat([narrow, said], ignore_index=True))["choice"]) == [
        "model.dropout=0.1 model.d_model=16",
        "model.dropout=0.3",
    ]


def test_what_comes_with_a_word_is_not_said_again_and_what_a_group_does_not_settle_is() -> None:
    found = [
        jobs((f"attention@cross_attention={name}", 1, 0.9, 1.0), **{"cross_attention.name": name, "lr": rate})
        for name, rate in (("full", "0.1"), ("mean", "0.1"), ("mean", "0.2"))
    ]
    for each in found:
        each["settings"] = [{key: row[key] for key in row if "@" not in key} for row in each["settings"]]
    assert sorted(search_cells(pd.concat(found, ignore_index=True))["choice"]) == [
        "attention@cross_attention=full (lr=0.1)",
        "attention@cross_attention=mean (lr=0.1)",
        "attention@cross_attention=mean (lr=0.2)",
    ]


def test_what_differs_between_cells_alone_makes_no_choice_another() -> None:
    short = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.8, 1.0), horizon="96", width="32")
    long = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.8, 1.0), horizon="336", width="64")
    cells = search_cells(pd.concat([short, long], ignore_index=True))
    assert sorted(cells["choice"]) == [f"model.dropout=0.{digit}" for digit in (1, 1, 3, 3)]


def test_what_a_model_is_given_beside_the_targets_is_a_choice() -> None:
    found = jobs(
        ("horizon=96 data.calendar=null", 1, 0.9, 1.0),
        ("horizon=96 data.calendar=[hour_of_day]", 1, 0.8, 1.0),
        ("horizon=96 data.past_covariates=[oil]", 1, 0.7, 1.0),
    )
    cells = search_cells(found)
    assert list(cells["choice"]) == ["data.past_covariates=[oil]", "data.calendar=[hour_of_day]", "data.calendar=null"]
    assert set(cells["cell"]) == {"horizon=96"}


def test_seeds_that_were_asked_for_with_fewer_words_are_of_the_same_choice() -> None:
    words = jobs(("model.dropout=0.1", 1, 0.9, 1.0), ("model.dropout=0.3", 1, 0.75, 1.0))
    fewer = jobs(("model.dropout=0.1", 2, 0.7, 1.0)).assign(words=[[]], configuration="")
    cells = search_cells(pd.concat([words, fewer], ignore_index=True))
    assert list(zip(cells["choice"], cells["n"], strict=True)) == [("model.dropout=0.3", 1), ("model.dropout=0.1", 2)]


def test_a_search_says_nothing_of_the_test_part(tmp_path: Path) -> None:
    ended = command(tmp_path, "loss=mae,mse", "seed=1,2", "sweep.search=true", "sweep.name=found")
    assert ended.code == 0
    folder = tmp_path / "sweeps" / "found"
    assert {path.name for path in folder.iterdir() if path.is_file()} == {"multirun.yaml", "search.csv"}
    table = pd.read_csv(folder / "search.csv")
    assert sorted(table["choice"]) == ["loss=mae", "loss=mse"]
    assert list(table["n"]) == [2, 2]
    assert not [column for column in table if "test" in column]
    said = ended.both.getvalue()
    assert "val. MSE" in said
    assert "of linear" in said
    assert "test MSE" not in said
    assert "skill" not in said
