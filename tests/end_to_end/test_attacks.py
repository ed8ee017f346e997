"""An attack by a run folder ends in one line or an ordinary result, runs no code and changes nothing elsewhere."""

import hashlib
import io
import json
import os
import pickle
import socket
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shutil import copy, copytree, rmtree
from typing import Any

import pandas as pd
import pytest

from benchmarks.chaos.command import GROWTH, start
from benchmarks.chaos.trial import complaint
from forecast.runs.checkpoint import MAGIC
from tests.conftest import TinyRun
from tests.support.attacks import (
    CONFIGURATION,
    KINDS,
    MANIFEST,
    MORE,
    RARE,
    RESULT,
    SECRET,
    Edit,
    filled,
    in_turn,
    leaves,
    plant,
    text_of,
)
from tests.support.guard import TOKEN, Watch
from tests.support.small import quick, snapshot

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.usefixtures("imported"),
]

SECONDS = 20.0
"""Processor time of a command."""

PATIENCE = 200.0
"""Seconds after which a command is killed, which a busy machine needs."""

MODULES = ("payload", "outputs", "evil_module", "evil_package")
"""Names under which a payload could be imported."""

FORECAST = ["--input", "hours.csv", "--output", "out/forecast.csv"]

READERS: dict[str, tuple[list[str], str]] = {
    "resume": (["train", "resume=outputs/evil"], "outputs/evil"),
    "predict": (["predict", "--run", "outputs/evil", *FORECAST], "out"),
    "attention": (["predict", "--run", "outputs/evil", "--attention", "mean", *FORECAST], "out"),
    "report": (["report", "--runs", "outputs/evil"], "outputs/evil"),
    "pt2": (["predict", "--model", "evil.pt2", *FORECAST], "out"),
    "onnx": (["predict", "--model", "evil.onnx", *FORECAST], "out"),
}
"""Commands that read the folder, and the folder that each may write to."""


@dataclass
class Scene:
    """The user's folder, and the malicious run folder in it."""

    folder: Path
    work: Path
    run: Path
    listening: socket.socket

    @property
    def mark(self) -> Path:
        """File that a payload makes."""
        return self.folder / "PWNED"

    @property
    def words(self) -> dict[str, str]:
        """Values of the words in an attack."""
        url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/table.csv"
        return {"{mark}": str(self.mark), "{outside}": str(self.folder / "outside"), "{url}": url}

    def edit(self, name: str, edit: Edit) -> None:
        """Put a value into a JSON file of the run."""
        path = self.run / name
        content = plant(json.loads(path.read_text()), edit[0], filled(edit[1], self.words))
        path.write_text(json.dumps(content))

    def forge(self) -> None:
        """Write correct digests and hashes, as an attacker would."""
        for name in ("config.json", "result.json"):
            _seal(self.run / name)
        manifest = self.run / "manifest.json"
        if not manifest.is_file() or manifest.is_symlink():
            return
        try:
            content = json.loads(manifest.read_text(encoding="utf-8"))
            for name in content["files"]:
                if (path := self.run / name).is_file() and not path.is_symlink() and path.parent == self.run:
                    raw = path.read_bytes()
                    content["files"][name] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            manifest.write_text(json.dumps(content))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            pass  # an invalid manifest is an attack too
        _seal(manifest)

    def read(self, reader: str) -> None:
        """Run a command under the guard, and fail if the attack has an effect."""
        command, writable = READERS[reader]
        free = [self.work / writable, self.folder / "tmp", self.folder / "logs"]
        before = self._others(free)
        private = (self.folder / "outside",)
        watch = Watch(self.folder, (*free,), private, frozenset({*MODULES, *RARE}))
        events = self.folder / "logs" / "events"

        def begin() -> None:
            warnings.simplefilter("ignore")
            sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # instead of what pytest captures
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
            watch.begin(os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

        environment = {SECRET: "sesame1234", "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        child = start(
            command,
            self.work,
            events.parent,
            before=begin,
            environment=environment | {"COLUMNS": "200"},
            seconds=SECONDS,
        )
        ended = child.wait(PATIENCE)
        assert not self.mark.exists(), "the payload ran"
        assert self.requests() == 0
        assert events.read_text().splitlines() == []
        assert [path for path in self._others(free).items() ^ before.items() if "__pycache__" not in path[0]] == []
        assert "sesame1234" not in ended.text
        for path in (path for place in free for path in place.rglob("*") if path.is_file() and not path.is_symlink()):
            assert b"sesame1234" not in path.read_bytes()
        assert "a program error" not in ended.text
        assert complaint(ended) is None
        assert ended.processor_seconds < SECONDS
        assert ended.growth is None or ended.growth < GROWTH

    def _others(self, free: list[Path]) -> dict[str, bytes | None]:
        paths = snapshot(self.folder)
        return {name: raw for name, raw in paths.items() if not any(Path(name).is_relative_to(place) for place in free)}

    def requests(self) -> int:
        """Return 1 if a client has connected."""
        try:
            self.listening.accept()[0].close()
        except BlockingIOError:
            return 0
        return 1


def _seal(path: Path) -> None:
    """Write the correct digest to a JSON file that has one."""
    if not path.is_file() or path.is_symlink():
        return
    head, key, tail = path.read_bytes().rpartition(b'"digest": "')
    if key:
        digest = hashlib.sha256(head + key + b"0" * 64 + tail[64:]).hexdigest().encode()
        path.write_bytes(head + key + digest + tail[64:])


def a_ninth_of(edits: Sequence[Edit]) -> list[Any]:
    """Return the cases of edits: every ninth runs with `--all`, the others are exhaustive."""
    return [
        pytest.param(edit, id=text_of(edit), marks=[] if place % 9 == 0 else [pytest.mark.exhaustive])
        for place, edit in enumerate(edits)
    ]


@pytest.fixture(scope="module")
def imported() -> None:
    """Import what the commands need, so that no fork has to."""
    for name in (
        *("training.command_line", "training.train", "training.callbacks.profile", "training.tensorboard.logger"),
        *("training.outcome", "predict.__main__", "predict.forecaster", "predict.transplanted", "report.__main__"),
        *("report.html", "common.pictures", "runs.read"),
    ):
        import_module(f"forecast.{name}")


@pytest.fixture
def scene(tiny_run: TinyRun, tmp_path: Path) -> Iterator[Scene]:
    """Return the user's folder without a run folder."""
    work = tmp_path / "one" / "two" / "work"
    for path in (work / "out", work / "outputs", *(tmp_path / name for name in ("outside", "home", "tmp", "logs"))):
        path.mkdir(parents=True)
    copy(tiny_run.source, work)
    copy(tiny_run.source, tmp_path / "outside" / "secret.csv")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield Scene(tmp_path, work, work / "outputs" / "evil", listening)


def with_payloads(scene: Scene) -> Scene:
    """Write modules beside the run that show whether they are executed."""
    source = f"{TOKEN} = 1\nopen({str(scene.mark)!r}, 'a').close()\nclass X:\n    def __init__(self, *_, **__): pass\n"
    (scene.work / "evil_package").mkdir()
    places = (scene.run / "payload.py", scene.work / "payload.py", scene.work / "evil_module.py")
    for path in (*places, scene.work / "evil_package" / "__init__.py"):
        path.write_text(source)
    (scene.run / "payload.pt").write_bytes(pickle.dumps(Opens(scene.mark)))
    return scene


@pytest.fixture
def finished(scene: Scene, tiny_run: TinyRun) -> Scene:
    """Return the scene with a finished run."""
    copytree(tiny_run.path, scene.run)
    return with_payloads(scene)


@pytest.fixture
def unfinished(scene: Scene) -> Scene:
    """Return the scene with a run that has just begun."""
    scene.run.mkdir()
    words = ["training.max_steps=1", "~callbacks.figures", "~callbacks.probe"]
    (scene.run / "config.json").write_text(json.dumps(quick(Path("outputs"), *words)))
    return with_payloads(scene)


@pytest.mark.parametrize("output", ["../forecast.csv", "{outside}/forecast.csv"])
def test_a_file_that_is_written_elsewhere_is_noticed(
    output: str, finished: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", "--run", "outputs/evil", *FORECAST[:-1], filled(output, finished.words)]
    monkeypatch.setitem(READERS, "predict", (words, "out"))
    with pytest.raises(AssertionError):
        finished.read("predict")


# --- values of the JSON files


@pytest.mark.parametrize("edit", a_ninth_of(CONFIGURATION))
def test_a_configuration_has_no_effect_but_its_own_run(edit: Edit, unfinished: Scene) -> None:
    unfinished.edit("config.json", edit)
    unfinished.read("resume")


@pytest.mark.exhaustive
@pytest.mark.parametrize("edit", MORE, ids=text_of)
def test_another_configuration_has_no_effect_but_its_own_run(edit: Edit, unfinished: Scene) -> None:
    unfinished.edit("config.json", edit)
    unfinished.read("resume")


@pytest.mark.parametrize("edit", a_ninth_of(MANIFEST))
def test_a_manifest_has_no_effect_but_a_forecast(edit: Edit, finished: Scene) -> None:
    finished.edit("manifest.json", edit)
    finished.forge()
    finished.read("predict")


@pytest.mark.parametrize("edit", a_ninth_of(RESULT))
def test_a_result_has_no_effect_but_a_report(edit: Edit, finished: Scene) -> None:
    finished.edit("result.json", edit)
    finished.forge()
    finished.read("report")


NESTED = "[" * 10**5

TEXTS: dict[str, Callable[[str], str | bytes]] = {
    "an open value": lambda text: text.rstrip("}\n ") + ', "deep": ' + NESTED,
    "an integer of 100,000 digits": lambda text: text.rstrip().removesuffix("}") + ', "x": ' + "9" * 10**5 + "}",
    "a float of 100,000 digits": lambda text: text.rstrip().removesuffix("}") + ', "x": 1.' + "9" * 10**5 + "}",
    "a string of 20 MB": lambda text: text.rstrip().removesuffix("}") + ', "x": "' + "x" * 20_000_000 + '"}',
    "another encoding": lambda text: text.encode("utf-16"),
    "invalid UTF-8": lambda text: text.encode().replace(b"a", b"\xff\xfe\x00"),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "a key twice": lambda text: text.rstrip().removesuffix("}") + ', "seed": 5, "format": 4, "data": {}}',
    "zero bytes": lambda text: text.replace("a", "\0"),
    "lone surrogates": lambda text: text.replace("load", "\\ud800"),
    "true": lambda text: "true",
    "NaN": lambda text: "NaN",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "reader"), [("manifest.json", "predict"), ("result.json", "report")])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_no_ordinary_json_has_no_effect(name: str, reader: str, text: str, finished: Scene) -> None:
    content = TEXTS[text]((finished.run / name).read_text())
    (finished.run / name).write_bytes(content.encode() if isinstance(content, str) else content)
    finished.forge()
    finished.read(reader)


@pytest.mark.exhaustive
def test_a_value_of_another_type_in_a_manifest_has_no_effect(finished: Scene) -> None:
    original = (finished.run / "manifest.json").read_bytes()
    paths = [path for path in leaves(json.loads(original)) if path[0] != "digest"]
    for edit in in_turn(paths, KINDS):
        (finished.run / "manifest.json").write_bytes(original)
        finished.edit("manifest.json", edit)
        finished.forge()
        finished.read("predict")


# --- other files


class Opens:
    """Object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "a")


def checkpoint(scene: Scene, raw: bytes) -> None:
    (scene.run / "checkpoints").mkdir()
    path = scene.run / "checkpoints" / "step-000000001.ckpt"
    path.write_bytes(MAGIC + hashlib.sha256(raw).hexdigest().encode() + b"\n" + raw)


def torch_file(scene: Scene) -> bytes:
    import torch

    file = io.BytesIO()
    torch.save({"step": 1, "network": Opens(scene.mark)}, file)
    return file.getvalue()


def zip_bomb(scene: Scene) -> None:
    with zipfile.ZipFile(scene.work / "evil.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("archive/version", "archive/data/weights/x", "facts.json", "archive/extra/facts.json"):
            archive.writestr(name, bytes(2**27))


PICKLES: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "a checkpoint": ("resume", lambda scene: checkpoint(scene, pickle.dumps(Opens(scene.mark)))),
    "a checkpoint of torch": ("resume", lambda scene: checkpoint(scene, torch_file(scene))),
    "an export": ("pt2", lambda scene: (scene.work / "evil.pt2").write_bytes(pickle.dumps(Opens(scene.mark)))),
    "an export of torch": ("pt2", lambda scene: (scene.work / "evil.pt2").write_bytes(torch_file(scene))),
    "an export that unpacks to 512 MiB": ("pt2", zip_bomb),
    "an onnx file of 2 GiB": (
        "onnx",
        lambda scene: (scene.work / "evil.onnx").write_bytes(b"\x08\x0a\x3a\xff\xff\xff\xff\x07" + bytes(10**6)),
    ),
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_or_a_bomb_has_no_effect(name: str, unfinished: Scene) -> None:
    reader, write = PICKLES[name]
    write(unfinished)
    unfinished.read(reader)


def header(raw: bytes, change: Callable[[dict[str, Any], str], object]) -> bytes:
    """Return weights with a changed header."""
    length = struct.unpack("<Q", raw[:8])[0]
    content = json.loads(raw[8 : 8 + length])
    change(content, next(name for name in content if name != "__metadata__"))
    packed = json.dumps(content).encode()
    return struct.pack("<Q", len(packed)) + packed + raw[8 + length :]


def entry(**values: Any) -> Callable[[bytes], bytes]:
    return lambda raw: header(raw, lambda content, name: content[name].update(values))


EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}

WEIGHTS: dict[str, Callable[[bytes], bytes]] = {
    "a header of 2**60 bytes": lambda raw: struct.pack("<Q", 2**60) + raw[8:],
    "a header of 100 MB": lambda raw: struct.pack("<Q", 10**8) + b" " * 10**8 + raw[8:],
    "a deep header": lambda raw: struct.pack("<Q", 10**5) + NESTED.encode() + raw[8:],
    "a shape of 2**62": entry(shape=[2**31, 2**31]),
    "a negative shape": entry(shape=[-1]),
    "an empty shape": entry(shape=[0]),
    "offsets beyond the end": entry(data_offsets=[0, 2**40]),
    "reversed offsets": entry(data_offsets=[8, 0]),
    "another type": entry(dtype="F64"),
    "no type": entry(dtype=None),
    "no entry": lambda raw: header(raw, lambda content, name: content.pop(name)),
    "many tensors": lambda raw: header(raw, lambda content, _: content.update({f"x{n}": EMPTY for n in range(20000)})),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["model.safetensors", "calibration.safetensors"])
@pytest.mark.parametrize("change", WEIGHTS)
def test_false_weights_have_no_effect(name: str, change: str, finished: Scene) -> None:
    path = finished.run / name
    path.write_bytes(WEIGHTS[change](path.read_bytes()))
    finished.forge()
    finished.read("predict")


ERRORS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "no columns": lambda frame: frame[[]],
    "text": lambda frame: frame.astype(str),
    "formulas": lambda frame: frame.set_axis([f"={name}" for name in frame.columns], axis=1),
    "twice": lambda frame: pd.concat([frame, frame]),
    "lists": lambda frame: pd.DataFrame({name: [[1.0]] * 3 for name in frame.columns}),
    "bytes": lambda frame: pd.DataFrame({name: [b"\xff"] * 3 for name in frame.columns}),
}


@pytest.mark.parametrize("change", ERRORS)
def test_a_false_table_of_errors_has_no_effect(change: str, finished: Scene) -> None:
    path = finished.run / "errors.parquet"
    ERRORS[change](pd.read_parquet(path)).to_parquet(path)
    finished.forge()
    finished.read("report")


TAKEN = {
    "resume": ["config.json", "checkpoints", ".x.tmp", "checkpoints/step-999999999.ckpt", "job.json", "result.json"],
    "predict": ["model.safetensors", "manifest.json", "forecast.csv", "calibration.safetensors"],
    "report": ["errors.parquet", "result.json", "report.html", "report.csv", "forecast.png", "config.json"],
}
LINKS = {"a link out": "{outside}/secret.csv", "a link to zeros": "/dev/zero", "a link to nothing": "nothing"}
KINDS_OF_FILES = ("a pipe", "a folder", "a link to itself", *LINKS)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("reader", "name", "kind"),
    [
        pytest.param(reader, name, kind, marks=() if place % len(KINDS_OF_FILES) == turn else pytest.mark.exhaustive)
        for place, (reader, name) in enumerate((reader, name) for reader in TAKEN for name in TAKEN[reader])
        for turn, kind in enumerate(KINDS_OF_FILES)
    ],
)
def test_a_place_of_a_file_that_is_taken_has_no_effect(
    reader: str, name: str, kind: str, request: pytest.FixtureRequest
) -> None:
    scene: Scene = request.getfixturevalue("unfinished" if reader == "resume" else "finished")
    path = scene.run / name
    if path.is_dir():
        rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(filled(LINKS.get(kind, path.name), scene.words))
    scene.forge()
    scene.read(reader)
