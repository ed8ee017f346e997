"""The custom attention of the README, installed as a user would do it."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small import QUICK, ROOT, SIMULATED, SMALL

SECTION = (
    (ROOT / "README.md").read_text(encoding="utf-8").partition("## Add your own attention")[2].partition("\n## ")[0]
)
FILES = re.findall(r"`([\w/]+/mine\.\w+)`[^\n]*\n\n```\w+\n(.*?)```", SECTION, re.DOTALL)
COMMANDS = re.findall(r"^python .*mine.*$", SECTION, re.MULTILINE)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the program with the two files of the README in it."""
    for folder in ("forecast", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", tmp_path)
    for name, content in FILES:
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def run(folder: Path, command: str, *more: str) -> str:
    """Run a command of the README in `folder` and return its output."""
    python, *words = shlex.split(command)
    assert python == "python"
    done = subprocess.run([sys.executable, *words, *more], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_shows_two_files_and_two_commands() -> None:
    assert [name for name, _ in FILES] == ["forecast/attention/mine.py", "conf/attention/mine.yaml"]
    assert [command.split()[:3] for command in COMMANDS] == [
        ["python", "-m", "forecast.check"],
        ["python", "train.py", "attention=mine"],
    ]


@pytest.mark.slow
def test_two_files_are_enough_to_check_and_train_an_attention(copy: Path) -> None:
    check, train = COMMANDS
    assert "checks pass for mine" in run(copy, check)
    small = ["training.max_steps=3", *SMALL["patch_informer"]]
    assert "attention mine" in run(copy, train, *SIMULATED, *QUICK, *small)
    assert len(list(copy.glob("outputs/synthetic/*/model.safetensors"))) == 1
