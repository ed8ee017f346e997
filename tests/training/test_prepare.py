from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback

from forecast.common.errors import InputError
from forecast.training.prepare import make_callbacks
from forecast.training.train import train
from tests.support.small import changed, compose, quick

LEARNING_RATE = "lightning.pytorch.callbacks.LearningRateMonitor"


@pytest.fixture(scope="module")
def nodes() -> dict[str, Any]:
    group = compose()["callbacks"]
    assert isinstance(group, dict)
    return group


def test_the_default_group_makes_one_callback_per_entry(nodes: dict[str, Any]) -> None:
    names = [type(callback).__name__ for callback in make_callbacks(nodes)]
    assert names == ["EarlyStopping", "LearningRateMonitor", "Figures", "Probe"]
    assert make_callbacks({}) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"early_stopping__patience": "abc"}, "early_stopping.patience=abc"),
        ({"early_stopping__patience": 0}, "at least 1"),
        ({"early_stopping__monitor": "val/foo"}, "val/mse"),
        ({"early_stopping__foo": 1}, "'foo'"),
        ({"learning_rate__logging_interval": "foo"}, "callbacks.learning_rate"),
        ({"figures__windows": 0}, "callbacks.figures"),
        ({"probe__windows": 0}, "callbacks.probe"),
        ({"early_stopping": None}, "removes it"),
        ({"early_stopping": 5}, "needs a _target_"),
        ({"mine": {"_target_": "builtins.dict"}}, "must be a Callback of"),
        ({"mine": {"_target_": "nowhere.Nothing"}}, "callbacks.mine"),
        (
            {"mine": {"_target_": LEARNING_RATE, "logging_interval": {"_target_": "os.makedirs"}}},
            "logging_interval._ta",
        ),
        ({"mine": {"_target_": LEARNING_RATE, "_partial_": True}}, "callbacks.mine._partial_"),
        (
            {"mine": {"_target_": LEARNING_RATE, "more": [{"x": {"_target_": "os.makedirs"}}]}},
            "mine.more[0].x._target_",
        ),
    ],
)
def test_a_callback_that_would_fail_during_the_run_is_refused(
    nodes: dict[str, Any], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_callbacks(changed(nodes, **values))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "node",
    [
        {"_target_": "lightning.pytorch.callbacks.StochasticWeightAveraging", "swa_lrs": 0.01},
        {"_target_": "lightning.pytorch.callbacks.EMAWeightAveraging"},
        {"_target_": "lightning.pytorch.callbacks.LearningRateFinder"},
    ],
    ids=lambda node: node["_target_"].rpartition(".")[2],
)
def test_a_callback_that_changes_the_loop_is_refused(node: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"callbacks\.mine: .*: changes weights, steps or rates .* ~callbacks.mine removes"
    ):
        make_callbacks({"mine": node})


def test_targets_other_than_callbacks_are_never_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(InputError, match="must be a Callback of"):
        make_callbacks({"mine": {"_target_": "os.makedirs", "name": str(made)}})
    with pytest.raises(InputError, match="no object may be built inside"):
        make_callbacks({"mine": {"_target_": LEARNING_RATE, "x": {"_target_": "os.makedirs", "name": str(made)}}})
    assert not made.exists()


class Wanting(Callback):
    """Callback that needs a missing package and notices when the training begins."""

    def setup(self, *_: object, **__: object) -> None:
        raise ModuleNotFoundError("nothing: `Wanting` needs it.\nHINT: pip install nothing")


def test_a_callback_with_a_missing_package_is_refused_in_one_line(tmp_path: Path) -> None:
    config = quick(tmp_path / "outputs", f"+callbacks.mine._target_={__name__}.Wanting")
    with pytest.raises(InputError, match=r"needs a package that is not installed: nothing: `Wanting` needs it\.$"):
        train(config)
