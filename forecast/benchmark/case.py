"""A case of the attention benchmark: its tensors, its operations and its memory traffic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from forecast.attention import _few_queries as few_queries
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention._parsing import Variant
from forecast.attention.base import Attention, Head, SparseQueries
from forecast.common.text import heads_of

BACKWARD = 2
"""Matrix products of the backward pass per product of the forward pass, of the same size."""


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SEED = 0


@dataclass(frozen=True)
class Shape:
    """Shape of the tensors of a case, the same for every compared mechanism.

    With `d_model` the case includes the projections and its input is (B, L, D); else its inputs are (B, H, L, E).
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
        """Text for the measured passes."""
        return "forward+backward" if self.backward else "forward"

    @property
    def layout(self) -> str:
        """Text for the number and width of heads."""
        return heads_of(self.num_heads, self.head_dim)

    @property
    def head(self) -> Head:
        """The sizes of one head."""
        return Head(self.length, self.length, self.head_dim, self.head_dim, self.causal)

    def draw(self, device: torch.device, dtype: torch.dtype) -> tuple[list[Tensor], Tensor | None]:
        """Return seeded inputs, and the output's gradient if there is a backward pass; the same at each call."""
        generator = torch.Generator(device).manual_seed(SEED)
        size: tuple[int, ...] = (self.batch, self.num_heads, self.length, self.head_dim)
        if self.d_model is not None:
            size = (self.batch, self.length, self.d_model)

        def random() -> Tensor:
            return torch.randn(size, generator=generator, device=device).to(dtype)

        inputs = [random().requires_grad_(self.backward) for _ in range(3 if self.d_model is None else 1)]
        return inputs, random() if self.backward else None


class LoopOverHeads(nn.Module):
    """The textbook's form of `layer`: heads one after the other, each with its own projections and mechanism.

    `mechanisms` has one mechanism of one head for each head. The weights are copies, so both forms agree.
    """

    def __init__(self, layer: MultiHeadAttention, mechanisms: Sequence[Attention]) -> None:
        super().__init__()
        self.mechanisms = nn.ModuleList(mechanisms)
        self.queries = _per_head(layer.query_projection, len(mechanisms))
        self.keys = _per_head(layer.key_projection, len(mechanisms))
        self.values = _per_head(layer.value_projection, len(mechanisms))
        self.output_projection = layer.output_projection

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the output (B, L, D) for query (B, L, D), key and value (B, S, D)."""
        projections = zip(self.mechanisms, self.queries, self.keys, self.values, strict=True)
        heads = [attend(q(query)[:, None], k(key)[:, None], v(value)[:, None])[:, 0] for attend, q, k, v in projections]
        output: Tensor = self.output_projection(torch.cat(heads, dim=-1))  # H tensors (B, L, E) to (B, L, D)
        return output


@torch.no_grad()
def _per_head(projection: nn.Linear, num_heads: int) -> nn.ModuleList:
    """Return one linear map per head with the rows of `projection`."""
    layers = [nn.Linear(projection.in_features, projection.out_features // num_heads) for _ in range(num_heads)]
    for place, layer in enumerate(layers):
        layer.weight.copy_(projection.weight.chunk(num_heads)[place])
        layer.bias.copy_(projection.bias.chunk(num_heads)[place])
    return nn.ModuleList(layers)


@dataclass(frozen=True)
class Case:
    """A mechanism at a shape; with `loop`, a layer that computes its heads one after the other."""

    variant: Variant
    shape: Shape
    loop: bool = False

    @property
    def label(self) -> str:
        """Name of the case in tables, unique among the cases of a shape."""
        return f"{self.variant.label}, loop over heads" if self.loop else self.variant.label

    def build(self) -> nn.Module:
        """Return the measured module, on the CPU in float32; raise `InputError` if the mechanism refuses the shape."""
        shape = self.shape
        torch.manual_seed(SEED)
        mechanism = self._mechanism()
        if shape.d_model is None:
            return mechanism
        layer = MultiHeadAttention(shape.d_model, shape.num_heads, mechanism, shape.head_dim)
        if not self.loop:
            return layer
        return LoopOverHeads(layer, [self._mechanism(num_heads=1) for _ in range(shape.num_heads)])

    def operations(self, dtype: torch.dtype = torch.float32) -> float | None:
        """Return the operations of all passes on tensors of a type, None if the mechanism declares none."""
        shape = self.shape
        head = self.variant.kind.operations(shape.head, **self.variant.arguments)
        if head is None:
            return None
        row = shape.num_heads * head
        if shape.d_model is not None:
            sizes = shape.d_model, shape.num_heads, shape.head_dim
            few = self._num_active(dtype)
            projections = 4 * 2 * shape.length * prod(sizes)
            row = row + projections if few is None else few_queries.operations(shape.length, few, *sizes)
        return shape.batch * row * (1 + BACKWARD * shape.backward)

    def least_bytes(self, dtype: torch.dtype) -> int | None:
        """Return the minimum bytes to move, None for a layer's backward pass."""
        shape = self.shape
        if shape.d_model is None:
            head = self.variant.kind.elements_moved(shape.head, shape.backward)
            return shape.batch * shape.num_heads * head * dtype.itemsize
        if shape.backward:
            return None
        weights = 4 * shape.d_model * shape.num_heads * shape.head_dim
        input_and_output = 2 * shape.batch * shape.length * shape.d_model
        return (weights + input_and_output) * dtype.itemsize

    def _mechanism(self, num_heads: int | None = None) -> Attention:
        shape = self.shape
        heads = shape.num_heads if num_heads is None else num_heads
        return self.variant.build(num_heads=heads, head_dim=shape.head_dim, causal=shape.causal, length=shape.length)

    def _num_active(self, dtype: torch.dtype) -> int | None:
        """Return the number of active queries in a layer of self-attention; None if it uses all queries."""
        if self.loop or few_queries.is_half(dtype) or not issubclass(self.variant.kind, SparseQueries):
            return None
        return few_queries.num_active_if_cheaper(self._mechanism(), self.shape.length)


def prepare(module: nn.Module, inputs: list[Tensor], gradient: Tensor | None) -> Callable[[], object]:
    """Return a function that runs one pass and returns its results, so that they stay allocated.

    Without `gradient` it runs a forward pass in evaluation mode. With the output's `gradient` it runs forward and
    backward in training mode, and the results include the gradients of inputs and parameters.
    """
    module.train(gradient is not None)
    arguments = inputs * 3 if len(inputs) == 1 else inputs  # self-attention: one tensor in three roles
    leaves = [*inputs, *module.parameters()]

    def forward() -> object:
        with torch.no_grad():
            return module(*arguments)

    def both() -> object:
        output = module(*arguments)
        # allow_unused: `mean` never reads query and key
        return output, torch.autograd.grad(output, leaves, gradient, allow_unused=True)

    return forward if gradient is None else both
