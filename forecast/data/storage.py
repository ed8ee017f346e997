"""Storage of a table: on the training device, or in a memory-mapped file if it does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.memory import free_bytes
from forecast.data.mapped import Address, MappedFile, Recipe

CPU = torch.device("cpu")

SHARE = 0.5
"""Share of the free memory above which "auto" maps a table; the model and its steps need the rest."""


@dataclass(frozen=True)
class Placement:
    """The placement of a table, with the sizes in bytes that decided it.

    `wanted` is "auto", "device" or "mapped", `device` the device of the batches. `free_bytes` is None if unknown.
    """

    wanted: str
    device: torch.device
    table_bytes: int
    free_bytes: int | None

    @property
    def mapped(self) -> bool:
        """Whether the table is in a file."""
        if self.wanted != "auto":
            return self.wanted == "mapped"
        return self.free_bytes is not None and self.table_bytes > SHARE * self.free_bytes

    def __str__(self) -> str:
        free = "an unknown amount" if self.free_bytes is None else _mib(self.free_bytes)
        where = "in a memory-mapped file" if self.mapped else f"on {self.device}"
        requested = "" if self.wanted == "auto" else ", as requested"
        return f"table of {_mib(self.table_bytes)} {where}{requested}; {self.device} has {free} free"

    @property
    def is_notable(self) -> bool:
        """Whether the placement is worth a printed line: requested, or in a file because memory is short."""
        return self.mapped or self.wanted != "auto"

    def facts(self) -> dict[str, Any]:
        """Return the entries of `result.json`."""
        return {
            "where": "mapped" if self.mapped else "device",
            "wanted": self.wanted,
            "table_bytes": self.table_bytes,
            "free_bytes": self.free_bytes,
        }


@dataclass(frozen=True)
class Placing:
    """The requested placement (`wanted`: "auto", "device" or "mapped") and its resources.

    The `processes` of the run on this machine share the memory of a CPU. A file is on the disk of `folder`, or of its
    nearest existing parent. `address` is the file of another process of the run; if it is unreadable, a new file is
    written.
    """

    wanted: str = "auto"
    device: torch.device = CPU
    processes: int = 1
    folder: Path = Path()
    address: Address | None = None

    def choose(self, table_bytes: int) -> Placement:
        """Return the placement of a table of `table_bytes`."""
        free = free_bytes(self.device)
        if free is not None and self.device.type == "cpu":
            free //= self.processes
        if self.wanted == "device" and free is not None and table_bytes > free:
            raise InputError(
                f"training.data_placement=device: the table takes {_mib(table_bytes)}, {self.device} has "
                f"{_mib(free)} free for it: use auto or mapped"
            )
        return Placement(self.wanted, self.device, table_bytes, free)

    def file(self, recipes: Sequence[Recipe]) -> MappedFile:
        """Open the run's file of arrays, or write it."""
        shared = None if self.address is None else MappedFile.open(self.address, recipes)
        return shared or MappedFile.write(recipes, _existing(self.folder))


IN_MEMORY = Placing()
"""Placement on the CPU; in a file only if memory is short."""


@dataclass(frozen=True)
class Placed:
    """A stored table: its arrays on the CPU, and the file that holds them, or None."""

    placement: Placement
    tensors: list[Tensor]
    file: MappedFile | None


def place(recipes: Sequence[Recipe], placing: Placing) -> Placed:
    """Build the arrays of a table in memory or in a file, as `placing` chooses."""
    placement = placing.choose(sum(recipe.bytes for recipe in recipes))
    if not placement.mapped:
        return Placed(placement, [recipe.in_memory() for recipe in recipes], None)
    file = placing.file(recipes)
    return Placed(placement, file.tensors, file)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _mib(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"
