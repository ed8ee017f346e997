"""`python train.py -m experiment=diagnostic`: the same mechanism in every place, known skill, and one more command."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.files import read_json
from forecast.data.diagnostic import best_mse, simulate
from forecast.data.settings import DataSettings
from tests.support.sweeps import typed

SMALL = [
    *("context_length=136", "data.windows=120", "model.d_model=8", "model.num_heads=2", "training.max_steps=2"),
    *(
        "trainer.accelerator=cpu",
        "trainer.log_every_n_steps=1",
        "training.precision=32-true",
        "~callbacks.figures",
        "seed=1",
        "sweep.isolate=false",
    ),
]


def ended(folder: Path, *words: str) -> None:
    done = typed("-m", "experiment=diagnostic", *SMALL, f"output_dir={folder}", *words)
    assert done.code in (0, None), done.both.getvalue()


@pytest.mark.slow
def test_two_commands_fill_one_report(tmp_path: Path, without_report: Callable[[Path], None]) -> None:
    ended(tmp_path, "data.kind=recall,linear", "optimizer.lr=0.001", "attention=linear,mean")
    events = ("data.kind=events", "data.types=3,8", "data.unit=4")
    ended(tmp_path, *events, "optimizer.lr=0.001", "attention=linear,mean")
    folder = tmp_path / "sweeps" / "diagnostic"
    results = [{**read_json(path), "folder": path.parent} for path in sorted(folder.glob("*/result.json"))]
    assert len(results) == 2 * 2 + 2 * 2
    for result in results:
        config, facts = result["config"], result["diagnostic"]
        assert config["cross_attention"] == config["attention"]
        data = config["data"]
        series = DataSettings.parse(data).diagnostic
        assert facts["best_mse"] == best_mse(series)
        assert facts["events"] == (2 if data["kind"] == "events" else 1)
        test, rows = facts["test"], result["baselines"]
        assert test["mse"] == result["test"]["original"]["mse"]
        simple = min(rows["last_value"]["test"]["original"]["mse"], rows["linear"]["test"]["original"]["mse"])
        assert test["simple_mse"] == simple
        if data["kind"] == "linear":
            assert test["share"] is None
            assert test["excess"] == test["mse"] / facts["best_mse"] - 1 > 0
        else:
            assert test["share"] == pytest.approx((simple - test["mse"]) / (simple - facts["best_mse"]))
            assert test["share"] < 1
        assert rows["seasonal_naive"] is None
        last = simulate(series)[-1]
        written = pd.read_csv(result["folder"] / "input.csv")["value"]
        np.testing.assert_allclose(written, last[:-8])  # the look-back of the last generated window
    without_report(folder)
    text = (folder / "report.md").read_text()
    assert "## Diagnostic series" in text
    assert "`events`, 2 events ahead, with 3 and 8 types: the share of the achievable skill first falls below" in text
