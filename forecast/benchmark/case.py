"""One thing to be measured: a mechanism, alone or within its projections, at one shape."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forecast.attention._mechanisms import Variant
from forecast.benchmark import counts
from forecast.common.text import heads_of
from forecast.model.multi_head import MultiHeadAttention

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
        head = counts.head_operations(
            self.variant.name, shape.length, shape.head_dim, self.variant.arguments, causal=shape.causal
        )
        if head is None:
            return None
        row = shape.num_heads * head
        few = counts.few_of(
            self.variant.name, shape.length, shape.head_dim, self.variant.arguments, causal=shape.causal
        )
        if shape.d_model is not None and few is not None:
            row = counts.few_operations(shape.length, few, shape.d_model, shape.num_heads, shape.head_dim)
        elif shape.d_model is not None:
            row += counts.projection_operations(shape.length, shape.d_model, shape.num_heads, shape.head_dim)
        return shape.batch * row * (1 + counts.BACKWARD * shape.backward)

    def least_bytes(self, dtype: torch.dtype) -> int | None:
        """Return the bytes that have to be moved at the least, None for a layer's backward pass."""
        shape = self.shape
        if shape.d_model is None:
            row = counts.attention_elements(
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
        inside = counts.layer_elements(shape.length, shape.d_model, shape.num_heads, shape.head_dim)
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
