"""What the attention benchmark is asked to measure, as checked plain values."""

from dataclasses import dataclass

import torch

from forecast.attention._mechanisms import Variant
from forecast.benchmark.case import Shape
from forecast.common.errors import InputError

TWO_HEADS_OF = 32
"""Width of the layer's two heads: an example of heads that do not share out d_model."""


@dataclass(frozen=True)
class Plan:
    """Every choice of a run.

    Attributes
    ----------
    lengths : tuple of int
        Of the sweep, rising; empty for none.
    layer_length : int or None
        Of the table with projections; None for none.
    seconds, repetitions : float, int
        A case of the sweep is repeated for so long, and at least so often.
    limit : float
        A case of the sweep that would take more seconds than this, all its passes together, is left out.
    fit_from : int
        The shortest length that exponents are fitted on.
    budget : float or None
        Seconds of the whole run: each group of cases gets an even part of what is left, and a case that does not
        fit into it is left out; None for no bound.
    """

    device: torch.device
    dtype: torch.dtype
    variants: tuple[Variant, ...]
    lengths: tuple[int, ...]
    batch: int
    num_heads: int
    head_dim: int
    causal: bool
    backward: bool
    layer_length: int | None
    d_model: int
    layer_repetitions: int
    seconds: float
    repetitions: int
    limit: float
    fit_from: int
    budget: float | None = None

    def layer_shapes(self) -> list[Shape]:
        """Return the shapes of the table with projections: one head, two heads of 32, eight heads.

        Raises
        ------
        InputError
            If d_model has no eighth.
        """
        if self.layer_length is None:
            return []
        if self.d_model % 8:
            raise InputError(f"--d-model {self.d_model}: must be a multiple of 8, for the layer with eight heads")
        heads = [(1, self.d_model), (2, TWO_HEADS_OF), (8, self.d_model // 8)]
        return [Shape(self.layer_length, 1, count, width, d_model=self.d_model) for count, width in heads]

    def sweeps(self) -> list[list[Shape]]:
        """Return the shapes of each sweep, by rising length: forward, both passes, and again causal."""
        if not self.lengths:
            return []
        return [
            [Shape(length, self.batch, self.num_heads, self.head_dim, causal, backward) for length in self.lengths]
            for causal in (False, True)[: 1 + self.causal]
            for backward in (False, True)[: 1 + self.backward]
        ]

    def num_groups(self) -> int:
        """Return how many groups of cases are measured together."""
        return len(self.layer_shapes()) + sum(len(sweep) for sweep in self.sweeps())

    def num_cases(self) -> int:
        """Return how many cases the run has, those included that will be left out."""
        return len(self.variants) * self.num_groups()
