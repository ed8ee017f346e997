"""Cases of the contract tests: every mechanism with a YAML file, in each of its forms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from forecast.attention import build
from forecast.attention.base import Attention

FOLDER = Path(__file__).parents[2] / "conf" / "attention"
FILES = sorted(FOLDER.glob("*.yaml"))
# Other values than those of the YAML file, to test other branches.
OTHER_VALUES: dict[str, list[dict[str, Any]]] = {
    "full": [{"implementation": "explicit"}],
    "linformer": [{"rank": 4}],
    "probsparse": [{"sampling": "per_query"}, {"measure": "published"}, {"factor": 1}],
}


@dataclass(frozen=True)
class Case:
    """One mechanism with its arguments, causal or not."""

    arguments: dict[str, Any]
    causal: bool
    label: str

    @property
    def name(self) -> str:
        return str(self.arguments["name"])

    def build(self, num_heads: int = 2, head_dim: int = 8, max_key_length: int = 256) -> Attention:
        torch.manual_seed(0)
        sizes = {"num_heads": num_heads, "head_dim": head_dim, "max_key_length": max_key_length}
        return build(**self.arguments, **sizes, causal=self.causal).eval()


def load(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(file.read_text())
    return loaded


def _cases() -> list[Case]:
    cases = []
    for file in FILES:
        defaults = load(file)
        for other in [{}, *OTHER_VALUES.get(file.stem, [])]:
            label = "-".join([file.stem, *map(str, other.values())])
            case = Case(defaults | other, False, label)
            cases.append(case)
            if case.build().causal_ability != "no":
                cases.append(Case(defaults | other, True, f"{label}-causal"))
    return cases


CASES = _cases()


def parameters(cases: list[Case]) -> list[Any]:
    """Return the cases as parameters; those with other values than the YAML file, or causal, are slow."""
    defaults = [load(file) for file in FILES]
    return [
        pytest.param(
            case, id=case.label, marks=[] if case.arguments in defaults and not case.causal else pytest.mark.slow
        )
        for case in cases
    ]


def tensors(
    batch: int = 2,
    heads: int = 2,
    length: int = 9,
    key_length: int | None = None,
    width: int = 8,
    value_width: int | None = None,
    dtype: torch.dtype = torch.float64,
    seed: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query, key and value, leaves that require gradients."""
    generator = torch.Generator().manual_seed(seed)
    key_length = length if key_length is None else key_length
    shapes = [(length, width), (key_length, width), (key_length, value_width or width)]
    query, key, value = (
        torch.randn(batch, heads, *shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    )
    return query, key, value


def prefix(lengths: list[int], size: int) -> Tensor:
    """Return the prefix mask (B, size) of these lengths."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of a sum of the output with fixed uneven weights."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).reshape(output.shape)
    return torch.autograd.grad((output * weights.to(output.dtype)).sum(), inputs, materialize_grads=True)
