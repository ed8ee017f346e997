"""Options of a training as Python values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecast.common.configuration import without_null
from forecast.common.errors import InputError
from forecast.training.options import Options
from tests.support.small import compose

TABLE = Path("my table.parquet")


def composed(options: Options) -> dict[str, Any]:
    """Return the configuration of the words of the command line."""
    return {"logger": {}, **compose(*without_null(options.words(TABLE)))}


@pytest.mark.parametrize(
    "given",
    [
        {"horizon": 12, "targets": ["Load (MW)", "oil"], "training": {"max_steps": np.int64(3), "max_time": None}},
        {"attention": {"name": "probsparse", "factor": 9}, "cross_attention": "mean", "loss": "mse"},
        {"split": {"train": 0.7, "validation": 0.1, "test": 0.2}, "optimizer": {"lr": 1e-05}, "logger": None},
        {"experiment": "informer", "horizon": np.int64(24), "model": {"d_model": 8}, "decoder_attention": "full"},
        {"callbacks": {"early_stopping": {"patience": 3}}, "missing_values": (-9999,), "data": {"missing": "mask"}},
    ],
)
def test_the_words_of_the_command_line_give_the_same_settings(given: dict[str, object]) -> None:
    options = Options.of(given)
    assert options.settings(TABLE)[0].plain == {
        **composed(options),
        "data": {**composed(options)["data"], "name": "my-table"},
    }


def test_an_option_that_other_options_follow_is_followed() -> None:
    options = Options.of({"experiment": "diagnostic", "attention": {"name": "probsparse", "factor": 9}})
    assert options.settings(TABLE)[0].cross_attention["factor"] == 9


def test_a_name_with_a_dollar_is_a_name() -> None:
    assert Options.of({"targets": ["${seed}"]}).settings(TABLE)[0].data.targets == ["${seed}"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "my.csv"}, "path: the frame is the data: leave it out"),
        ({"output_dir": "x"}, "output_dir: folder= names the run folder"),
        ({"seed": object()}, "seed=<object .*: must be text, a number, a list or a dict"),
        ({"logger": ["csv", "x"]}, "logger='x': choose one of"),
        ({"ensemble": 0}, "ensemble=0: must be a whole number from 1"),
        ({"trainer": "smoke", "experiment": "general"}, "trainer=smoke: the experiment sets training.max_steps"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options.of(given).settings(TABLE)
