"""Small models in original units, and windows for them."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forecast import attention
from forecast.attention._parsing import attention_arguments
from forecast.export.formats import Captured, facts_of
from forecast.model import build
from forecast.model.original_units import Context, OriginalUnits
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.run import FORMAT, WEIGHTS, Architecture
from tests.support.examples import FULL, OPTIONS

ARGUMENTS = attention_arguments(attention.available())
MEAN = torch.tensor([1e7, -5.0, 20.0], dtype=torch.float64)
SCALE = torch.tensor([100.0, 0.1, 5.0], dtype=torch.float64)

SIZES = {
    # context and horizon are no multiples of the patch length 4
    "patch_informer": Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=22, horizon=7),
    # a causal decoder over more than one block
    "informer": Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=40, horizon=70),
}


def make_model(preset: str, mechanism: dict[str, Any], **changes: Any) -> tuple[OriginalUnits, Architecture]:
    """Return a model in evaluation mode whose weights are all random, and its architecture."""
    never_causal = attention.find(mechanism["name"]).causal_ability == "no"
    decoder = FULL if never_causal and preset == "informer" else mechanism
    options = {**OPTIONS[preset], "encoder_layers": 2 if preset == "informer" else 1, **changes}  # two, to distil
    architecture = Architecture(preset, options, Mechanisms(mechanism, decoder, FULL), SIZES[preset])
    torch.manual_seed(0)
    network = build(preset, architecture.sizes, architecture.mechanisms, **architecture.options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return OriginalUnits(network, MEAN, SCALE).eval(), architecture


def windows(architecture: Architecture, count: int, *, masked: bool = False) -> Context:
    """Return random windows in original units."""
    sizes, generator = architecture.sizes, torch.Generator().manual_seed(count)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    past = MEAN + SCALE * normal(count, sizes.context_length, 3).double()
    known = (normal(count, steps, sizes.num_known) for steps in (sizes.context_length, sizes.horizon))
    observed = torch.rand(past.shape, generator=generator) > 0.2 if masked else None
    return Context(past, *known, observed)


def description(captured: Captured, architecture: Architecture) -> dict[str, Any]:
    """Return the description of an exported file."""
    manifest = {"format": FORMAT, "architecture": asdict(architecture), "data": {}, "scaler": {}}
    manifest |= {key: {} for key in ("calibration", "validation_mse", "training_range", "limits")}
    return facts_of({**manifest, "files": {WEIGHTS: {"sha256": "0"}}}, captured.batch)


def largest_error(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference of two forecasts, in standard deviations."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype == torch.float64
    return float(np.abs((actual - expected).detach().numpy() / SCALE[:2].numpy()).max())
