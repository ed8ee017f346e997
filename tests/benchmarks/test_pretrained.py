"""The card of the pretrained weights: the command of a stage."""

import shlex
from pathlib import Path

import pytest

from benchmarks.pretrained import command_of, write_weights
from forecast.common.errors import InputError
from forecast.common.files import write_json, write_sealed
from forecast.runs.run import FORMAT, MANIFEST, RESULT, Run
from forecast.runs.settings import Settings
from tests.support.small import compose

WORDS = ("experiment=pretrain", "training.max_steps=7", "data.series=9", "data.seed=2", "seed=3")


def test_the_command_of_a_stage_makes_its_training_again() -> None:
    for words in (WORDS, (*WORDS, "start_from=pretrained", "optimizer.lr=0.0005")):
        config = Settings.parse(compose(*words)).plain
        command = shlex.split(command_of(config))
        assert command[:2] == ["python", "train.py"]
        assert Settings.parse(compose(*command[2:])).plain == config


def test_weights_of_a_run_with_drivers_or_channels_are_refused(tmp_path: Path) -> None:
    for word in ("data.drivers=1", "data.channels=2"):
        config = Settings.parse(compose(*WORDS, word)).plain
        write_json(tmp_path / RESULT, {"config": config, "speed": {}})
        write_sealed(tmp_path / MANIFEST, {"format": FORMAT, "files": {}})
        with pytest.raises(InputError, match="has drivers or channels"):
            write_weights(Run(tmp_path), tmp_path / "weights")
        assert not (tmp_path / "weights").exists()


def test_a_start_from_a_run_is_named_without_its_folder() -> None:
    config = Settings.parse(compose(*WORDS)).plain | {"start_from": "/some/folder"}
    assert "start_from=…" in shlex.split(command_of(config))
