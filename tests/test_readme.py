"""What the README says is what the program does."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from forecast import attention
from forecast.configuration import configuration_folder

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = list(csv.DictReader((ROOT / "benchmarks" / "etth1.csv").read_text(encoding="utf-8").splitlines()))


def _commands() -> list[list[str]]:
    recorded = [record["command"] for record in RECORDS if record["command"]]
    shown = re.findall(r"python train\.py[^\n`|]*", README)
    return [shlex.split(command) for command in [*shown, *recorded]]


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_every_training_command_composes(command: list[str]) -> None:
    overrides = [word for word in command[2:] if word != "-m"]
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", overrides)
    OmegaConf.to_container(config, resolve=True, throw_on_missing=True)


def test_set_up_is_two_commands_within_the_first_twenty_lines() -> None:
    top = "\n".join(README.splitlines()[:20])
    assert "pip install -e . && python train.py" in top
    assert 'pip install -e ".[test]" && pytest' in top


def test_the_attention_table_is_what_the_classes_declare() -> None:
    for name in attention.available():
        with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
            config = OmegaConf.to_container(compose("config", [f"attention={name}"]).attention)
        assert isinstance(config, dict)
        mechanism = attention.build(**config, num_heads=1, head_dim=4, max_key_length=8)
        pairs = "yes" if mechanism.accepts_pair_mask else "no"
        cells = [f"`{name}`", mechanism.time_cost, mechanism.memory_cost, mechanism.causal_ability, pairs]
        assert f"| {' | '.join(cells)} |" in README


def test_the_result_table_is_the_record() -> None:
    assert RECORDS
    for record in RECORDS:
        cells = f"| {float(record['test_mse']):.3f} | {float(record['test_mae']):.3f} |"
        rows = [line for line in README.splitlines() if line.startswith("|") and cells in line]
        assert any(record["label"] in row for row in rows), record["label"]


def test_every_file_that_the_readme_names_is_there() -> None:
    for name in re.findall(r"\]\(([\w/.]+)\)", README) + re.findall(r"`((?:forecast|conf|data)/[\w/]+\.\w+)`", README):
        if "mine" not in name:
            assert (ROOT / name).exists(), name
