"""What a benchmark is asked for, and the cases that it plans."""

from argparse import Namespace
from dataclasses import dataclass

import torch

from forecast.attention._parsing import Variant, choose
from forecast.benchmark.case import DTYPES, Shape
from forecast.benchmark.options import settle
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


def plan_of(options: Namespace) -> Plan:
    """Return the plan that the options of the command line ask for.

    Raises
    ------
    InputError
        If they do not go together.
    """
    settle(options)
    dtype = DTYPES[options.dtype]
    plan = Plan(
        device=choose_device(options.device, dtype),
        dtype=dtype,
        variants=choose(options.mechanisms),
        lengths=powers_of_two(options.shortest, options.longest) if "lengths" in options.tables else (),
        batch=options.batch,
        num_heads=options.heads,
        head_dim=options.head_dim,
        causal=options.causal,
        backward=not options.no_backward,
        layer_length=options.layer_length if "layer" in options.tables else None,
        d_model=options.d_model,
        layer_repetitions=options.layer_repetitions,
        seconds=options.seconds,
        repetitions=options.repetitions,
        limit=options.limit,
        fit_from=options.fit_from,
        budget=None if options.minutes is None else 60 * options.minutes,
    )
    plan.layer_shapes()
    return plan


def powers_of_two(shortest: int, longest: int) -> tuple[int, ...]:
    """Return `shortest` and what doubling makes of it, up to `longest`.

    Raises
    ------
    InputError
        If there is none.
    """
    check_order(shortest, longest)
    return tuple(shortest * 2**n for n in range((longest // shortest).bit_length()))


def check_order(shortest: int, longest: int) -> None:
    """Refuse a longest length below the shortest.

    Raises
    ------
    InputError
        Naming both.
    """
    if longest < shortest:
        raise InputError(f"--longest {longest} is below --shortest {shortest}: raise the one or lower the other")


def choose_device(wanted: str, dtype: torch.dtype) -> torch.device:
    """Return the device to measure, a GPU for "auto" where there is one.

    Raises
    ------
    InputError
        If it is not there, or does not take the dtype.
    """
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise InputError("--device cuda: no CUDA device here: choose cpu")
    device = torch.device("cuda" if there and wanted != "cpu" else "cpu")
    if device.type == "cpu" and dtype == torch.float16:
        raise InputError("--dtype fp16: only a CUDA device computes in it: choose fp32 or bf16")
    return device
