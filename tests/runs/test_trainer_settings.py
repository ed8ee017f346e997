from typing import Any

import pytest
import torch

from forecast.common.errors import InputError
from forecast.runs.settings import SET_ELSEWHERE, TrainerSettings
from tests.support.small import compose

CONFIG = compose()


def trainer(**changes: Any) -> TrainerSettings:
    return TrainerSettings.parse({**CONFIG["trainer"], **changes})


@pytest.mark.parametrize("key", SET_ELSEWHERE)
def test_an_option_of_another_group_is_refused_with_its_name_there(key: str) -> None:
    with pytest.raises(InputError, match=rf"trainer\.{key}: is set by {SET_ELSEWHERE[key]}"):
        trainer(**{key: 1}).device()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("devices", value) for value in (0, -1, 1.5, "two", "2", None, True, [0, 1])),
        *(("num_nodes", value) for value in (0, -1, 1.5, "two", None, True)),
        ("accelerator", "tpu"),
        ("strategy", "fsdp"),
    ],
)
def test_an_impossible_trainer_value_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"trainer\.{key}"):
        trainer(**{key: value}).count_processes()


@pytest.mark.parametrize(("devices", "nodes"), [(1, 1), (2, 1), (4, 3)])
def test_a_cpu_training_has_the_requested_number_of_processes(devices: int, nodes: int) -> None:
    assert trainer(accelerator="cpu", devices=devices, num_nodes=nodes).count_processes() == (devices, nodes)


def test_a_cpu_training_refuses_an_automatic_number_of_processes() -> None:
    with pytest.raises(InputError, match=r"trainer\.devices=auto: counts GPUs"):
        trainer(accelerator="cpu", devices="auto").count_processes()


def test_each_process_has_its_own_gpu_and_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert trainer(devices="auto", num_nodes=2).count_processes() == (4, 2)
    assert trainer(devices=3).count_processes() == (3, 1)
    assert trainer().device(local_rank=2) == torch.device("cuda:2")
    with pytest.raises(InputError, match=r"trainer\.devices=5: this process sees 4 CUDA devices"):
        trainer(devices=5).count_processes()


def test_the_cpu_is_used_if_requested_or_without_a_gpu() -> None:
    assert trainer(accelerator="cpu").device().type == "cpu"
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert trainer(accelerator="auto").device().type == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_an_absent_gpu_is_refused(accelerator: str) -> None:
    with pytest.raises(InputError, match="torch finds no CUDA device here: use trainer=default"):
        trainer(accelerator=accelerator).device()


def test_the_number_of_cpu_processes_is_bounded() -> None:
    with pytest.raises(InputError, match=r"trainer\.devices=1000000: .* at most \d+ processes"):
        trainer(accelerator="cpu", devices=1_000_000).count_processes()
