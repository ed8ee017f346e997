"""A mechanism as the checks see it: what it declares, and how it and its inputs are made."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from forecast.attention import build
from forecast.attention.base import Attention

NUM_HEADS = 2
HEAD_DIM = 8
LENGTH = 160  # two and a half pieces of the mechanisms that work by pieces
LEAST_KEY_LENGTH = 256  # what a mechanism with parameters tied to positions is built for, at least


@dataclass(frozen=True)
class Candidate:
    """A mechanism with the arguments of its YAML file, `name` included, as training hands them to `attention.build`.

    `length` is the positions in checks of free size. Random numbers are drawn on the CPU, the same for every `device`.
    """

    arguments: dict[str, Any]
    length: int = LENGTH
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def name(self) -> str:
        """The word on the command line."""
        return str(self.arguments["name"])

    @cached_property
    def kind(self) -> type[Attention]:
        """The class, which carries what is declared."""
        return type(self.build())

    @property
    def forms(self) -> tuple[bool, ...]:
        """The values of `causal` that it declares to take."""
        return (False,) if self.kind.causal_ability == "no" else (False, True)

    def build(
        self,
        *,
        causal: bool = False,
        num_heads: int = NUM_HEADS,
        dtype: torch.dtype = torch.float32,
        key_length: int = LEAST_KEY_LENGTH,
    ) -> Attention:
        """Return the mechanism in evaluation mode; its parameters, if any, are the same at each call."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            mechanism = build(
                **self.arguments,
                num_heads=num_heads,
                head_dim=HEAD_DIM,
                causal=causal,
                max_key_length=max(key_length, self.length, LEAST_KEY_LENGTH),
            )
        return mechanism.to(self.device, dtype).eval()

    def tensors(
        self,
        length: int,
        key_length: int | None = None,
        *,
        batch: int = 2,
        num_heads: int = NUM_HEADS,
        value_width: int = HEAD_DIM,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return query (B, H, L, E), key (B, H, S, E) and value (B, H, S, V), standard normal, with gradients."""
        generator = torch.Generator().manual_seed(1)
        keys = length if key_length is None else key_length

        def draw(rows: int, width: int) -> Tensor:
            drawn = torch.randn(batch, num_heads, rows, width, generator=generator, dtype=torch.float64)
            return drawn.to(self.device, dtype).requires_grad_()

        return draw(length, HEAD_DIM), draw(keys, HEAD_DIM), draw(keys, value_width)

    def prefix(self, lengths: list[int], size: int) -> Tensor:
        """Return the mask of valid lengths, shape (B, size)."""
        return torch.arange(size, device=self.device) < torch.tensor(lengths, device=self.device)[:, None]

    def holes(self, batch: int, size: int) -> Tensor:
        """Return a mask with holes, shape (batch, size), in which the first position is allowed."""
        mask = torch.rand(batch, size, generator=torch.Generator().manual_seed(2)) < 0.6
        mask[:, 0] = True
        return mask.to(self.device)
