"""The calibration of a model fits its forecast."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from forecast.common.errors import InputError
from forecast.evaluation.intervals import Calibration
from forecast.model.presets import Sizes
from forecast.predict.facts import calibration_of_text, encoded, starts_line
from forecast.predict.forecaster import Forecaster
from tests.conftest import TinyRun

DECILES, QUARTILES = (0.1, 0.3, 0.5, 0.7, 0.9), (0.25, 0.5, 0.75)


@pytest.mark.parametrize("trained", [(), DECILES, QUARTILES])
@pytest.mark.parametrize("levels", [(), DECILES, QUARTILES])
def test_a_calibration_for_other_quantiles_is_refused(trained: tuple[float, ...], levels: tuple[float, ...]) -> None:
    """With trained levels it would read quantiles that a point forecast lacks; without, take one for the forecast."""
    scores = torch.zeros(40, 3, 2, max(1, len(trained) // 2))
    text = encoded(save(Calibration(scores, trained).tensors()))
    sizes = Sizes(2, 0, 0, 24, 3, quantiles=list(levels))
    if trained == levels:
        assert calibration_of_text(text, Path("m.onnx"), sizes).plain.trained == trained
        return
    with pytest.raises(InputError, match=r"^m.onnx: its calibration is damaged \(it is for other quantiles than"):
        calibration_of_text(text, Path("m.onnx"), sizes)


def test_the_starts_of_averaged_models_are_named_if_they_differ(tiny_run: TinyRun) -> None:
    scratch = Forecaster.load(tiny_run.path).facts
    began = replace(scratch, start={"kind": "pretrained", "weights": "998b6d22ea"})
    later = replace(scratch, start={"kind": "run", "run": "outputs/a", "weights": "ab"})
    assert starts_line([scratch, scratch]) is None
    assert starts_line([scratch, began, later, began]) == (
        "the runs began with random weights, the pretrained network 998b6d22 and the weights of outputs/a"
    )
