"""Exported models: opened, checked and run without a run folder."""

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
from forecast.runs.run import DAMAGE, FORMAT, WEIGHTS, Run

OPENING, WRITING = ("onnxruntime",), ("onnx", "onnxscript", "onnxruntime")
"""Packages for an .onnx file; a .pt2 needs torch alone."""


def require(path: Path, packages: tuple[str, ...] = OPENING) -> None:
    """Refuse a file whose packages are not installed."""
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
_METADATA, _KEY, _VALUE = b"\x72", b"\x0a", b"\x12"  # fields 14, 1 and 2 of ModelProto and of its entries, as lengths


def _zip(content: bytes) -> bytes:
    """Return the archive with a blank digest as its final comment."""
    assert content[-22:-18] == _END
    assert content[-2:] == _NO_COMMENT
    return content[:-2] + len(BLANK).to_bytes(2, "little") + BLANK


def _protobuf(content: bytes) -> bytes:
    """Return the message with a blank digest as the last entry of its metadata."""
    name = DIGEST.encode()
    entry = _KEY + bytes([len(name)]) + name + _VALUE + bytes([len(BLANK)]) + BLANK
    return content + _METADATA + bytes([len(entry)]) + entry


BLANKED: dict[str, Callable[[bytes], bytes]] = {".onnx": _protobuf, ".pt2": _zip}
"""Functions that add a blank digest to a file's content, by suffix."""


def sealed(content: bytes, suffix: str) -> bytes:
    """Return the content with the digest of all of it at its end."""
    blank = BLANKED[suffix](content)
    return blank[: -len(BLANK)] + _digest(blank)


def check_sealed(content: bytes, path: Path) -> None:
    """Compare the content of an exported file with the digest at its end, before any of it is run."""
    if len(content) < len(BLANK) or _digest(content[: -len(BLANK)] + BLANK) != content[-len(BLANK) :]:
        raise InputError(
            f"{path}: not a file that this version of forecast.export wrote, or a damaged one (its digest differs): "
            "copy it again, or export it again"
        )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


FACTS = "forecast.json"
"""Name of the JSON entry that describes a file."""

INPUTS = ("past", "past_known", "future_known", "past_observed")
OUTPUT = "forecast"


class Exported(ABC):
    """A model in original units whose weights and arithmetic are in a file.

    `facts` is a run's manifest: architecture, data, scaler, and the weights among its files. Its `export` entry has
    `batch`, the number of windows a call takes, None for any.
    """

    facts: dict[str, Any]

    def __call__(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out), float64; the arguments are the parts of a `Context`."""
        if past_observed is None:
            past_observed = torch.ones_like(past, dtype=torch.bool)
        return self.compute(dict(zip(INPUTS, (past, past_known, future_known, past_observed), strict=True)))

    @abstractmethod
    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast from the inputs by name; the model may lack some of them."""

    def check_made_from(self, run: Run) -> None:
        """Refuse a file with weights other than those of `run`."""
        if self.facts["files"][WEIGHTS]["sha256"] != run.manifest()["files"][WEIGHTS]["sha256"]:
            raise InputError(
                f"--model was not exported from --run {run.path}: its weights are others: leave out --run, or export "
                f"this run with python -m forecast.export"
            )


class ExportedProgram(Exported):
    """A model that torch.export wrote."""

    def __init__(self, content: bytes) -> None:
        from torch.export import load

        check_stored(content)
        with zipfile.ZipFile(BytesIO(content)) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(f"/extra/{FACTS}")]
            self.facts = parse_json(archive.read(name))
        with warnings.catch_warnings():
            # torch 2.11 warns of a buffer that it made itself and that nobody writes to
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            program = load(BytesIO(content))
        self.names = [name for name in INPUTS if name in program.graph_signature.user_inputs]
        self.module = program.module()

    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast, computed by torch."""
        forecast: Tensor = self.module(*(inputs[name] for name in self.names))
        return forecast


class OnnxModel(Exported):
    """A model that ONNX Runtime computes."""

    def __init__(self, content: bytes) -> None:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.log_severity_level = 3  # errors alone: what it remarks on a graph is nothing for a user to mend
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.facts = parse_json(self.session.get_modelmeta().custom_metadata_map[FACTS].encode())
        self.names = [entry.name for entry in self.session.get_inputs()]

    def compute(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the forecast; its inputs are on the CPU."""
        (forecast,) = self.session.run([OUTPUT], {name: inputs[name].numpy() for name in self.names})
        return torch.from_numpy(forecast)


FORMATS: dict[str, Callable[[bytes], Exported]] = {".onnx": OnnxModel, ".pt2": ExportedProgram}
"""Classes that open a file, by suffix."""


def open_exported(path: Path) -> Exported:
    """Return the model in the file at `path`.

    A .pt2 is a program, and torch unpickles parts of it: trust it only if you trust its author. The digest at a file's
    end detects damage, not forgery.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: --model takes a file that forecast.export wrote, {' or '.join(FORMATS)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file: write it with python -m forecast.export --output {path.name}")
    return open_bytes(path.read_bytes(), path)


def open_bytes(content: bytes, path: Path) -> Exported:
    """Return the model with the content of a file at `path`; as `open_exported`."""
    require(path)
    check_sealed(content, path)
    try:
        exported = FORMATS[path.suffix](content)
        _ = exported.facts["files"][WEIGHTS]["sha256"], exported.facts["export"]["batch"]
    except _faults(path) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{path}: no model that forecast.export wrote ({reason}): export it again") from None
    if exported.facts.get("format") != FORMAT:
        raise InputError(f"{path}: not of format {FORMAT}, but of another version of the program: export it again")
    return exported


def _faults(path: Path) -> tuple[type[Exception], ...]:
    """Return the exceptions that invalid content may raise."""
    if path.suffix != ".onnx":
        return (*DAMAGE, zipfile.BadZipFile)
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    named = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoModel", "NotImplemented")
    return (*DAMAGE, *(getattr(state, name) for name in named))
