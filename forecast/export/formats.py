"""A captured graph as file content, with its description inside."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import torch
from torch.export import save

from forecast.common.errors import InputError, first_line
from forecast.export.capture import Captured
from forecast.model.compiling import LEAF_SPEC
from forecast.predict.exported import FACTS, OUTPUT, sealed
from forecast.runs.run import WEIGHTS


def facts_of(manifest: Mapping[str, Any], batch: int | None) -> dict[str, Any]:
    """Return the description of a file: the run's manifest, with the weights only of its files."""
    kept = {key: manifest[key] for key in ("format", "architecture", "data", "scaler")}
    return {
        **kept,
        "files": {WEIGHTS: manifest["files"][WEIGHTS]},
        "export": {"batch": batch, "torch": torch.__version__},
    }


def to_pt2(captured: Captured, facts: Mapping[str, Any]) -> bytes:
    """Return the content of a .pt2 file."""
    content = BytesIO()
    save(captured.program, content, extra_files={FACTS: json.dumps(facts)})
    return sealed(content.getvalue(), ".pt2")


def to_onnx(captured: Captured, facts: Mapping[str, Any]) -> bytes:
    """Return the content of an .onnx file."""
    first, *others = captured.program.graph_signature.user_inputs
    sizes = {first: {0: "batch"}, **dict.fromkeys(others)} if captured.batch is None else None
    try:
        with _without_remarks():
            written = torch.onnx.export(
                captured.program, dynamic_shapes=sizes, output_names=[OUTPUT], verbose=False, external_data=False
            )
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # the last says which operation
            cause = cause.__cause__
        raise InputError(f"the model has no ONNX form ({first_line(cause)}): choose a name that ends in .pt2") from None
    assert written is not None
    written.model.metadata_props[FACTS] = json.dumps(facts)
    return sealed(written.model_proto.SerializeToString(), ".onnx")


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Silence warnings of torch about a class of its own, and about torchvision, which is not needed."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", LEAF_SPEC, FutureWarning)
            yield
    finally:
        registration.setLevel(level)


WRITERS: dict[str, Callable[[Captured, Mapping[str, Any]], bytes]] = {".onnx": to_onnx, ".pt2": to_pt2}
"""Functions that make a file's content, by suffix."""
