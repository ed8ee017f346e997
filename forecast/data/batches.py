"""The order of the training windows: a function of the seed and an absolute batch counter."""

import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from forecast.data.windows import Batch, Windows


@dataclass(eq=False)
class ShuffledBatches:
    """Training batches `first` to `total` - 1, all of the same size.

    Every window occurs once per shuffled pass; with `by_series`, every series of a panel equally often, each time with
    one of its windows at random. Batches continue across the end of a pass, so that all have the same
    size. Batch n does not depend on the batches read before, so the counter is the only state. `seed` is used for the
    shuffling only.

    This process gets the windows `rank`, `rank` + `processes`, … of each batch. `asked` and `given` are the
    `time.perf_counter` readings at the request and the arrival of the newest batch.
    """

    windows: Windows
    batch_size: int
    seed: int
    total: int
    first: int = 0
    _: KW_ONLY
    rank: int = 0
    processes: int = 1
    by_series: bool = False

    def __post_init__(self) -> None:
        self.asked = self.given = 0.0
        self._pass = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        return max(1, self.total - self.first)  # Lightning skips the loop if the length is 0

    def __iter__(self) -> Iterator[Batch]:
        batches = self.windows.stream(self._share(number) for number in range(self.first, self.total))
        for _ in range(self.first, self.total):
            self.asked = time.perf_counter()
            batch = next(batches)
            self.given = time.perf_counter()
            yield batch

    def indices(self, number: int) -> Tensor:
        """Return the window positions (B,) of batch `number` of the run, for all processes together."""
        position, stop = number * self.batch_size, (number + 1) * self.batch_size
        pieces = []
        while position < stop:
            number_of_pass, offset = divmod(position, len(self.windows))
            piece = self._shuffled(number_of_pass)[offset : offset + stop - position]
            pieces.append(piece)
            position += len(piece)
        return torch.cat(pieces)

    def _share(self, number: int) -> Tensor:
        """Return this process's window positions of batch `number`, on the device of the starts."""
        index = self.indices(number)[self.rank :: self.processes]
        device = self.windows.starts.device
        # a copy from pageable memory would wait for all queued work of the device
        return (index.pin_memory() if device.type == "cuda" else index).to(device, non_blocking=True)

    def _shuffled(self, number_of_pass: int) -> Tensor:
        if number_of_pass != self._pass:
            # torch's CPU generator reads 32 bits of its seed, so both numbers are mixed into 32 bits
            mixed = np.random.SeedSequence([self.seed, number_of_pass]).generate_state(1)
            generator = torch.Generator().manual_seed(int(mixed[0]))
            self._order = torch.randperm(len(self.windows), generator=generator)
            if self.by_series:
                self._order = self._drawn(self._order, generator)
            self._pass = number_of_pass
        return self._order

    def _drawn(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """Return one window for each of a random `order` of draws (W,), whose series take turns."""
        panel = self.windows.panel
        assert panel is not None
        series = panel.series.cpu()[self.windows.starts.cpu() + self.windows.context_length]
        _, place, counts = torch.unique(series, return_inverse=True, return_counts=True)
        sorted_windows, first = place.argsort(stable=True), counts.cumsum(0) - counts
        chosen = order % len(counts)
        share = torch.rand(len(order), generator=generator, dtype=torch.float64)
        drawn: Tensor = sorted_windows[first[chosen] + (share * counts[chosen]).long()]
        return drawn
