"""Capture the forecasting function as a graph, and write it as a .pt2 or .onnx file with its description."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, export, save

from forecast.common.errors import InputError, first_line
from forecast.model.compiling import LEAF_SPEC
from forecast.model.original_units import Context, OriginalUnits, ZScores
from forecast.predict.exported import FACTS, OUTPUT, SCORES, sealed
from forecast.runs.run import WEIGHTS, Architecture

Exportable = OriginalUnits | ZScores


@dataclass(frozen=True)
class Captured:
    """Captured graph and its batch size; None: any."""

    program: ExportedProgram
    batch: int | None


def capture(model: Exportable, architecture: Architecture, *, masked: bool) -> Captured:
    """Capture the graph of `model` for any batch size, or for batch size 1 if that fails.

    `model` is in evaluation mode on the CPU. The graph has the input `past_observed` if `masked`.
    """
    reason = ""
    for batch in (None, 1):
        example = example_of(model, architecture, 2 if batch is None else batch, masked=masked)
        sizes = None if batch else tuple({0: Dim("batch", min=1)} for _ in example)
        try:
            with torch.no_grad():
                return Captured(export(model, example, dynamic_shapes=sizes), batch)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = first_line(error)
    raise InputError(f"{words_of(architecture)}: torch.export cannot capture it ({reason}): choose another mechanism")


def example_of(model: Exportable, architecture: Architecture, batch: int, *, masked: bool) -> tuple[torch.Tensor, ...]:
    """Return example inputs. A .pt2 file stores them, so they are the training means, not rows of the data."""
    sizes, device = architecture.sizes, next(model.parameters()).device
    channels = torch.zeros(sizes.num_targets + sizes.num_past_covariates, device=device)
    mean = model.mean if isinstance(model, OriginalUnits) else channels
    past = mean.expand(batch, sizes.context_length, -1).clone()
    context = Context(
        past=past,
        past_known=torch.zeros(batch, sizes.context_length, sizes.num_known, device=device),
        future_known=torch.zeros(batch, sizes.horizon, sizes.num_known + sizes.static_layout.width, device=device),
        past_observed=torch.ones_like(past, dtype=torch.bool) if masked else None,
    )
    return tuple(tensor for tensor in context if tensor is not None)


def words_of(architecture: Architecture) -> str:
    """Return the architecture as command-line options."""
    mechanisms = architecture.mechanisms
    words = f"model={architecture.preset} attention={mechanisms.encoder['name']}"
    if mechanisms.decoder["name"] != mechanisms.encoder["name"]:
        words += f" attention@decoder_attention={mechanisms.decoder['name']}"
    return f"{words} attention@cross_attention={mechanisms.cross['name']}"


def facts_of(manifest: Mapping[str, Any], batch: int | None) -> dict[str, Any]:
    """Return the description of an exported file: the manifest of the run, with the digest of its weights only.

    Of a run that it began with, only the name of the folder is kept: the file may leave this machine.
    """
    entries, start = {key: manifest[key] for key in KEPT}, manifest.get("start_from")
    if start and start["run"] is not None:
        start = {**start, "run": Path(start["run"]).name}
    return {
        **entries,
        "start_from": start,
        "files": {WEIGHTS: manifest["files"][WEIGHTS]},
        "export": {"batch": batch, "torch": torch.__version__},
    }


KEPT = ("format", "architecture", "data", "scaler", "calibration", "validation_mse", "training_range", "limits")
"""Entries of a manifest that an exported file keeps."""


def to_pt2(captured: Captured, facts: Mapping[str, Any], calibration: str) -> bytes:
    """Return the content of a .pt2 file."""
    content = BytesIO()
    save(captured.program, content, extra_files={FACTS: json.dumps(facts), SCORES: calibration})
    return sealed(content.getvalue(), ".pt2")


def to_onnx(captured: Captured, facts: Mapping[str, Any], calibration: str) -> bytes:
    """Return the content of an .onnx file."""
    first, *others = captured.program.graph_signature.user_inputs
    sizes = {first: {0: "batch"}, **dict.fromkeys(others)} if captured.batch is None else None
    try:
        with _without_warnings():
            written = torch.onnx.export(
                captured.program, dynamic_shapes=sizes, output_names=[OUTPUT], verbose=False, external_data=False
            )
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # the last one names the operation
            cause = cause.__cause__
        raise InputError(
            f"the model has no ONNX form ({first_line(cause).partition('. ')[0]}): choose a .pt2 file"
        ) from None
    assert written is not None
    written.model.metadata_props[FACTS] = json.dumps(facts)
    written.model.metadata_props[SCORES] = calibration
    return sealed(written.model_proto.SerializeToString(), ".onnx")


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence torch's warnings about its own deprecated class and about torchvision, which is not needed."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", LEAF_SPEC, FutureWarning)
            yield
    finally:
        registration.setLevel(level)


WRITERS: dict[str, Callable[[Captured, Mapping[str, Any], str], bytes]] = {".onnx": to_onnx, ".pt2": to_pt2}
"""Functions that return the content of a file, by suffix."""
