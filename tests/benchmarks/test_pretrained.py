"""The card of the pretrained weights: the command of a stage."""

import shlex

from benchmarks.pretrained import command_of
from forecast.runs.settings import Settings
from tests.support.small import compose

WORDS = ("experiment=pretrain", "training.max_steps=7", "data.series=9", "data.seed=2", "seed=3")


def test_the_command_of_a_stage_makes_its_training_again() -> None:
    for words in (WORDS, (*WORDS, "start_from=pretrained", "optimizer.lr=0.0005")):
        config = Settings.parse(compose(*words)).plain
        command = shlex.split(command_of(config))
        assert command[:2] == ["python", "train.py"]
        assert Settings.parse(compose(*command[2:])).plain == config


def test_a_start_from_a_run_is_named_without_its_folder() -> None:
    config = Settings.parse(compose(*WORDS)).plain | {"start_from": "/some/folder"}
    assert "start_from=…" in shlex.split(command_of(config))
