"""Mechanisms whose operations have kernels, and the comparison of a kernel with the formula in float64.

On a machine without a GPU the kernels run in Triton's interpreter; see `tests/conftest.py`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from forecast.attention import build
from forecast.attention.base import Attention
from forecast.check.candidate import Candidate
from forecast.check.numbers import exact_copy, exact_inputs, joint_error, relative_error
from forecast.check.suite import BFLOAT16, FLOAT32, GRADIENT
from forecast.kernels.fused import IS_INTERPRETED, use, watch
from tests.support.small import ROOT

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CAN_RUN = DEVICE.type == "cuda" or IS_INTERPRETED

SUMS: dict[str, dict[str, Any]] = {
    **{f"linear-{name}": {"name": "linear", "feature_map": name} for name in ("elu", "relu", "softplus", "exp")},
    **{
        f"linear-{name}-plain": {"name": "linear", "feature_map": name, "normalize": False}
        for name in ("elu", "relu", "softplus", "exp")
    },
    "efficient": {"name": "efficient", "scale_query": False},
    "efficient-scaled": {"name": "efficient", "scale_query": True},
    "taylor": {"name": "taylor"},
}
SPARSE: dict[str, dict[str, Any]] = {
    f"probsparse-{sampling}-{measure}": {"name": "probsparse", "factor": 2, "sampling": sampling, "measure": measure}
    for sampling in ("shared", "per_query")
    for measure in ("sampled_mean", "published")
}
CASES = SUMS | SPARSE


@dataclass(frozen=True)
class Sizes:
    """Sizes of query, key and value; the defaults have an incomplete block and keys in several splits."""

    batch: int = 2
    heads: int = 1
    queries: int = 20
    keys: int = 70
    width: int = 8
    value_width: int = 5


def mechanism_of(arguments: dict[str, Any], sizes: Sizes) -> Attention:
    """Return the mechanism in evaluation mode."""
    arguments = {"normalize": True, **arguments} if arguments["name"] == "linear" else arguments
    return build(**arguments, num_heads=sizes.heads, head_dim=sizes.width, max_key_length=sizes.keys).eval()


def draw(sizes: Sizes, dtype: torch.dtype, *, heads_last: bool = False, seed: int = 1) -> list[Tensor]:
    """Draw query, key and value; with `heads_last` they are views of (B, N, H, ·), as a layer makes them."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(sizes.queries, sizes.width), (sizes.keys, sizes.width), (sizes.keys, sizes.value_width)]
    drawn = []
    for rows, width in shapes:
        x = torch.randn(sizes.batch, sizes.heads, rows, width, generator=generator).to(DEVICE, dtype)
        x = x.transpose(1, 2).contiguous().transpose(1, 2) if heads_last else x
        drawn.append(x.requires_grad_())
    return drawn


def holes(sizes: Sizes) -> Tensor:
    """Return a mask of keys (B, S) with holes; every row has a key, and the last block has hidden ones."""
    mask = torch.rand(sizes.batch, sizes.keys, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[:, 0] = True
    return mask.to(DEVICE)


def gradients(output: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradients of a sum of the output with fixed weights, whose sum over queries is never nearly 0."""
    weights = torch.arange(output.numel(), dtype=torch.float64, device=output.device).cos().reshape(output.shape)
    return torch.autograd.grad((output * weights.to(output.dtype)).sum(), inputs, materialize_grads=True)


def errors(
    arguments: dict[str, Any], sizes: Sizes, inputs: Sequence[Tensor], mask: Tensor | None
) -> tuple[float, float]:
    """Return the errors of output and gradients of a mechanism whose operations all run in kernels."""
    mechanism = mechanism_of(arguments, sizes)
    with use(True), watch() as forms:
        output = mechanism(*inputs, mask)
        found = gradients(output, inputs)
    assert forms == {"kernel"}
    assert output.dtype == inputs[2].dtype
    same, full = exact_inputs(inputs), {"normalize": True, **arguments}
    candidate = Candidate(full if arguments["name"] == "linear" else arguments, device=DEVICE)
    expected = candidate.oracle(exact_copy(mechanism), same, mask)
    return relative_error(output, expected), joint_error(found, gradients(expected, same))


def assert_matches(arguments: dict[str, Any], sizes: Sizes, inputs: Sequence[Tensor], mask: Tensor | None) -> None:
    """Fail unless output and gradients are within the bounds of `forecast.check`."""
    output, gradient = errors(arguments, sizes, inputs, mask)
    is_half = inputs[0].dtype == torch.bfloat16
    assert output <= (BFLOAT16 if is_half else FLOAT32)
    assert gradient <= (BFLOAT16 if is_half else GRADIENT)


def planted(module: str, old: str, new: str, folder: Path) -> ModuleType:
    """Return a copy of a module of kernels in which `new` replaces `old`, with operators of other names."""
    source = (ROOT / "forecast" / "kernels" / f"{module}.py").read_text(encoding="utf-8")
    assert old in source
    name = f"planted_{module}_{abs(hash((old, new)))}"
    file = folder / f"{name}.py"
    file.write_text(source.replace(old, new).replace('"forecast::', f'"{name}::'), encoding="utf-8")
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    sys.modules[name] = copy
    spec.loader.exec_module(copy)
    return copy
