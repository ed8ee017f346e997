from typing import Any

import pytest
import torch

from forecast.errors import InputError
from forecast.trainer_settings import TRAINER_KEYS_OF_OURS, choose_device
from tests.small import compose

CONFIG = compose()


def trainer(**changes: Any) -> dict[str, Any]:
    return {**CONFIG["trainer"], **changes}


@pytest.mark.parametrize("key", TRAINER_KEYS_OF_OURS)
def test_what_is_settled_outside_the_trainer_is_refused_there_with_its_home(key: str) -> None:
    with pytest.raises(InputError, match=rf"trainer\.{key}: is settled by {TRAINER_KEYS_OF_OURS[key]}"):
        choose_device(trainer(**{key: 1}))


@pytest.mark.parametrize(("key", "value"), [("devices", 2), ("devices", "auto"), ("accelerator", "tpu")])
def test_a_device_that_is_not_offered_is_refused(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"trainer.{key}={value}"):
        choose_device(trainer(**{key: value}))


def test_the_processor_is_used_where_it_is_asked_for_or_all_there_is() -> None:
    assert choose_device(trainer(accelerator="cpu")).type == "cpu"
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert choose_device(trainer(accelerator="auto")).type == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_a_gpu_that_is_not_there_is_refused(accelerator: str) -> None:
    with pytest.raises(InputError, match="torch finds no CUDA device here: use trainer=default"):
        choose_device(trainer(accelerator=accelerator))
