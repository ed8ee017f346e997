"""A mechanism under test: its declarations, its construction and its inputs."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from forecast.attention import build
from forecast.attention.base import Attention

NUM_HEADS = 2
HEAD_DIM = 8
LENGTH = 160  # two and a half blocks of mechanisms that work in blocks
LEAST_KEY_LENGTH = 256  # least max_key_length of mechanisms with parameters per position


@dataclass(frozen=True)
class Candidate:
    """Mechanism under test.

    `arguments` are the keys of its YAML file, including `name`. `length` is the sequence length of checks that do not
    set one. Random numbers are drawn on the CPU, so that all devices get the same.
    """

    arguments: dict[str, Any]
    length: int = LENGTH
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def name(self) -> str:
        """Name on the command line."""
        return str(self.arguments["name"])

    @cached_property
    def kind(self) -> type[Attention]:
        """Class of the mechanism, with its declarations."""
        return type(self.build())

    @property
    def forms(self) -> tuple[bool, ...]:
        """Values of `causal` that it supports."""
        return (False,) if self.kind.causal_ability == "no" else (False, True)

    def build(
        self,
        *,
        causal: bool = False,
        num_heads: int = NUM_HEADS,
        dtype: torch.dtype = torch.float32,
        key_length: int = LEAST_KEY_LENGTH,
    ) -> Attention:
        """Build the mechanism in evaluation mode, with the same parameters at each call."""
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
        """Draw query (B, H, L, E), key (B, H, S, E) and value (B, H, S, V), standard normal, requiring gradients."""
        generator = torch.Generator().manual_seed(1)
        keys = length if key_length is None else key_length

        def draw(rows: int, width: int) -> Tensor:
            drawn = torch.randn(batch, num_heads, rows, width, generator=generator, dtype=torch.float64)
            return drawn.to(self.device, dtype).requires_grad_()

        return draw(length, HEAD_DIM), draw(keys, HEAD_DIM), draw(keys, value_width)

    def prefix(self, lengths: list[int], size: int) -> Tensor:
        """Return the prefix mask of these lengths, shape (B, size)."""
        return torch.arange(size, device=self.device) < torch.tensor(lengths, device=self.device)[:, None]

    def holes(self, batch: int, size: int) -> Tensor:
        """Return a random mask, shape (batch, size), whose first position is allowed."""
        mask = torch.rand(batch, size, generator=torch.Generator().manual_seed(2)) < 0.6
        mask[:, 0] = True
        return mask.to(self.device)
