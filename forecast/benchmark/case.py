"""A case of the attention benchmark: its tensors, its operations and its memory traffic."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forecast.attention._parsing import Variant
from forecast.attention.base import Attention, Head, SparseQueries
from forecast.common.text import heads_of
from forecast.model.kernels import few_queries
from forecast.model.multi_head import MultiHeadAttention

BACKWARD = 2
"""Matrix products of the backward pass per product of the forward pass, of the same size."""


def projection_operations(length: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of a layer's four projections in the forward pass, per batch row."""
    return 4 * 2 * length * d_model * num_heads * head_dim


def layer_elements(length: int, d_model: int, num_heads: int, head_dim: int) -> int:
    """Return the minimum number of elements that a layer's forward pass moves: input, four weights, output."""
    return 2 * length * d_model + 4 * d_model * num_heads * head_dim


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


@dataclass(frozen=True)
class Case:
    """A mechanism at a shape."""

    variant: Variant
    shape: Shape

    def build(self) -> nn.Module:
        """Return the measured module, on the CPU in float32; raise `InputError` if the mechanism refuses the shape."""
        shape = self.shape
        torch.manual_seed(SEED)
        mechanism = self._mechanism()
        if shape.d_model is None:
            return mechanism
        return MultiHeadAttention(shape.d_model, shape.num_heads, mechanism, shape.head_dim)

    def operations(self) -> float | None:
        """Return the operations of all passes, None if the mechanism declares none."""
        shape = self.shape
        head = self.variant.kind.operations(shape.head, **self.variant.arguments)
        if head is None:
            return None
        row = shape.num_heads * head
        if shape.d_model is not None:
            sizes = shape.d_model, shape.num_heads, shape.head_dim
            few = self._num_active()
            usual = row + projection_operations(shape.length, *sizes)
            row = usual if few is None else few_queries.operations(shape.length, few, *sizes)
        return shape.batch * row * (1 + BACKWARD * shape.backward)

    def least_bytes(self, dtype: torch.dtype) -> int | None:
        """Return the minimum bytes to move, None for a layer's backward pass."""
        shape = self.shape
        if shape.d_model is None:
            head = self.variant.kind.elements_moved(shape.head, shape.backward)
            return shape.batch * shape.num_heads * head * dtype.itemsize
        if shape.backward:
            return None
        inside = layer_elements(shape.length, shape.d_model, shape.num_heads, shape.head_dim)
        return (inside + (shape.batch - 1) * 2 * shape.length * shape.d_model) * dtype.itemsize

    def _mechanism(self) -> Attention:
        shape = self.shape
        return self.variant.build(
            num_heads=shape.num_heads, head_dim=shape.head_dim, causal=shape.causal, length=shape.length
        )

    def _num_active(self) -> int | None:
        """Return the number of active queries in a float32 layer of self-attention; None if it uses all queries."""
        if not issubclass(self.variant.kind, SparseQueries):
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
