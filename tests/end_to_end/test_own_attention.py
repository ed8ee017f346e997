"""The mechanisms that README and tutorial have the reader write, put where a user would put them."""

import json
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


BEING_WRITTEN = "*.pyc.*"
"""Names of bytecode files that another process has not finished yet."""


def copied(folder: Path, name: str) -> Path:
    """Return a folder with a copy of the program and the two files of a mechanism."""
    for part in ("forecast", "conf"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(BEING_WRITTEN))
    shutil.copy(ROOT / "train.py", folder)
    for path, content in files_of(name):
        (folder / path).write_text(content, encoding="utf-8")
    return folder


IN_TURN = """
import json, runpy, sys
for words in json.loads(sys.argv[1]):
    print("begins:", *words)
    module = words[0] == "-m"
    sys.argv = words[module:]
    try:
        (runpy.run_module if module else runpy.run_path)(words[module], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
"""
"""Runs commands one after the other, so that the program is imported once."""


def run(folder: Path, *commands: str) -> list[str]:
    """Run commands of a page there, in one process, and return their outputs."""
    words = []
    for command in commands:
        python, *others = shlex.split(command)
        assert python == "python"
        words.append(others)
    process = [sys.executable, "-c", IN_TURN, json.dumps(words)]
    done = subprocess.run(process, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("begins:")[1:]


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
    small = [*SIMULATED, *QUICK, "training.max_steps=3", *SMALL["patch_informer"]]
    checked, trained = run(folder, check, f"{train} {shlex.join(small)}")
    assert f"checks pass for {name}" in checked
    assert f"attention {name}" in trained
    assert len(list(folder.glob("outputs/synthetic/*/model.safetensors"))) == 1
