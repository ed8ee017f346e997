"""A checkpoint with a valid hash and invalid content is skipped with one line, and the previous one is used."""

import hashlib
import io
import math
import re
import shutil
import signal
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.common.errors import InputError, Interrupted
from forecast.runs.checkpoint import DIGITS, MAGIC, checkpoints, newest_checkpoint, read_checkpoint, write_checkpoint
from forecast.runs.run import Run
from forecast.runs.settings import Settings
from forecast.training.callbacks.speed import Speed
from forecast.training.checkpoint_content import check_content, newest_state
from forecast.training.prepare import Preparation
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.conftest import LIGHTNING
from tests.support.prepared import prepare
from tests.support.small import changed, quick

pytestmark = [*map(pytest.mark.filterwarnings, LIGHTNING)]

Spoil = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run of twelve steps with two validations, whose start is a candidate."""
    words = ["training.max_epochs=null", "training.validations_per_epoch=4", "training.start_confidence=0.9"]
    return quick(tmp_path_factory.mktemp("runs"), *words)


@pytest.fixture(scope="module")
def made(config: dict[str, Any]) -> Preparation:
    return prepare(Settings.parse(config))


@pytest.fixture(scope="module")
def stopped(config: dict[str, Any]) -> Path:
    """Stop at step 8, after the validation at step 7."""
    original = ForecastTask.training_step

    def stopping(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 7:
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, batch_idx)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForecastTask, "training_step", stopping)
        with pytest.raises(Interrupted):
            train(config)
    (folder,) = (path.parent for path in Path(config["output_dir"]).rglob("config.json"))
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """Return a copy of the stopped run to damage."""
    return Path(shutil.copytree(stopped, tmp_path / "copy"))


def put(*keys: Any, value: Any) -> Spoil:
    def spoil(content: dict[str, Any]) -> Any:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return spoil


def of_every(key: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """Change a tensor of the optimizer state of each parameter."""

    def spoil(content: dict[str, Any]) -> Any:
        for state in content["optimizer"]["state"].values():
            state[key] = change(state[key])

    return spoil


def first_weight(change: Callable[[torch.Tensor], Any], *keys: str) -> Spoil:
    def spoil(content: dict[str, Any]) -> Any:
        weights: Any = content
        for key in keys or ("network",):
            weights = weights[key]
        name = next(iter(weights))
        weights[name] = change(weights[name])

    return spoil


def nested(depth: int = 300) -> list[Any]:
    node: list[Any] = []
    for _ in range(depth):
        node = [node]
    return node


def shared(depth: int = 60) -> list[Any]:
    """Return a list that is small in a file and has 2 to the power of `depth` items for a recursive reader."""
    node: list[Any] = []
    for _ in range(depth):
        node = [node, node]
    return node


UNREADABLE: dict[str, tuple[str, Spoil]] = {
    "a list": ("it holds no dictionary", lambda content: [1, 2]),
    "a number": ("it holds no dictionary", lambda content: 5),
    "a step without end": ("it holds more than tensors and plain values", put("step", value=10**5000)),
}
"""Content that cannot be read: the reason shown, and the change."""

INVALID: dict[str, tuple[str, Spoil]] = {
    "nothing": ("it lacks a key of a checkpoint", lambda content: content.clear()),
    "no network": ("it lacks a key of a checkpoint", lambda content: content.pop("network")),
    "a step below 0": ("its step is not valid", put("step", value=-5)),
    "a step beyond the run": ("its step is not valid", put("step", value=10**15)),
    "a step that is no number": ("its step is not valid", put("step", value="8")),
    "another end": ("its stopped_by is not valid", put("stopped_by", value="tea")),
    "weights by another name": (
        "the weights do not fit this model",
        lambda content: content["network"].update(more=torch.zeros(1)),
    ),
    "weights of another shape": (
        "the weights do not fit this model",
        first_weight(lambda weight: torch.zeros(3, 3, 3)),
    ),
    "weights of another kind": ("the weights do not fit this model", first_weight(torch.Tensor.double)),
    "weights that are none": ("the weights do not fit this model", first_weight(lambda weight: "weight")),
    "weights that are not finite": (
        "the weights are not finite",
        first_weight(lambda weight: torch.full_like(weight, torch.nan)),
    ),
    "weights larger than stored": (
        "it holds a tensor whose size exceeds its storage",
        first_weight(lambda weight: torch.zeros(1).expand(10**12)),
    ),
    "best without a step": ("its best weights lack a key", lambda content: content["best"].pop("step")),
    "best of a later step": ("step or score of its best weights is not valid", put("best", "step", value=11)),
    "best without a number": ("step or score of its best weights is not valid", put("best", "score", value=math.nan)),
    "best of another shape": (
        "the best weights do not fit this model",
        first_weight(lambda weight: torch.zeros(2), "best", "weights"),
    ),
    "evidence without its windows": (
        "its scores before training lack a key",
        lambda content: content["evidence"].pop("start"),
    ),
    "evidence of other windows": (
        "its scores before training do not fit the validation windows",
        put("evidence", "start", value=torch.zeros(3, dtype=torch.float64)),
    ),
    "evidence without overlap": ("its scores before training are not valid", put("evidence", "overlap", value=0)),
    "no optimizer": ("its state of optimizer or schedule is no group of values", put("optimizer", value=None)),
    "an optimizer of other groups": (
        "its optimizer and schedule do not fit this model",
        lambda content: content["optimizer"]["param_groups"].pop(),
    ),
    "an optimizer of other shapes": (
        "its optimizer state has other shapes",
        of_every("exp_avg", lambda state: torch.zeros(1, 1)),
    ),
    "an optimizer without a moment": (
        "its optimizer state lacks a key",
        lambda content: [state.pop("exp_avg_sq") for state in content["optimizer"]["state"].values()],
    ),
    "an optimizer that is not finite": (
        "its optimizer state is not finite",
        of_every("exp_avg", lambda state: state * torch.inf),
    ),
    "a rate that is none": (
        "its optimizer and schedule do not fit this model",
        put("optimizer", "param_groups", 0, "lr", value="fast"),
    ),
    "no schedule": ("its schedule state lacks a key or has another structure", put("scheduler", value={})),
    "a schedule of text": (
        "its schedule state lacks a key or has another structure",
        lambda content: content["scheduler"].update(dict.fromkeys(content["scheduler"], "x")),
    ),
    "clocks of another kind": (
        "its state of Speed has another structure",
        put("callbacks", "Speed", "step_ms", value="fast"),
    ),
    "clocks of another name": ("its state of Speed cannot be loaded", put("callbacks", "Speed", "hours", value=1)),
    "no callbacks": ("its states of the callbacks are no group of values", put("callbacks", value=[])),
    "lists within lists": (
        "its state of Speed has another structure",
        put("callbacks", "Speed", "step_ms", value=nested()),
    ),
    "a list that holds itself twice": (
        "its state of Speed has another structure",
        put("callbacks", "Speed", "step_ms", value=shared()),
    ),
}
"""Content that does not fit the training: the reason shown, and the change."""

SPOILS = UNREADABLE | INVALID

FEW = (*UNREADABLE, "a step below 0", "weights of another shape", "an optimizer of other shapes")
"""Cases of which the ordinary suite also tests that the previous generation is used."""


@pytest.fixture(scope="module")
def newest(stopped: Path) -> dict[str, Any]:
    return read_checkpoint(checkpoints(stopped / "checkpoints")[0])


@pytest.mark.parametrize("name", INVALID)
def test_content_that_does_not_fit_the_training_is_refused_with_the_reason(
    name: str, newest: dict[str, Any], made: Preparation
) -> None:
    reason, spoil = INVALID[name]
    content = deepcopy(newest)
    spoil(content)
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        check_content(content, made.task, [*made.callbacks, Speed()], len(made.data.parts["validation"]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.exhaustive) for name in SPOILS]
)
def test_the_previous_generation_replaces_an_invalid_one(
    name: str, folder: Path, made: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    newest, older = checkpoints(folder / "checkpoints")
    content = read_checkpoint(newest)
    step = content["step"]
    reason, spoil = SPOILS[name]
    other = spoil(content)
    write_checkpoint(folder / "checkpoints", step, other if name in ("a list", "a number") else content)
    state = newest_state(Run(folder), made.task, made.callbacks, len(made.data.parts["validation"]))
    assert state is not None
    assert state["step"] == step - 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"{newest}: skipped, {reason}")
    assert captured.err.count("\n") == 1
    assert [path.name for path in checkpoints(folder / "checkpoints")] == [older.name]
    assert newest.with_suffix(".damaged").is_file()


def test_a_valid_checkpoint_is_used_unchanged(folder: Path, made: Preparation) -> None:
    """The check works on copies: the optimizer state and the model stay unchanged."""
    before = deepcopy(made.task.state_dict())
    newest = newest_state(Run(folder), made.task, made.callbacks, len(made.data.parts["validation"]))
    stored = newest_checkpoint(folder / "checkpoints")
    assert newest is not None
    assert stored is not None
    assert newest["step"] == 8
    for key, state in stored["optimizer"]["state"].items():
        assert all(torch.equal(value, newest["optimizer"]["state"][key][name]) for name, value in state.items())
    assert all(torch.equal(value, before[name]) for name, value in made.task.state_dict().items())


@pytest.mark.slow
def test_a_training_resumed_from_the_previous_generation_ends_with_the_same_result(
    config: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    _, whole = train(changed(config, output_dir=str(tmp_path / "whole")))
    newest, _ = checkpoints(folder / "checkpoints")
    write_checkpoint(folder / "checkpoints", 8, {**read_checkpoint(newest), "best": {"step": 7}})
    _, result = train({**config, "resume": str(folder)}, overrides=[f"resume={folder}"])
    assert result["test"] == whole["test"]
    assert result["model"] == whole["model"]


def test_a_damaged_version_number_costs_one_generation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest, older = checkpoints(folder / "checkpoints")
    newest.write_bytes(newest.read_bytes().replace(MAGIC, MAGIC.replace(b"1", b"9"), 1))
    content = newest_checkpoint(folder / "checkpoints")
    assert content is not None
    assert content["step"] == read_checkpoint(older)["step"]
    assert capsys.readouterr().err == f"{newest}: skipped, written by another version of the program\n"
    assert newest.with_suffix(".damaged").is_file()


def test_checkpoints_that_are_all_of_another_version_are_kept(folder: Path) -> None:
    paths = checkpoints(folder / "checkpoints")
    for path in paths:
        path.write_bytes(path.read_bytes().replace(MAGIC, MAGIC.replace(b"1", b"9"), 1))
    with pytest.raises(InputError, match="another version"):
        newest_checkpoint(folder / "checkpoints")
    assert checkpoints(folder / "checkpoints") == paths


def test_checkpoints_that_are_all_of_another_model_are_refused_and_kept(
    folder: Path, made: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a changed configuration would start a training of another size."""
    paths = checkpoints(folder / "checkpoints")
    for path in paths:
        content = read_checkpoint(path)
        first_weight(lambda weight: torch.zeros(3, 3, 3))(content)
        write_checkpoint(folder / "checkpoints", content["step"], content)
    with pytest.raises(
        InputError, match=r"are of different runs: restore the original files, or remove .*checkpoints to start"
    ):
        newest_state(Run(folder), made.task, made.callbacks, len(made.data.parts["validation"]))
    assert checkpoints(folder / "checkpoints") == paths
    assert capsys.readouterr().err == ""


def with_payload(path: Path, payload: bytes) -> None:
    path.write_bytes(MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload)


def test_compressed_entries_are_refused_before_decompression(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 0.5 MB can decompress to 0.5 GB."""
    newest, _ = checkpoints(folder / "checkpoints")
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(newest.read_bytes()[len(MAGIC) + DIGITS + 1 :])) as source,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for part in source.infolist():
            target.writestr(part.filename, source.read(part))
    with_payload(newest, packed.getvalue())
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match="its members are compressed"):
        read_checkpoint(newest)


def test_a_file_that_is_too_large_is_refused_unread(folder: Path, made: Preparation) -> None:
    newest, older = checkpoints(folder / "checkpoints")
    with newest.open("r+b") as file:
        file.truncate(2**40)  # without a byte on the disk
    state = newest_state(Run(folder), made.task, made.callbacks, len(made.data.parts["validation"]))
    assert state is not None
    assert state["step"] == read_checkpoint(older)["step"]
