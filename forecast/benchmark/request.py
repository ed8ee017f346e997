"""From the options of the command line to a plan: what goes together, and what this machine has."""

from argparse import Namespace

import torch

from forecast.attention._mechanisms import choose
from forecast.benchmark.case import DTYPES
from forecast.benchmark.options import settle
from forecast.benchmark.plan import Plan
from forecast.common.errors import InputError


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
