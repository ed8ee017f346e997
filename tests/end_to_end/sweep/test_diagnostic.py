"""`python train.py -m experiment=diagnostic`: the same mechanism in every place, known skill, and one more command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.files import read_json
from forecast.data.generated.diagnostic import best_mse, simulate
from forecast.data.settings import DataSettings
from forecast.predict.__main__ import main as predict
from tests.report.made import no_pictures
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


def _check_input(run: Path, output: Path) -> None:
    """Check that the command that a run prints forecasts what the run did; its last test window is the input."""
    assert predict(["--run", str(run), "--input", str(run / "input.csv"), "--output", str(output)]) == 0
    ours, its = (pd.read_csv(path, index_col="date")["value"] for path in (output, run / "forecast.csv"))
    pd.testing.assert_series_equal(ours, its, rtol=1e-5)


@pytest.mark.exhaustive
def test_two_commands_fill_one_report(
    tmp_path: Path, without_report: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", no_pictures)
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
        known = int(data["kind"] == "events")
        np.testing.assert_allclose(written.dropna(), last[:-8])  # the look-back of the last generated window
        assert len(written) - written.count() == 8 * known
        _check_input(result["folder"], tmp_path / "next.csv")
    without_report(folder)
    text = (folder / "report.md").read_text()
    assert "## Diagnostic series" in text
    assert "`events`, 2 events ahead, with 3 and 8 types: the share of the achievable skill first falls below" in text


def test_one_value_in_place_of_the_experiments_list_is_in_the_names(
    tmp_path: Path, fake: Callable[[Callable[..., Any]], list[str]]
) -> None:
    """So that a further command does not meet the folders of an earlier one."""
    called = fake(lambda _: 1.0)
    for kind in ("selective", "level"):
        ended(tmp_path, f"data.kind={kind}", "optimizer.lr=0.001", "attention=full")
    assert called == [f"attention-full_kind-{kind}_lr-0.001_seed-1" for kind in ("selective", "level")]
