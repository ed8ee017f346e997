"""Attacks through the other files of a run folder and exported files: checkpoints, weights, tables, links, bombs."""

import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from benchmarks.chaos.guard import TOKEN
from benchmarks.chaos.scene import Scene

MAGIC, DIGITS = b"forecast checkpoint 1\n", 64

BOMB = 1 << 30
"""Bytes of a decompressed file."""


class _Runs:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path, how: int) -> None:
        self.mark, self.how = str(mark), how

    def __reduce__(self) -> tuple[Any, ...]:
        if self.how == 0:
            return os.system, (f"touch {self.mark}",)
        if self.how == 1:
            return exec, (f"{TOKEN} = open({self.mark!r}, 'a')",)
        return open, (self.mark, "a")


def checkpoint(scene: Scene) -> str:
    """Write impossible content to a checkpoint, with a correct hash."""
    import torch

    path = _newest(scene)
    content = torch.load(
        io.BytesIO(path.read_bytes()[len(MAGIC) + DIGITS + 1 :]), map_location="cpu", weights_only=True
    )
    what, changed = _changed(content, scene)
    buffer = io.BytesIO()
    torch.save(changed, buffer)
    seal(path, buffer.getvalue())
    if scene.random.random() < 0.5:
        for other in path.parent.glob("*.ckpt"):
            if other != path:
                other.unlink()
    return f"checkpoint: {what}"


def _changed(content: dict[str, Any], scene: Scene) -> tuple[str, Any]:
    import torch

    keys = sorted(content)
    key = scene.choose(*keys)
    kind = scene.choose("whole", "key", "key", "key", "step", "step", "tensor", "tensor", "tensor", "extra", "drop")
    odd: list[Any] = [None, [], {}, -5, 2**70, float("nan"), "x", torch.zeros(0), torch.zeros(3, 3), [[]] * 1000, True]
    if kind == "whole":
        value = scene.choose([], {}, 1, None, "x", torch.zeros(3), [content])
        return f"the whole is {str(value)[:20]}", value
    if kind == "step":
        value = scene.choose(-5, 2**70, 10**9, 0, 1.5, "3", None, True, float("nan"))
        return f"step={value}", {**content, "step": value}
    if kind == "drop":
        return f"no {key}", {name: value for name, value in content.items() if name != key}
    if kind == "extra":
        return "more keys", {**content, "hyper_parameters": {"_target_": "os.abort"}, "callbacks": {"x": 1}}
    if kind == "tensor":
        places = list(_tensors(content, []))
        if places:
            place = scene.choose(*places)
            tensor = _at(content, place)
            value = scene.choose(
                torch.full_like(tensor, float("nan")) if tensor.is_floating_point() else tensor * 0 - 1,
                torch.zeros(1).expand(10**6, 10**5), tensor.flatten()[:1], torch.zeros((*tensor.shape, 2)),
                tensor.to(torch.complex64), tensor.bool(), torch.empty((0,)), torch.zeros(3).to_sparse(), "x", None,
            )  # fmt: skip
            _put(content, place, value)
            return (
                f"{'.'.join(map(str, place))} is {type(value).__name__} {tuple(getattr(value, 'shape', ()))}",
                content,
            )
    value = scene.choose(*odd)
    return f"{key}={str(value)[:30]}", {**content, key: value}


def _tensors(node: Any, path: list[Any]) -> Any:
    import torch

    if isinstance(node, torch.Tensor):
        yield path
    elif isinstance(node, dict | list | tuple):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _tensors(value, [*path, key])


def _at(node: Any, path: list[Any]) -> Any:
    for key in path:
        node = node[key]
    return node


def _put(node: Any, path: list[Any], value: Any) -> None:
    parent = _at(node, path[:-1])
    if isinstance(parent, dict | list):
        parent[path[-1]] = value


def pickled(scene: Scene) -> str:
    """Write a pickle that runs code instead of tensors."""
    import torch

    code = _Runs(scene.mark, scene.choose(0, 1, 2))
    plain = pickle.dumps(code, protocol=scene.choose(0, 2, 4))
    buffer = io.BytesIO()
    torch.save({"step": 5, "x": code}, buffer)
    what = scene.choose(*(("weights",) * 4 if scene.finished else ("checkpoint",) * 6), "calibration", "export")
    raw = scene.choose(plain, buffer.getvalue())
    if what == "checkpoint":
        seal(_newest(scene), raw)
    elif what == "export":
        (scene.work / "evil.pt2").write_bytes(raw)
    elif scene.finished:
        (scene.run / ("model.safetensors" if what == "weights" else "calibration.safetensors")).write_bytes(raw)
    (scene.run / "payload.pt").write_bytes(plain)
    return f"a pickle as {what}"


def bomb(scene: Scene) -> str:
    """Write a small file that decompresses to an enormous one."""
    what = scene.choose("checkpoint", "checkpoint", "export", "onnx", "parquet", "gzip")
    if what == "checkpoint":
        seal(_newest(scene), _deflated(_newest(scene).read_bytes()[len(MAGIC) + DIGITS + 1 :]))
    elif what == "export":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("archive/version", "archive/data/weights/x", "facts.json", "archive/extra/facts.json"):
                archive.writestr(name, bytes(BOMB // 8))
        (scene.work / "evil.pt2").write_bytes(buffer.getvalue())
    elif what == "onnx":
        (scene.work / "evil.onnx").write_bytes(b"\x08\x0a" + b"\x3a\xff\xff\xff\xff\x07" + bytes(10**6))
    elif what == "parquet":
        _big_parquet(scene.run / "errors.parquet")
    else:
        body = b"date,load,oil,air\n" + b"2016-07-01 00:00:00,1,2,3\n" * 1000
        packed = zlib.compressobj(9, zlib.DEFLATED, 31)
        parts = [packed.compress(body), *(packed.compress(bytes(1 << 20)) for _ in range(BOMB >> 20)), packed.flush()]
        (scene.work / "bomb.csv.gz").write_bytes(b"".join(parts))
    return f"a bomb as {what}"


def _deflated(raw: bytes) -> bytes:
    """Return a compressed checkpoint with one entry of `BOMB` bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        data = next(name for name in names if "/data/" in name)
        for name in names:
            if name == data:
                with new.open(name, "w", force_zip64=True) as part:
                    for _ in range(BOMB >> 22):
                        part.write(bytes(1 << 22))
            else:
                new.writestr(name, old.read(name))
    return buffer.getvalue()


def _big_parquet(path: Path) -> None:
    """Write a table of 100 million rows in a few hundred kilobytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 10**7
    index = pa.array([0], pa.int8()).take(pa.array([0] * 1000, pa.int32()))
    block = pa.chunked_array([pa.DictionaryArray.from_arrays(index, pa.array(["x" * 1000]))] * (rows // 1000))
    pq.write_table(pa.table({"origin": block, "mse": block, "mae": block}), path, compression="zstd")


def weights(scene: Scene) -> str:
    """Write weights with a false header."""
    name = scene.choose(*("model.safetensors",) * 5, "calibration.safetensors")
    if not scene.finished:
        (scene.run / name).write_bytes(b"")
    raw = (scene.run / name).read_bytes() if scene.finished else struct.pack("<Q", 2) + b"{}"
    length = struct.unpack("<Q", raw[:8])[0]
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    names = [key for key in header if key != "__metadata__"] or ["x"]
    key = scene.choose(*names)
    entry = dict(header.get(key, {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}))
    what, value = scene.choose(
        ("a header of 2**60 bytes", None),
        ("a header of 100 MB of blanks", b" " * 10**8),
        ("a shape of 2**62", {**entry, "shape": [2**31, 2**31]}),
        ("a negative shape", {**entry, "shape": [-1]}),
        ("an empty shape", {**entry, "shape": [0]}),
        ("offsets beyond the end", {**entry, "data_offsets": [0, 2**40]}),
        ("reversed offsets", {**entry, "data_offsets": [8, 0]}),
        ("another type", {**entry, "dtype": scene.choose("F64", "BOOL", "I8", "X", None)}),
        ("no entry", "drop"),
        ("deep braces", b"[" * 10**5 + b"]" * 10**5),
        ("many tensors", "many"),
        ("NaN in all weights", "nan"),
    )
    if value is None:
        raw = struct.pack("<Q", 2**60) + raw[8:]
    elif value == "nan":
        raw = raw[: 8 + length] + struct.pack("<f", float("nan")) * (len(body) // 4)
    else:
        if isinstance(value, bytes):
            packed = value
        else:
            if value == "drop":
                header.pop(key, None)
            elif value == "many":
                header |= {f"x{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(20000)}
            else:
                header[key] = value
            packed = json.dumps(header).encode()
        raw = struct.pack("<Q", len(packed)) + packed + body
    (scene.run / name).write_bytes(raw)
    return f"{name}: {what}"


def place_taken(scene: Scene) -> str:
    """Replace a file by a link, a pipe, a folder or a device."""
    names = ["config.json", "forecast.png", "checkpoints", ".x.tmp", "checkpoints/step-999999999.ckpt", "result.json"]
    names += ["model.safetensors", "manifest.json", "errors.parquet", "calibration.safetensors"]
    name = scene.choose(*names, "forecast.csv", "job.json", "report.html", "report.csv")
    path = scene.run / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    kind = scene.choose("pipe", "folder", "link out", "link out", "link to zeros", "link to itself", "link to nothing")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        private = scene.outside if name == "checkpoints" else scene.outside / "secret.csv"
        path.symlink_to(
            {"link out": private, "link to zeros": "/dev/zero", "link to itself": path.name}.get(kind, "nothing")
        )
    return f"{name} is a {kind}"


def errors_table(scene: Scene) -> str:
    """Write the table of errors with other columns, types or lengths."""
    import pandas as pd

    frame = pd.read_parquet(scene.run / "errors.parquet") if scene.finished else pd.DataFrame({"mse": [1.0]})
    what, changed = scene.choose(
        ("empty", frame.iloc[:0]),
        ("no columns", frame[[]]),
        ("text", frame.astype(str)),
        ("NaN", frame * float("nan") if frame.select_dtypes("number").shape == frame.shape else frame.iloc[:1]),
        ("names of formulas", frame.set_axis([f"={name}" for name in frame.columns], axis=1)),
        ("half of it", frame.iloc[: len(frame) // 2]),
        ("twice", pd.concat([frame, frame])),
        ("lists", pd.DataFrame({name: [[1.0]] * 3 for name in frame.columns})),
        ("bytes", pd.DataFrame({name: [b"\xff"] * 3 for name in frame.columns})),
    )
    changed.to_parquet(scene.run / "errors.parquet")
    return f"errors.parquet: {what}"


def export(scene: Scene) -> str:
    """Write an exported file with changed content."""
    name = scene.choose(*(path.name for path in scene.work.glob("model.*")))
    path = scene.work / f"evil{Path(name).suffix}"
    raw = (scene.work / name).read_bytes()
    what = scene.choose("changed facts", "a lying zip", "swapped parts", "text", "changed words")
    if what == "changed facts":
        for old, new in (
            (b'"context_length"', b'"contexx_length"'),
            (b'"horizon": 12', b'"horizon": 99'),
            (b'"load"', b'"=1+1"'),
        ):
            raw = raw.replace(old, new[: len(old)].ljust(len(old)))
    elif what == "a lying zip":
        raw = raw.replace(b"PK\x01\x02", b"PK\x01\x02"[:3] + b"\xff", 1)
    elif what == "swapped parts":
        middle = len(raw) // 2
        raw = raw[:100] + raw[middle : middle + 5000] + raw[5100:]
    elif what == "text":
        raw = b"import os; os.abort()"
    else:
        raw = raw.replace(b"torch.ops.aten", b"os.system  .xyz", 3)
    if path.suffix == ".onnx":  # a .pt2 file with a correct digest is a program, without promises
        raw = raw[:-64] + hashlib.sha256(raw[:-64] + b"0" * 64).hexdigest().encode()
    path.write_bytes(raw)
    return f"{name}: {what}"


ATTACKS = {checkpoint: 7, pickled: 3, bomb: 2, weights: 4, place_taken: 5, errors_table: 2, export: 2}
"""Attacks through files, with their weights."""


def _newest(scene: Scene) -> Path:
    return max((scene.run / "checkpoints").glob("step-*.ckpt"))


def seal(path: Path, raw: bytes) -> None:
    """Write a checkpoint of these bytes with their hash."""
    path.write_bytes(MAGIC + hashlib.sha256(raw).hexdigest().encode() + b"\n" + raw)
