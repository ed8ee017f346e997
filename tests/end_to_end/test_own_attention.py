"""The mechanisms that README and tutorial have the reader write, put where a user would put them."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small import QUICK, ROOT, SIMULATED, SMALL

PAGES = {"mine": "README.md", "recency": "docs/tutorials/add-an-attention.md"}
"""The mechanism that a page has the reader write."""


def text_of(name: str) -> str:
    """Return the page about a mechanism; of the README the section."""
    text = (ROOT / PAGES[name]).read_text(encoding="utf-8")
    return text.partition("## Add your own attention")[2].partition("\n## ")[0] if PAGES[name] == "README.md" else text


def files_of(name: str) -> list[tuple[str, str]]:
    """Return the names and the contents of the files that a page shows."""
    return re.findall(rf"`([\w/]+/{name}\.\w+)`[^\n]*\n\n```\w+\n(.*?)```", text_of(name), re.DOTALL)


def commands_of(name: str) -> list[str]:
    """Return the commands with which a page checks its mechanism and trains with it."""
    return re.findall(rf"^python (?:-m forecast\.check|train\.py) .*\b{name}\b.*$", text_of(name), re.MULTILINE)[:2]


def copied(folder: Path, name: str) -> Path:
    """Return a folder with a copy of the program and the two files of a mechanism."""
    for part in ("forecast", "conf"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", folder)
    for path, content in files_of(name):
        (folder / path).write_text(content, encoding="utf-8")
    return folder


def run(folder: Path, command: str, *more: str) -> str:
    """Run a command of a page there and return its output."""
    python, *words = shlex.split(command)
    assert python == "python"
    done = subprocess.run([sys.executable, *words, *more], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_two_files_and_two_commands(name: str) -> None:
    assert [path for path, _ in files_of(name)] == [f"forecast/attention/{name}.py", f"conf/attention/{name}.yaml"]
    assert [command.split()[:3] for command in commands_of(name)] == [
        ["python", "-m", "forecast.check"],
        ["python", "train.py", f"attention={name}"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive if place else ()) for place, name in enumerate(PAGES)]
)
def test_two_files_are_all_it_takes_to_check_and_train_an_attention(name: str, tmp_path: Path) -> None:
    folder = copied(tmp_path, name)
    check, train = commands_of(name)
    assert f"checks pass for {name}" in run(folder, check)
    small = ["training.max_steps=3", *SMALL["patch_informer"]]
    assert f"attention {name}" in run(folder, train, *SIMULATED, *QUICK, *small)
    assert len(list(folder.glob("outputs/synthetic/*/model.safetensors"))) == 1
