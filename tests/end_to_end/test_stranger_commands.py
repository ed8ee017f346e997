"""Every command on untrusted folders: no code is run or imported, nothing is fetched or written elsewhere."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from matplotlib import get_cachedir

from tests.conftest import TinyRun
from tests.support.small import ROOT, changed, quick, rewrite

MODULES = ("planted_code", "planted_data", "antigravity", "outputs")
"""Modules that the folders name; Python would find the first two."""

WRITABLE = ("results", "temporary")


@pytest.fixture(scope="module")
def place(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working folder with untrusted run folders."""
    root = tmp_path_factory.mktemp("strangers")
    for name in (*WRITABLE, "private", "outputs"):
        (root / name).mkdir()
    for name in MODULES[:2]:
        (root / f"{name}.py").write_text("class X: pass\n")
    (root / "private" / "secret.csv").write_bytes(tiny_run.source.read_bytes())
    attacks: Mapping[str, dict[str, Any]] = {
        "callback": {"callbacks__x": {"_target_": "planted_code.X"}},
        "nested": {"optimizer__lr": {"_target_": "planted_code.X"}},
        "logger": {"logger": {"_target_": "outputs.planted.X", "name": "../../../escaped"}},
        "looked_up": {"data__name": "${oc.env:HOME}"},
        "file": {"data": {**tiny_run.config["data"], "path": "private/secret.csv"}},
        "fetched": {
            "data": {
                **tiny_run.config["data"],
                **{"path": None, "file_name": "../planted_data.py", "url": "https://127.0.0.1:9/", "sha256": "0" * 64},
            }
        },
        "large": {"model__encoder_layers": 10**9, "trainer__devices": 10**6},
    }
    for name, values in attacks.items():
        folder = root / "outputs" / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(changed(quick(root / "results"), **values)))
    for name in ("preset", "mechanism", "horizon", "whole"):
        shutil.copytree(tiny_run.path, root / "outputs" / name)
    for name, way, value in (
        ("preset", ("preset",), "planted_code.X"),
        ("mechanism", ("mechanisms", "encoder"), {"name": "planted_code", "_target_": "planted_code.X"}),
        ("horizon", ("sizes", "horizon"), 10**9),
    ):
        _plant(root / "outputs" / name / "manifest.json", ("architecture", *way), value)
    whole = root / "outputs" / "whole"
    _plant(whole / "config.json", ("callbacks", "x"), {"_target_": "planted_code.X"})
    _plant(whole / "config.json", ("data", "path"), "private/secret.csv")
    _plant(whole / "result.json", ("data", "path"), "private/secret.csv")
    _plant(whole / "result.json", ("data", "name"), "antigravity")
    shutil.copytree(root / "outputs" / "callback", root / "results" / "sweeps" / "planted" / "job")
    return root


def _plant(path: Path, way: tuple[str, ...], value: Any) -> None:
    """Put a value into a JSON file of a run folder and update its manifest, as an attacker would."""
    content = node = json.loads(path.read_text())
    for key in way[:-1]:
        node = node[key]
    node[way[-1]] = value
    rewrite(path, content)


def commands(source: Path) -> list[tuple[list[str], int]]:
    """Return the commands with their exit codes."""
    unfinished = ("callback", "nested", "logger", "looked_up", "file", "fetched", "large")
    damaged = ("preset", "mechanism", "horizon")
    given = ["--input", str(source), "--output", "results/forecast.csv"]
    return [
        *((["training", f"resume=outputs/{name}"], 2) for name in unfinished),
        *((["predict", "--run", f"outputs/{name}", *given], 2) for name in damaged),
        (["predict", "--run", "outputs/whole", *given], 0),
        *((["export", "--run", f"outputs/{name}", "--output", "results/model.pt2"], 2) for name in damaged),
        *((["predict", "--run", f"outputs/{name}", "--attention", "mean", *given], 2) for name in damaged),
        (["predict", "--run", "outputs/whole", "--attention", "mean", *given], 0),
        (["report", "--runs", "outputs", "--output", "results"], 0),
        (["plan", "resume=outputs/callback"], 2),
        (["check", "planted_code"], 2),
        (["benchmark", "--help"], 0),
        (["record", "--record", "outputs/callback/config.json", "--dry-run"], 2),
        (["training", "-m", "seed=1", "output_dir=results", "sweep.name=planted", "trainer.accelerator=cpu"], 1),
    ]


@pytest.mark.exhaustive
def test_no_command_runs_code_of_an_untrusted_folder(place: Path, tiny_run: TinyRun) -> None:
    expected = commands(tiny_run.source)
    writable = [*WRITABLE, get_cachedir()]  # the font cache
    work = {"root": str(place), "writable": writable, "modules": MODULES, "commands": [words for words, _ in expected]}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(place / "temporary")}
    environment |= {"MPLCONFIGDIR": get_cachedir(), "OMP_NUM_THREADS": "1", "HYDRA_FULL_ERROR": "1"}
    environment.pop("FORECAST_DATA_DIR", None)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tests.support.stranger_commands"],
        **{"input": json.dumps(work) + "\n", "capture_output": True, "text": True, "cwd": ROOT, "env": environment},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert [(end["words"], end["code"]) for end in result["ended"]] == expected, result["ended"]
    assert result["seen"] == []
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(imported) > 1000  # the commands were imported
    for names in (result["asked"], result["loaded"], imported):
        assert [name for name in names if name.split(".")[0] in MODULES] == []
    for end in result["ended"]:
        assert "Traceback" not in end["error"]
    assert sorted(path.name for path in place.iterdir()) == sorted(
        [*WRITABLE, "private", "outputs", *(f"{name}.py" for name in MODULES[:2])]
    )
