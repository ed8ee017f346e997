"""A mechanism under test: its declarations, its construction, its inputs and its oracle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from forecast.attention import build
from forecast.attention.base import Attention
from forecast.check.formula import Formula, has_formula, pairs_allowed, read_formula
from forecast.common.errors import InputError

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

    @cached_property
    def weights_may_vanish(self) -> bool:
        """Whether the mechanism, with its arguments, may give a query no weight at all."""
        return self.build().weights_may_vanish

    @cached_property
    def formula(self) -> Formula | None:
        """Plain formula in its file; None if there is none. Raises InputError if it is not independent."""
        return read_formula(self.kind)

    @property
    def has_formula(self) -> bool:
        """Whether its file has a formula, valid or not."""
        return has_formula(self.kind)

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
        placed: Attention = mechanism.to(self.device, dtype).eval()
        return placed

    def each_form(self, **options: Any) -> Iterator[Attention]:
        """Yield the mechanism built in each of its forms, with further `options` of `build`."""
        for causal in self.forms:
            yield self.build(causal=causal, **options)

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

    def oracle(self, exact: Attention, inputs: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Return the expected output for float64 inputs: the formula's, or else the map times the values."""
        query, key, value = inputs
        if self.formula is None:
            return exact.attention_map(query, key, mask) @ value
        arguments = {name: argument for name, argument in self.arguments.items() if name != "name"}
        learned = {**dict(exact.named_parameters()), **dict(exact.named_buffers())}
        allowed = pairs_allowed(query, key, mask, exact.causal)
        expected = self.formula(query, key, value, allowed, **arguments, **learned)
        if not expected.isfinite().all():
            raise InputError("formula: its output is not finite here: subtract a maximum before each exponential")
        return expected

    def prefix(self, lengths: list[int], size: int) -> Tensor:
        """Return the prefix mask of these lengths, shape (B, size)."""
        return torch.arange(size, device=self.device) < torch.tensor(lengths, device=self.device)[:, None]

    def holes(self, batch: int, size: int) -> Tensor:
        """Return a random mask, shape (batch, size), whose first position is allowed."""
        mask = torch.rand(batch, size, generator=torch.Generator().manual_seed(2)) < 0.6
        mask[:, 0] = True
        return mask.to(self.device)

    def pairs(self, length: int, key_length: int) -> Tensor:
        """Return a random mask, shape (2, length, key_length), in which every query has a key, its own if there is."""
        pairs = torch.rand(2, length, key_length, generator=torch.Generator().manual_seed(3)) < 0.5
        own = torch.arange(length).clamp(max=key_length - 1)
        pairs[:, torch.arange(length), own] = True
        return pairs.to(self.device)
