import math
from typing import Any

import pytest

from forecast.training.tensorboard.logger import final_scalars
from tests.conftest import TinyRun


def test_every_number_of_a_result_has_a_tag(tiny_run: TinyRun) -> None:
    result: dict[str, Any] = tiny_run.result
    scalars = final_scalars(result)
    assert scalars["test/mse"] == result["test"]["scaled"]["mse"]
    assert scalars["test/mae_original"] == result["test"]["original"]["mae"]
    assert scalars["test/skill"] == result["test"]["skill"]
    assert scalars["test/rmse_original"] == result["test"]["original"]["rmse"]
    for name in ("smape", "wape", "mase"):
        assert scalars[f"test/{name}"] == result["test"]["original"][name]
        assert scalars[f"test_baseline/linear_{name}"] == result["baselines"]["linear"]["test"]["original"][name]
    assert scalars["val_best/mse"] == result["validation"]["scaled"]["mse"]
    assert scalars["test_baseline/linear_mse"] == result["baselines"]["linear"]["test"]["scaled"]["mse"]
    assert scalars["test_baseline/linear_path_mae"] == result["linear_path"]["test"]["scaled"]["mae"]
    assert scalars["model/parameters"] == result["model"]["parameters"]
    speed = {name.removeprefix("speed/") for name in scalars if name.startswith("speed/")}
    assert speed == {name for name, value in result["speed"].items() if math.isfinite(value)}
    assert len(speed) >= 8


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_missing_numbers_are_omitted(tiny_run: TinyRun, missing: float | None) -> None:
    result = {**tiny_run.result, "speed": {**tiny_run.result["speed"], "step_ms_p50": missing}, "linear_path": None}
    scalars = final_scalars(result)
    assert "speed/step_ms_p50" not in scalars
    assert not [name for name in scalars if "linear_path" in name]
    assert all(math.isfinite(value) for value in scalars.values())
