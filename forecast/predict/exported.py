"""Open, check and run exported models, without a run folder."""

import hashlib
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import check_stored, parse_json
from forecast.runs.run import DAMAGE, FORMAT, OTHER_FORMAT, WEIGHTS, Run

OPENING, WRITING = ("onnxruntime",), ("onnx", "onnxscript", "onnxruntime")
"""Packages to open and to write an .onnx file; a .pt2 file needs only torch."""


def require(path: Path, packages: tuple[str, ...] = OPENING) -> None:
    """Raise InputError if a package that the file needs is not installed."""
    missing = [name for name in packages if path.suffix == ".onnx" and find_spec(name) is None]
    if missing:
        raise InputError(
            f'{path}: {missing[0]} is not installed: pip install -e ".[export]", or choose a name that ends in .pt2'
        )


DIGEST = "sha256"
"""Key of the digest in an .onnx file's metadata."""

BLANK = b"0" * 64
"""Placeholder for the digest while it is computed."""

_END, _NO_COMMENT = b"PK\x05\x06", b"\0\0"
_METADATA, _KEY, _VALUE = b"\x72", b"\x0a", b"\x12"  # fields 14 of ModelProto, 1 and 2 of its entries


def _zip(content: bytes) -> bytes:
    """Append a blank digest as the comment of a zip archive."""
    assert content[-22:-18] == _END
    assert content[-2:] == _NO_COMMENT
    return content[:-2] + len(BLANK).to_bytes(2, "little") + BLANK


def _protobuf(content: bytes) -> bytes:
    """Append a blank digest as the last metadata entry of an ONNX model."""
    name = DIGEST.encode()
    entry = _KEY + bytes([len(name)]) + name + _VALUE + bytes([len(BLANK)]) + BLANK
    return content + _METADATA + bytes([len(entry)]) + entry


BLANKED: dict[str, Callable[[bytes], bytes]] = {".onnx": _protobuf, ".pt2": _zip}
"""Functions that add a blank digest to a file's content, by suffix."""


def sealed(content: bytes, suffix: str) -> bytes:
    """Append to the content the digest of the whole file."""
    blank = BLANKED[suffix](content)
    return blank[: -len(BLANK)] + _digest(blank)


def check_sealed(content: bytes, path: Path) -> None:
    """Compare an exported file with the digest at its end, before any of it is run."""
    if len(content) < len(BLANK) or _digest(content[: -len(BLANK)] + BLANK) != content[-len(BLANK) :]:
        raise InputError(
            f"{path}: damaged, or not written by this version of forecast.export (its digest does not match): "
            "copy or export it again"
        )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


FACTS = "forecast.json"
"""Name of the JSON entry that describes a file."""

SCORES = "calibration.txt"
"""Name of the entry with the calibration of the intervals."""

INPUTS = ("past", "past_known", "future_known", "past_observed")
OUTPUT = "forecast"


class Exported(ABC):
    """Exported model: of one series in original units, of a long table in z-scores of each series.

    `facts` is the manifest of the run: architecture, data, scaler and the digest of the weights. Its entry `export` has
    `batch`, the number of windows per call; None: any.
    """

    facts: dict[str, Any]
    calibration: str
    """The calibration file as text (`forecast.predict.facts.encoded`)."""

    def __call__(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out), in the units of the model; the arguments are the fields of a `Context`."""
        if past_observed is None:
            past_observed = torch.ones_like(past, dtype=torch.bool)
        return self.compute(dict(zip(INPUTS, (past, past_known, future_known, past_observed), strict=True)))

    @property
    def batch(self) -> int | None:
        """Number of windows per call; None: any."""
        batch: int | None = self.facts["export"]["batch"]
        return batch

    @abstractmethod
    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast from named inputs; a model may ignore some of them."""

    def check_made_from(self, run: Run) -> None:
        """Raise InputError if the file does not have the weights of `run`."""
        if self.facts["files"][WEIGHTS]["sha256"] != run.manifest()["files"][WEIGHTS]["sha256"]:
            raise InputError(
                f"--model was not exported from --run {run.path}: its weights differ: leave out --run, or export this "
                "run with python -m forecast.export"
            )


class ExportedProgram(Exported):
    """Model written by torch.export."""

    def __init__(self, content: bytes) -> None:
        from torch.export import load

        check_stored(content)
        with zipfile.ZipFile(BytesIO(content)) as archive:
            facts, scores = (
                next(name for name in archive.namelist() if name.endswith(f"/extra/{wanted}"))
                for wanted in (FACTS, SCORES)
            )
            self.facts, self.calibration = parse_json(archive.read(facts)), archive.read(scores).decode("ascii")
        with warnings.catch_warnings():
            # torch 2.11 warns about a read-only buffer of its own
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            program = load(BytesIO(content))
        self.names = [name for name in INPUTS if name in program.graph_signature.user_inputs]
        self.module = program.module()

    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast computed by torch."""
        forecast: Tensor = self.module(*(inputs[name] for name in self.names))
        return forecast


class OnnxModel(Exported):
    """Model run by ONNX Runtime."""

    def __init__(self, content: bytes) -> None:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.log_severity_level = 3  # errors only: users cannot act on its warnings about a graph
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
        entries = self.session.get_modelmeta().custom_metadata_map
        self.facts, self.calibration = parse_json(entries[FACTS].encode()), entries[SCORES]
        self.names = [entry.name for entry in self.session.get_inputs()]

    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast computed by ONNX Runtime, on the CPU."""
        (forecast,) = self.session.run([OUTPUT], {name: inputs[name].numpy() for name in self.names})
        return torch.from_numpy(forecast)


FORMATS: dict[str, Callable[[bytes], Exported]] = {".onnx": OnnxModel, ".pt2": ExportedProgram}
"""Classes that open a file, by suffix."""


def open_exported(path: Path) -> Exported:
    """Open the exported model at `path`.

    A .pt2 file is a program, and torch unpickles parts of it: open it only if you trust its author. The digest at the
    end of a file detects damage, not forgery.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: --model takes a file written by forecast.export, {' or '.join(FORMATS)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file: write it with python -m forecast.export --output {path.name}")
    return open_bytes(path.read_bytes(), path)


def open_bytes(content: bytes, path: Path) -> Exported:
    """Open the exported model in `content`, read from `path`; see `open_exported`."""
    require(path)
    check_sealed(content, path)
    try:
        exported = FORMATS[path.suffix](content)
        _ = exported.facts["files"][WEIGHTS]["sha256"], exported.facts["export"]["batch"]
    except _open_errors(path) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{path}: not a model written by forecast.export ({reason}): export it again") from None
    if exported.facts.get("format") != FORMAT:
        raise InputError(f"{path}: {OTHER_FORMAT}: export it again, or use that version")
    return exported


def _open_errors(path: Path) -> tuple[type[Exception], ...]:
    """Return the exceptions that invalid content may raise."""
    if path.suffix != ".onnx":
        return (*DAMAGE, zipfile.BadZipFile)
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoModel", "NotImplemented")
    return (*DAMAGE, *(getattr(state, name) for name in names))
