"""The model in original units as one graph without Python, for any number of windows or for one."""

from dataclasses import dataclass

import torch
from torch.export import Dim, ExportedProgram, export

from forecast.common.errors import InputError, first_line
from forecast.model.original_units import Context, OriginalUnits
from forecast.runs.run import Architecture


@dataclass(frozen=True)
class Captured:
    """A graph, and its batch size; None is any."""

    program: ExportedProgram
    batch: int | None


def capture(model: OriginalUnits, architecture: Architecture, *, masked: bool) -> Captured:
    """Return the graph of `model` for any number of windows, or for one where capture fails otherwise.

    `model` is in evaluation mode on the CPU; the graph takes `past_observed` if `masked`.
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


def example_of(
    model: OriginalUnits, architecture: Architecture, batch: int, *, masked: bool
) -> tuple[torch.Tensor, ...]:
    """Return example inputs: the training means, since a .pt2 stores them, and no data rows."""
    sizes, device = architecture.sizes, model.mean.device
    past = model.mean.expand(batch, sizes.context_length, -1).clone()
    context = Context(
        past=past,
        past_known=torch.zeros(batch, sizes.context_length, sizes.num_known, device=device),
        future_known=torch.zeros(batch, sizes.horizon, sizes.num_known, device=device),
        past_observed=torch.ones_like(past, dtype=torch.bool) if masked else None,
    )
    return tuple(part for part in context if part is not None)


def words_of(architecture: Architecture) -> str:
    """Return the command-line words of the architecture."""
    mechanisms = architecture.mechanisms
    said = f"model={architecture.preset} attention={mechanisms.encoder['name']}"
    if mechanisms.decoder["name"] != mechanisms.encoder["name"]:
        said += f" attention@decoder_attention={mechanisms.decoder['name']}"
    return f"{said} attention@cross_attention={mechanisms.cross['name']}"
