"""Read batches from a table four times as large as the free memory: `python -m tests.data.bounded <folder>`."""

import gc
import resource
import sys
from pathlib import Path

import numpy as np
import torch

from forecast.data.batches import ShuffledBatches
from forecast.data.mapped import MappedFile, Recipe
from forecast.data.windows import Windows

ROWS, WIDTH, LENGTH = 2**19, 64, 64
LEFT = 32 * 2**20  # of a table of 128 MiB
BATCHES = 200
EMPTY = np.empty((ROWS, 0))


def make(piece: slice) -> np.ndarray:
    """Return rows that say in every column which row they are."""
    return np.repeat(np.arange(piece.start, piece.stop, dtype=np.float32)[:, None], WIDTH, axis=1)


def bound() -> None:
    """Limit the additional private memory of this process; mapped files do not count."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used * 2**10 + LEFT, resource.RLIM_INFINITY))


def main(folder: Path) -> str:
    """Say how the table fared in memory and in a file."""
    torch.set_num_threads(1)
    recipes = [Recipe(ROWS, WIDTH, np.float32, make), Recipe(ROWS, 0, np.float32, lambda piece: EMPTY[piece])]
    bound()
    try:
        recipes[0].in_memory()
        in_memory = "held"
    except MemoryError:
        in_memory = "refused"
    values, known = MappedFile.write(recipes, folder).tensors
    starts = torch.arange(ROWS - LENGTH + 1)
    windows = Windows(values, known, starts, LENGTH - 8, 8, WIDTH, mapped_for=torch.device("cpu"))
    right = 0
    for batch in ShuffledBatches(windows, 16, seed=1, total=BATCHES):
        first = batch.origin[:, None, None] - batch.past.shape[1]
        steps = torch.arange(LENGTH)[:, None]
        right += bool((torch.cat([batch.past, batch.future], 1) == first + steps).all())
    return f"in memory: {in_memory}; mapped: {right} batches are right"


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
