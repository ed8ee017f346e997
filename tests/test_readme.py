"""What the README says is what the program does."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from forecast import attention
from forecast.checking.arguments import attention_arguments
from forecast.checking.candidate import Candidate
from forecast.checking.declared import BEGIN, END, markdown
from forecast.folders import configuration_folder

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = [
    record
    for name in ("etth1.csv", "pjme.csv")
    for record in csv.DictReader((ROOT / "benchmarks" / name).read_text(encoding="utf-8").splitlines())
]


def _commands() -> list[list[str]]:
    recorded = [record["command"] for record in RECORDS if record["command"]]
    shown = re.findall(r"python train\.py[^\n`|]*", README)
    # the reader's own attention is trained in test_own_attention.py
    return [shlex.split(command) for command in [*shown, *recorded] if "attention=mine" not in command]


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_every_training_command_composes(command: list[str]) -> None:
    overrides = [word.split(",")[0] for word in command[2:] if word != "-m"]  # of a sweep, its first job
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", overrides)
    OmegaConf.to_container(config, resolve=True, throw_on_missing=True)


def test_set_up_is_two_commands_within_the_first_twenty_lines() -> None:
    top = "\n".join(README.splitlines()[:20])
    assert "pip install -e . && python train.py" in top
    assert 'pip install -e ".[test]" && pytest' in top


def test_the_attention_table_is_what_the_classes_declare() -> None:
    candidates = [Candidate(arguments) for arguments in attention_arguments(attention.available()).values()]
    written = README.partition(BEGIN)[2].partition(END)[0].strip()
    assert written == markdown(candidates), "run: python -m forecast.check --write README.md"


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
