"""Opening a run: imports, pickles, damaged files, values that are not finite."""

import hashlib
import io
import math
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from forecast.common.errors import InputError, NotFiniteError
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from tests.conftest import TinyRun
from tests.support.forecasts import edit, expect_one_line, forecast, put
from tests.support.small import HORIZON, ROOT, seal, snapshot

# --- imports and damaged files


FORECASTS_WITHOUT = {
    *("lightning", "hydra", "omegaconf", "sklearn", "scipy", "tensorboard", "rich", "sympy"),
    *("onnx", "onnxruntime", "onnxscript", "torch._dynamo", "torch._inductor"),
}
"""Modules that `predict` must not import: they are slow to import and not needed."""


@pytest.mark.slow
def test_a_forecast_imports_no_module_of_training_or_export(tiny_run: TinyRun, tmp_path: Path) -> None:
    """Modules stay imported: a line of the script that imports one shows in the next printed line."""
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--output", str(tmp_path / "next.csv")]
    script = (
        "import sys\n"
        "def show(*names):\n"
        "    print(sorted({*names} & set(sys.modules)))\n"
        f"unused = {sorted(FORECASTS_WITHOUT)!r}\n"
        "import forecast\nshow('torch', 'pandas', *unused)\n"
        "import forecast.predict\nshow('torch', 'pandas', *unused)\n"
        "from forecast.predict.__main__ import main\nshow('torch', 'pandas', *unused)\n"
        f"import pandas as pd\nframe = pd.read_csv({str(tiny_run.source)!r})\n"
        f"forecast.load({str(tiny_run.path)!r}).predict(frame)\nshow('torch', *unused)\n"
        f"code = main({words!r})\nshow('torch', *unused)\nprint(code)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    lines = ended.stdout.splitlines()
    assert lines[:4] == ["[]", "[]", "[]", "['torch']"], ended.stderr
    assert lines[-2:] == ["['torch']", "0"], ended.stderr


def test_the_forecast_is_written_before_it_is_drawn(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_written = []
    monkeypatch.setattr(
        "forecast.common.pictures.draw_forecast", lambda *_, **__: is_written.append((tmp_path / "f.csv").is_file())
    )
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "f.csv") == 0
    assert is_written == [True]


class Hostile:
    """Object that makes a file, the canary, when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.canary,))


def hostile_zip(canary: Path) -> bytes:
    """Return a torch checkpoint with a hostile pickle."""
    file = io.BytesIO()
    torch.save({"state_dict": Hostile(canary)}, file)
    return file.getvalue()


def test_unpickling_makes_the_canary(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Hostile(canary)))
    assert canary.exists()


def test_pickles_beside_the_weights_are_never_opened(copied: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("model.pkl", "model.pt", "config.pkl", "scaler.pkl", "checkpoints/model.pkl"):
        (copied / name).write_bytes(pickle.dumps(Hostile(canary)))
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "model.ckpt"):
        (copied / name).write_bytes(hostile_zip(canary))
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 0
    assert not canary.exists()


@pytest.mark.parametrize("known", [False, True], ids=["hash differs", "hash forged"])
@pytest.mark.parametrize("kind", ["pickle", "checkpoint", "zip", "empty", "cut", "noise"])
def test_a_file_without_weights_is_refused_and_not_unpickled(
    kind: str, known: bool, copied: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary, weights = tmp_path / "canary", copied / "model.safetensors"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Hostile(canary)))
    contents = {
        "pickle": pickle.dumps(Hostile(canary)),
        "checkpoint": hostile_zip(canary),
        "zip": archive.getvalue(),
        "empty": b"",
        "cut": weights.read_bytes()[:-100],
        "noise": b"\xff" * 1000,
    }
    weights.write_bytes(contents[kind])
    if known:
        digest = hashlib.sha256(contents[kind]).hexdigest()
        edit(copied, lambda manifest: manifest["files"]["model.safetensors"].update(sha256=digest))
    before = snapshot(tmp_path)
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    assert "run" in expect_one_line(capsys)
    assert snapshot(tmp_path) == before
    assert not canary.exists()


EDITS: list[tuple[tuple[str, ...], Any]] = [
    (("format",), 5), (("format",), ...), (("architecture",), ...), (("architecture",), 5), (("data",), ...),
    (("data",), []), (("scaler",), ...), (("files",), ...), (("files",), []),
    (("files", "model.safetensors"), "x"), (("files", "model.safetensors", "sha256"), None),
    (("architecture", "preset"), "os.system"), (("architecture", "preset"), ["x"]), (("architecture", "preset"), None),
    (("architecture", "options"), 5), (("architecture", "options"), {}), (("architecture", "options", "d_model"), "x"),
    (("architecture", "options", "d_model"), 0), (("architecture", "options", "d_model"), 16),
    (("architecture", "options", "d_model"), 10**12), (("architecture", "options", "d_model"), 10**30),
    (("architecture", "options", "num_heads"), 0), (("architecture", "options", "patch_length"), 0),
    (("architecture", "options", "linear_path"), False), (("architecture", "options", "foo"), 1),
    (("architecture", "mechanisms"), {}), (("architecture", "mechanisms"), 5),
    (("architecture", "mechanisms", "encoder"), None), (("architecture", "mechanisms", "encoder"), {}),
    (("architecture", "mechanisms", "encoder", "name"), "os.system"),
    (("architecture", "mechanisms", "encoder", "name"), "../../x"),
    (("architecture", "mechanisms", "encoder", "name"), 5),
    (("architecture", "mechanisms", "encoder", "_target_"), "os.system"),
    (("architecture", "mechanisms", "encoder", "num_heads"), 5),
    (("architecture", "sizes"), {}), (("architecture", "sizes", "horizon"), "x"),
    (("architecture", "sizes", "horizon"), 13), (("architecture", "sizes", "horizon"), 0),
    (("architecture", "sizes", "context_length"), -1), (("architecture", "sizes", "context_length"), 48.5),
    (("architecture", "sizes", "num_targets"), 1), (("architecture", "sizes", "num_known"), True),
    (("data", "targets"), ...), (("data", "targets"), "load"), (("data", "targets"), [1, 2]),
    (("data", "targets"), ["load"]), (("data", "targets"), ["oil", "load"]), (("data", "targets"), None),
    (("data", "past_covariates"), {}), (("data", "past_covariates"), []), (("data", "time_column"), 5),
    (("data", "time_column"), None), (("data", "frequency"), 5), (("data", "frequency"), "os.system"),
    (("data", "frequency"), None), (("data", "cycles"), ["os.system"]), (("data", "cycles"), []),
    (("data", "missing"), "bfill"), (("data", "missing"), []), (("data", "duplicates"), None),
    (("data", "duplicates"), 5), (("data", "cycles"), [[]]), (("data", "cycles"), 5),
    (("scaler", "mean"), "x"), (("scaler", "mean"), []),
    (("scaler", "mean"), [None, 0.0, 0.0]), (("scaler", "scale"), [1.0]), (("scaler", "scale"), {}),
    (("scaler", "scale"), [0.0, 0.0, 0.0]), (("scaler", "columns"), ["a", "b", "c"]), (("scaler", "columns"), 5),
    (("scaler", "mean"), [[0.0], [0.0], [0.0]]), (("scaler", "mean"), ["a", "b", "c"]),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value"), EDITS, ids=lambda part: str(part).replace("architecture", "arch")[:60])
def test_a_changed_manifest_is_refused_in_one_line(
    keys: tuple[str, ...], value: Any, copied: Path, tiny_run: TinyRun, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    edit(copied, put(*keys, value=value))
    before = snapshot(tmp_path)
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    expect_one_line(capsys)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "[" * 100_000, '{"format": 1}', "\udcff"])
def test_an_unreadable_manifest_is_refused_in_one_line(
    text: str, copied: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    assert forecast(copied, tiny_run.source, tmp_path / "next.csv") == 2
    expect_one_line(capsys)
    assert not (tmp_path / "next.csv").exists()


def test_a_moved_run_gives_the_same_forecast(copied: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    for folder, name in ((copied, "moved.csv"), (tiny_run.path, "here.csv")):
        assert forecast(folder, tiny_run.source, tmp_path / name) == 0
    assert (tmp_path / "moved.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_forecasting_does_not_change_the_run_folder(tiny_run: TinyRun, tmp_path: Path) -> None:
    before = snapshot(tiny_run.path)
    assert forecast(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    assert snapshot(tiny_run.path) == before


# --- no forecast that is not finite


def with_bad_weights(run: Path, to: Path, value: float = math.nan) -> Path:
    """Return a copy of a run with `value` in all weights and a matching hash."""
    copy = Path(shutil.copytree(run, to))
    weights = load_file(copy / "model.safetensors")
    for tensor in weights.values():
        tensor.view(-1)[0] = value
    save_file(weights, copy / "model.safetensors")
    seal(copy)
    return copy


def test_weights_that_are_not_finite_give_no_forecast(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, output = with_bad_weights(tiny_run.path, tmp_path / "run"), tmp_path / "next.csv"
    ways = [["--run", str(run)], ["--run", str(run), "--run", str(tiny_run.path)]]
    for way in (*ways, ["--run", str(run), "--attention", "linear"]):
        assert predict([*way, "--input", str(tiny_run.source), "--output", str(output)]) in (2, 3)
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert not output.exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_output_that_is_not_finite_is_refused(value: float, tiny_run: TinyRun) -> None:
    """A run, an exported file and a transplanted run differ in their `model` only."""
    forecaster = load(tiny_run.path)
    made = torch.zeros(1, HORIZON, 2, dtype=torch.float64)
    made[0, 3, 1] = value
    time = tiny_run.table["date"].iloc[-1] + pd.Timedelta(hours=4)
    with pytest.raises(NotFiniteError, match=rf"^the forecast of 'oil' for {time} is {value} \(1 of 24 values"):
        replace(forecaster, model=lambda *_: made).predict(tiny_run.table)


@pytest.mark.parametrize("column", ["load", "oil", "air"])
def test_values_out_of_the_range_of_training_are_refused(column: str, tiny_run: TinyRun) -> None:
    table = tiny_run.table.copy()
    table.loc[690, column] = 1e30
    time = table["date"].iloc[690]
    with pytest.raises(
        InputError, match=rf"^the frame, column '{column}', {time}: 1e\+30 is .* deviations of the training"
    ):
        load(tiny_run.path).predict(table)
