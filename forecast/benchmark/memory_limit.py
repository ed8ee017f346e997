"""How much memory a search for the largest look-back may take."""

import torch

from forecast.benchmark.room import SHARE
from forecast.common.errors import InputError
from forecast.common.free_memory import free_bytes


def memory_bytes(wanted_gib: float | None, device: torch.device) -> int:
    """Give the bytes that were asked for, or those of the device: what a GPU has free, of a CPU four fifths of it.

    Raises
    ------
    InputError
        If the device has less than was asked for, or does not say what it has and nothing was asked for.
    """
    there = free_bytes(device)
    own = there if there is None or device.type == "cuda" else int(SHARE * there)
    if wanted_gib is None:
        if own is None:
            raise InputError("the system does not say how much memory is free: give --memory-gib")
        return own
    wanted = int(wanted_gib * 2**30)
    if there is not None and wanted > there:
        raise InputError(f"--memory-gib {wanted_gib:g}: {there / 2**30:.1f} GiB are there: ask for less")
    return wanted
