"""A measured case of attention: its operations, bytes and declared costs."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from forecast.attention._parsing import Variant
from forecast.attention._sampling import log_count
from forecast.common.text import heads_of
from forecast.evaluation.crossing import slope
from forecast.model._few import pays
from forecast.model.multi_head import MultiHeadAttention

_POWERS = {"": 1, "²": 2, "³": 3}
_LOGARITHM = re.compile(r"log [LS]")
_LENGTH = re.compile(r"[LS]([²³]?)")
# A product that can be read: lengths with a power, their logarithms, and what does not grow: numbers and letters,
# but for N and T, which others call lengths.
_PRODUCT = re.compile(r"\s*\d*(?:log [LS](?![²³])|(?:[A-MO-SU-Z]|[a-mo-su-z](?![a-z]))[²³]?|[\s·\u00d7])*")


@dataclass(frozen=True)
class Growth:
    """A cost that grows as L to a power times the logarithm of L to another."""

    power: int
    logarithms: int = 0

    def between(self, shorter: int, longer: int) -> float:
        """Return how many times the cost at `shorter` that at `longer` is."""
        ratio = (longer / shorter) ** self.power
        return ratio * (math.log(max(longer, 2)) / math.log(max(shorter, 2))) ** self.logarithms

    def exponent(self, lengths: Sequence[int]) -> float:
        """Return the exponent that a fit over `lengths` would find; about power + logarithms / ln L."""
        return slope(lengths, [self.between(lengths[0], length) for length in lengths])


def cost_of(declared: str, words: Collection[str]) -> str | None:
    """Return the cost in the one clause of a declaration that holds for a case, None where none does.

    Parameters
    ----------
    declared : str
        As a mechanism's `time_cost` or `memory_cost`: clauses such as `O(L) fused, O(L²) explicit`.
    words : collection of str
        What the case is ("causal", "explicit", …): a clause with words counts for cases that have them
        all, and before those without a word.
    """
    clauses = re.findall(r"([^,(]*)O\(([^)]*)\)([^,(]*)", declared)
    said = [(f"{before} {after}".split(), cost) for before, cost, after in clauses]
    fitting = [cost for asked, cost in said if asked and set(asked) <= set(words)]
    fitting += [cost for asked, cost in said if not asked]
    return fitting[0] if fitting else None


def growth_of(declared: str, words: Collection[str]) -> Growth | None:
    """Return how the declared cost of a case grows with the length, None where nobody can say.

    Arguments as in `cost_of`. Read are L and S, squared or cubed, and their logarithms, as in
    `O(L log L · E)`; another way of writing is not guessed at.
    """
    cost = cost_of(declared, words)
    return None if cost is None else _read(cost)


def memory_growth_of(declared: str, words: Collection[str]) -> Growth | None:
    """Return how memory above the inputs grows: as declared, and no slower than the output, which is L long."""
    growth = growth_of(declared, words)
    return Growth(1) if growth is not None and growth.power < 1 else growth


def _read(cost: str) -> Growth | None:
    terms = []
    for term in cost.split("+"):
        if not _PRODUCT.fullmatch(term):
            return None
        rest = _LOGARITHM.sub("", term)
        power = sum(_POWERS[exponent] for exponent in _LENGTH.findall(rest))
        terms.append((power, len(_LOGARITHM.findall(term))))
    return Growth(*max(terms))


BACKWARD = 2
"""Each product of the forward pass has two of its size in the backward pass."""


def head_operations(
    name: str, length: int, width: int, arguments: Mapping[str, Any], *, causal: bool = False
) -> float | None:
    """Return the floating-point operations of one head's forward pass, queries and keys of one length.

    None for a mechanism that nobody has counted. A multiplication and an addition are two; exponentials
    and sampling are left out. Causal halves `full`; the others' formulas are those without.
    """
    linear = 4 * length * width**2
    match name:
        case "full":
            return 4 * length**2 * width / (2 if causal else 1)
        case "probsparse":
            # U keys for all queries, then u queries for all keys, twice; here u and U are equal
            return 6 * length * log_count(arguments["factor"], length) * width
        case "linear" | "efficient":
            return linear + 3 * length * width
        case "taylor":
            return linear + 5 * length * width
        case "linformer":
            return 8 * length * min(int(arguments["rank"]), length) * width
        case "mean":
            return length * width
    return None


def projection_operations(length: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of the four projections of a layer, forward, a batch row."""
    return 4 * 2 * length * d_model * num_heads * head_dim


def few_of(name: str, length: int, head_dim: int, arguments: Mapping[str, Any], *, causal: bool) -> int | None:
    """Return how many queries a float32 layer of self-attention goes by; None where it makes keys for all."""
    if name != "probsparse" or causal or arguments.get("sampling") != "shared":
        return None
    few = log_count(arguments["factor"], length)
    return few if pays(length, few, head_dim) else None


def few_operations(length: int, few: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of a layer that goes by its few queries straight from the tokens, forward, a batch row."""
    return 2 * num_heads * few * d_model * (3 * length + 6 * head_dim)


def attention_elements(
    name: str, length: int, num_heads: int, head_dim: int, *, causal: bool = False, backward: bool = False
) -> int:
    """Return the numbers moved at the least: query, key and value read once, the output written once.

    The backward pass reads those three and the output's gradient, and writes three gradients. `mean` reads
    values alone, and only causal does it write more than a row; so with their gradients.
    """
    tensors = (1 + causal) * (1 + backward) if name == "mean" else 4 + 7 * backward
    return tensors * length * num_heads * head_dim


def layer_elements(length: int, d_model: int, num_heads: int, head_dim: int) -> int:
    """Return the numbers that a layer moves at the least, forward: input, four weights, output."""
    return 2 * length * d_model + 4 * d_model * num_heads * head_dim


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SEED = 0


@dataclass(frozen=True)
class Shape:
    """What the tensors of a case look like, the same for every mechanism that is compared.

    With `d_model` the projections belong to the case and what comes in is one tensor (B, L, D); without,
    query, key and value come in as (B, H, L, E).
    """

    length: int
    batch: int
    num_heads: int
    head_dim: int
    causal: bool = False
    backward: bool = False
    d_model: int | None = None

    @property
    def passes(self) -> str:
        """Which passes are measured, as tables say it."""
        return "forward+backward" if self.backward else "forward"

    @property
    def layout(self) -> str:
        """The heads, as tables say them."""
        return heads_of(self.num_heads, self.head_dim)

    def draw(self, device: torch.device, dtype: torch.dtype) -> tuple[list[Tensor], Tensor | None]:
        """Return what comes in, and the output's gradient where one is wanted; the same at each call."""
        generator = torch.Generator(device).manual_seed(SEED)
        size: tuple[int, ...] = (self.batch, self.num_heads, self.length, self.head_dim)
        if self.d_model is not None:
            size = (self.batch, self.length, self.d_model)

        def random() -> Tensor:
            return torch.randn(size, generator=generator, device=device).to(dtype)

        inputs = [random().requires_grad_(self.backward) for _ in range(3 if self.d_model is None else 1)]
        return inputs, random() if self.backward else None


@dataclass(frozen=True)
class Case:
    """A mechanism at a shape."""

    variant: Variant
    shape: Shape

    def build(self) -> nn.Module:
        """Return the module that is measured, on the CPU in float32; InputError where it is refused."""
        shape = self.shape
        torch.manual_seed(SEED)
        mechanism = self.variant.build(
            num_heads=shape.num_heads, head_dim=shape.head_dim, causal=shape.causal, length=shape.length
        )
        if shape.d_model is None:
            return mechanism
        return MultiHeadAttention(shape.d_model, shape.num_heads, mechanism, shape.head_dim)

    def operations(self) -> float | None:
        """Return the operations counted for all passes, None where nobody has counted them."""
        shape = self.shape
        head = head_operations(
            self.variant.name, shape.length, shape.head_dim, self.variant.arguments, causal=shape.causal
        )
        if head is None:
            return None
        row = shape.num_heads * head
        few = few_of(self.variant.name, shape.length, shape.head_dim, self.variant.arguments, causal=shape.causal)
        if shape.d_model is not None and few is not None:
            row = few_operations(shape.length, few, shape.d_model, shape.num_heads, shape.head_dim)
        elif shape.d_model is not None:
            row += projection_operations(shape.length, shape.d_model, shape.num_heads, shape.head_dim)
        return shape.batch * row * (1 + BACKWARD * shape.backward)

    def least_bytes(self, dtype: torch.dtype) -> int | None:
        """Return the bytes that have to be moved at the least, None for a layer's backward pass."""
        shape = self.shape
        if shape.d_model is None:
            row = attention_elements(
                self.variant.name,
                shape.length,
                shape.num_heads,
                shape.head_dim,
                causal=shape.causal,
                backward=shape.backward,
            )
            return shape.batch * row * dtype.itemsize
        if shape.backward:
            return None
        inside = layer_elements(shape.length, shape.d_model, shape.num_heads, shape.head_dim)
        return (inside + (shape.batch - 1) * 2 * shape.length * shape.d_model) * dtype.itemsize


def prepare(module: nn.Module, inputs: list[Tensor], gradient: Tensor | None) -> Callable[[], object]:
    """Return what runs one pass and returns all that it gives, so that a caller can hold it.

    Without `gradient` a pass is as in a forecast: evaluation mode, forward alone. With the output's
    `gradient` it is as in training, and gives the gradients of the inputs and of the parameters.
    """
    module.train(gradient is not None)
    arguments = inputs * 3 if len(inputs) == 1 else inputs  # self-attention: one tensor in three roles
    leaves = [*inputs, *module.parameters()]

    def forward() -> object:
        with torch.no_grad():
            return module(*arguments)

    def both() -> object:
        output = module(*arguments)
        # allow_unused: the control never reads query and key
        return output, torch.autograd.grad(output, leaves, gradient, allow_unused=True)

    return forward if gradient is None else both
