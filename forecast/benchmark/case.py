"""A measured case of attention: its tensors, its operations and the bytes that it moves."""

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
"""Each product of the forward pass has two of its size in the backward pass."""


def projection_operations(length: int, d_model: int, num_heads: int, head_dim: int) -> float:
    """Return the operations of the four projections of a layer, forward, a batch row."""
    return 4 * 2 * length * d_model * num_heads * head_dim


def layer_elements(length: int, d_model: int, num_heads: int, head_dim: int) -> int:
    """Return the numbers that a layer moves at the least, forward: input, four weights, output."""
    return 2 * length * d_model + 4 * d_model * num_heads * head_dim


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SEED = 0


@dataclass(frozen=True)
class Shape:
    """The tensors of a case, the same for every mechanism that is compared.

    With `d_model` the case includes the projections and its input is (B, L, D); else inputs are (B, H, L, E).
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

    @property
    def head(self) -> Head:
        """The sizes of one head."""
        return Head(self.length, self.length, self.head_dim, self.head_dim, self.causal)

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
        mechanism = self._mechanism()
        if shape.d_model is None:
            return mechanism
        return MultiHeadAttention(shape.d_model, shape.num_heads, mechanism, shape.head_dim)

    def operations(self) -> float | None:
        """Return the operations counted for all passes, None where nobody has counted them."""
        shape = self.shape
        head = self.variant.kind.operations(shape.head, **self.variant.arguments)
        if head is None:
            return None
        row = shape.num_heads * head
        if shape.d_model is not None:
            sizes = shape.d_model, shape.num_heads, shape.head_dim
            few = self._num_few()
            usual = row + projection_operations(shape.length, *sizes)
            row = usual if few is None else few_queries.operations(shape.length, few, *sizes)
        return shape.batch * row * (1 + BACKWARD * shape.backward)

    def least_bytes(self, dtype: torch.dtype) -> int | None:
        """Return the bytes that have to be moved at the least, None for a layer's backward pass."""
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

    def _num_few(self) -> int | None:
        """Return how many queries a float32 layer of self-attention goes by; None where it makes keys for all."""
        if not issubclass(self.variant.kind, SparseQueries):
            return None
        return few_queries.num_active_if_cheaper(self._mechanism(), self.shape.length)


def prepare(module: nn.Module, inputs: list[Tensor], gradient: Tensor | None) -> Callable[[], object]:
    """Return a function that runs one pass and returns all its results, so that a caller can hold them.

    Without `gradient`: a forward pass in evaluation mode. With the output's `gradient`: forward and backward in
    training mode; the results include the gradients of inputs and parameters.
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
