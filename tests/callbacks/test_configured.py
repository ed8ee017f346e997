from typing import Any

import pytest

from forecast.callbacks.configured import configured
from forecast.errors import InputError
from tests.small import changed, compose


@pytest.fixture(scope="module")
def nodes() -> dict[str, Any]:
    group = compose()["callbacks"]
    assert isinstance(group, dict)
    return group


def test_the_default_group_gives_one_callback_a_node(nodes: dict[str, Any]) -> None:
    names = [type(callback).__name__ for callback in configured(nodes)]
    assert names == ["EarlyStopping", "LearningRateMonitor", "Figures", "Probe"]
    assert configured({}) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"early_stopping__patience": "abc"}, "early_stopping.patience=abc"),
        ({"early_stopping__patience": 0}, "at least 1"),
        ({"early_stopping__monitor": "val/foo"}, "val/mse"),
        ({"early_stopping__foo": 1}, "'foo'"),
        ({"learning_rate__logging_interval": "foo"}, "callbacks.learning_rate"),
        ({"figures__windows": 0}, "callbacks.figures"),
        ({"probe__windows": 0}, "callbacks.probe"),
        ({"early_stopping": None}, "takes it out"),
        ({"early_stopping": 5}, "needs a _target_"),
        ({"mine": {"_target_": "builtins.dict"}}, "no callback"),
        ({"mine": {"_target_": "nowhere.Nothing"}}, "callbacks.mine"),
    ],
)
def test_what_would_fail_in_the_middle_of_a_run_is_refused_before_it(
    nodes: dict[str, Any], values: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        configured(changed(nodes, **values))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
