"""Windows of a series or a panel, their batches on the device, and the choice of windows with filled values."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.known import NO_COVARIATES, KnownLayout
from forecast.data.split import window_rows

Item = TypeVar("Item")

_END = object()


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield `items` in order; a background thread computes the next item while the current one is in use.

    An exception is raised when its item is requested.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="next-batch") as worker:
        coming = worker.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = worker.submit(next, iterator, _END)
            yield item  # type: ignore[misc]  # not _END


class Batch(NamedTuple):
    """A batch of windows: T context steps, h horizon steps, F known inputs.

    `past` (B, T, C_in) and `future` (B, h, C_out) are z-scores of the training split, the targets first;
    `past_known` (B, T, F) and `future_known` (B, h, F) are known in advance, and the last columns of `future_known` are
    the static inputs of the series, if it has some; `past_observed` and
    `future_observed` are masks of the shapes of `past` and `future`, None if every value was measured
    or, in the past, fills are read as values; `origin` (B,) is the row of the first target. `series` (B,) is the place
    of each window's series in a panel, None in a table of one series.
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    past_observed: Tensor | None
    future: Tensor
    future_observed: Tensor | None
    origin: Tensor
    series: Tensor | None = None


def start_rows(targets: range, context_length: int, horizon: int, *, part: str) -> Tensor:
    """Return the first context row (W,) of every window whose targets are all in `targets`; see `window_rows`."""
    rows = window_rows(targets, context_length, horizon, part=part)
    return torch.arange(rows.start, rows.stop)


class _Gathered(NamedTuple):
    """Complete windows on the table's device: (B, T + h) rows of each array, and the first row (B,) of each."""

    values: Tensor
    known: Tensor
    observed: Tensor | None
    first: Tensor


def thinned_places(count: int, every: int) -> Tensor:
    """Return one place of each `every` neighbours below `count`, rising, the last place included.

    Equal distances would take the same hours of every day if they share a factor with the season. So one window is
    drawn from each group of `every`. Within `every` consecutive groups each offset occurs once. The draws are always
    the same.
    """
    if every == 1:
        return torch.arange(count)
    neighbourhoods = -(-count // every)
    drawn = torch.from_numpy(_orders(every, -(-neighbourhoods // every), neighbourhoods).reshape(-1)[:neighbourhoods])
    drawn[:1] = 0  # the newest window
    return (count - 1 - torch.arange(neighbourhoods) * every - drawn).clamp(min=0).flip(0)


def _orders(size: int, count: int, places: int) -> np.ndarray:
    """Return random orders of the numbers below `size`, (count, size); the first `places` of all are drawn.

    The orders are those of `torch.randperm` after `manual_seed(0)`, all at once: a panel has millions of them.
    """
    draws = np.random.RandomState(0).randint(0, 2**32, (count, size - 1), np.uint32)
    orders, rows = np.tile(np.arange(size), (count, 1)), np.arange(count)
    for place in range(min(size - 1, places)):
        other = place + draws[:, place] % (size - place)
        orders[rows, place], orders[rows, other] = orders[rows, other], orders[:, place].copy()
    return orders


class SeriesRows(NamedTuple):
    """The rows of a panel.

    `series` (N,) is the place of each row's series, `step` (N,) its step on the common clock. `first` (S,) is the row
    of each series before which there is padding, and `reads_padding` whether a look-back may read some. `static`
    (S, K) are the static inputs of each series; None: there are none.
    """

    series: Tensor
    step: Tensor
    first: Tensor
    reads_padding: bool = True
    static: Tensor | None = None

    def to(self, device: torch.device | str) -> "SeriesRows":
        """Return the same rows on `device`."""
        return SeriesRows._make(part.to(device) if isinstance(part, Tensor) else part for part in self)


@dataclass(frozen=True)
class Windows:
    """Windows over one table; no data is copied until a batch is requested.

    Parameters
    ----------
    values, known
        Shapes (N, C_in), z-scores, the `num_targets` = C_out targets first, and (N, F), inputs known in advance.
    starts
        Shape (W,), int64, the first context row of each window, in order of time.
    context_length, horizon
        T and h, in steps.
    observed
        Shape (N, C_in), False where a value was filled; None if no value was.
    past_masked
        Whether batches contain `past_observed`; otherwise fills are read as values.
    mapped_for
        Device of the batches of a table in a file; None: the table is in memory, on the device of its batches.
    layout
        Columns of `known`. The future of past categories is replaced by *unknown* and cannot leak.
    panel
        The series and the step of each row; None: the rows are those of one series, in order.
    """

    values: Tensor
    known: Tensor
    starts: Tensor
    context_length: int
    horizon: int
    num_targets: int
    observed: Tensor | None = None
    past_masked: bool = True
    mapped_for: torch.device | None = None
    layout: KnownLayout = NO_COVARIATES
    panel: SeriesRows | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def device(self) -> torch.device:
        """The device of the batches."""
        return self.values.device if self.mapped_for is None else self.mapped_for

    def to(self, device: torch.device | str) -> "Windows":
        """Return the same windows with their batches on `device`, and also their table unless it is mapped."""
        if self.mapped_for is not None:
            return replace(self, mapped_for=torch.device(device))
        parts = {name: getattr(self, name) for name in ("values", "known", "starts", "observed", "panel")}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})

    def every(self, step: int) -> "Windows":
        """Return every `step`-th window, the last one included."""
        offset = (len(self) - 1) % step
        return replace(self, starts=self.starts[offset::step])

    def thinned(self, every: int) -> "Windows":
        """Return one of every `every` neighbouring windows, the last included, spread evenly over a season."""
        return replace(self, starts=self.starts[thinned_places(len(self), every).to(self.starts.device)])

    @property
    def steps(self) -> Tensor:
        """The step of each window's first context row, rising, (W,), on the CPU; equal for all series of a date."""
        return (self.starts if self.panel is None else self.panel.step[self.starts]).cpu().contiguous()

    @property
    def overlap(self) -> int:
        """Most consecutive windows that share dates of targets with the first of them, itself included."""
        starts = self.steps
        shared = torch.searchsorted(starts, starts + self.horizon) - torch.arange(len(starts))
        return int(shared.max()) if len(starts) else 1

    @property
    def with_target(self) -> Tensor:
        """Whether each window has a measured target, shape (W,)."""
        if self.observed is None:
            return torch.ones(len(self), dtype=torch.bool, device=self.starts.device)
        measured = self.observed[:, : self.num_targets].any(1).cumsum(0)
        before = self.starts + self.context_length - 1
        return measured[before + self.horizon] > measured[before]

    def of_series(self, place: int) -> "Windows":
        """Return the windows of the target at `place` alone, with the same known inputs."""
        columns = slice(place, place + 1)
        observed = None if self.observed is None else self.observed[:, columns]
        return replace(self, values=self.values[:, columns], observed=observed, num_targets=1)

    def newest(self, context_length: int) -> "Windows":
        """Return the same windows with a shorter context, its newest steps."""
        later = self.context_length - context_length
        return replace(self, starts=self.starts + later, context_length=context_length)

    def values_at(self, rows: Tensor) -> Tensor:
        """Return the z-scores (…, C_in) of `rows` (…,), numbers of rows of the table, on `device`."""
        return self.values[rows.to(self.values.device)].to(self.device)

    def batch(self, index: Tensor) -> Batch:
        """Return the windows at the positions `index` (B,), which is on the device of `starts`."""
        return self._cut(self._gather(index))

    def batches(self, batch_size: int, share: range | None = None) -> Iterator[Batch]:
        """Yield every window, or the windows at the positions `share`, in order; the last batch may be smaller."""
        share = range(len(self)) if share is None else share
        positions = torch.arange(share.start, share.stop, device=self.starts.device)
        return self.stream(positions.split(batch_size) if share else ())

    def stream(self, indices: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield the batch of each of `indices`; from a mapped table, the next batch is read in the background."""
        gathered = map(self._gather, indices)
        return map(self._cut, gathered if self.mapped_for is None else prefetch(gathered))

    def _gather(self, index: Tensor) -> _Gathered:
        pinned = self.mapped_for is not None and self.mapped_for.type == "cuda"
        length = self.context_length + self.horizon
        first = _taken(self.starts, index, pinned)
        return _Gathered(
            values=_taken(_every_slice(self.values, length), first, pinned),
            known=_taken(_every_slice(self.known, length), first, pinned),
            observed=None if self.observed is None else _taken(_every_slice(self.observed, length), first, pinned),
            first=first,
        )

    def _cut(self, gathered: _Gathered) -> Batch:
        """Split past and future on the device into views."""
        # pinned memory is copied asynchronously; the allocator keeps it until the copy is done
        moved = [None if tensor is None else tensor.to(self.device, non_blocking=True) for tensor in gathered]
        values, known, observed, first = moved
        assert values is not None
        assert known is not None
        assert first is not None
        length, targets = self.context_length, self.num_targets
        series = None if self.panel is None else self.panel.series[first.to(self.panel.series.device)].to(self.device)
        past_observed = observed[:, :length] if observed is not None and self.past_masked else None
        if past_observed is None and series is not None:
            past_observed = self._outside_padding(values, first, series)
        return Batch(
            past=values[:, :length],
            past_known=known[:, :length],
            future_known=self._with_static(self.layout.future(known[:, length:]), series),
            past_observed=past_observed,
            future=values[:, length:, :targets],
            future_observed=None if observed is None else observed[:, length:, :targets],
            origin=first + length,
            series=series,
        )

    def _with_static(self, future_known: Tensor, series: Tensor | None) -> Tensor:
        """Return the known inputs of horizons (B, h, F) with the static inputs of their `series` (B,), if any."""
        if self.panel is None or self.panel.static is None or series is None:
            return future_known
        static = self.panel.static[series.to(self.panel.static.device)].to(future_known.device)
        return torch.cat([future_known, static[:, None].expand(-1, self.horizon, -1)], 2)

    def _outside_padding(self, values: Tensor, first: Tensor, series: Tensor) -> Tensor | None:
        """Return where the look-backs are not padding, (B, T, C_in); None if no look-back reads any."""
        assert self.panel is not None
        if not self.panel.reads_padding:
            return None
        rows = first[:, None] + torch.arange(self.context_length, device=first.device)
        inside = rows >= self.panel.first.to(first.device)[series][:, None]
        return inside[..., None].expand(-1, -1, values.shape[2])


def _every_slice(table: Tensor, length: int) -> Tensor:
    """Return a view of the `length` rows from each row on, shape (N - length + 1, length, C)."""
    return table.unfold(0, length, 1).transpose(1, 2)


def _taken(table: Tensor, index: Tensor, pinned: bool) -> Tensor:
    """Return a copy of the rows `index` (B,) of `table`, in page-locked memory if `pinned`."""
    if not pinned:
        return table.index_select(0, index)
    place = torch.empty((len(index), *table.shape[1:]), dtype=table.dtype, pin_memory=True)
    return torch.index_select(table, 0, index, out=place)


def evenly_spaced(count: int, wanted: int) -> torch.Tensor:
    """Return `wanted` evenly spaced positions out of `count`, the middles of equal segments; all if `count` is less."""
    wanted = min(count, wanted)
    return (2 * torch.arange(wanted) + 1) * count // (2 * wanted)


def causal_starts(starts: Tensor, context_length: int, observed: Tensor, *, part: str) -> Tensor:
    """Return the `starts` (W,) whose last context row was measured in every channel.

    An interpolated value depends on the next measured value. If the last context row was measured, no fill in the
    context depends on the future. That row is the same at every context length, so all look-backs are scored on equal
    windows.
    """
    kept = starts[observed[starts + context_length - 1].all(1)]
    if not len(kept):
        raise InputError(
            f"data.missing=interpolate: the context of each of the {len(starts)} windows of the {part} split ends "
            "in a gap, whose fill depends on the future: use data.missing=ffill or mask"
        )
    return kept


def check_measured(windows: Windows, targets: Sequence[str], *, part: str) -> None:
    """Raise InputError if a target was never measured in the horizons of the windows."""
    assert windows.observed is not None
    origins = windows.starts + windows.context_length
    covered = torch.zeros(len(windows.values) + 1, dtype=torch.int64)
    covered.index_add_(0, origins, torch.ones_like(origins))
    covered.index_add_(0, origins + windows.horizon, -torch.ones_like(origins))
    rows = covered.cumsum(0)[:-1] > 0
    some = windows.observed[rows][:, : windows.num_targets].any(0)
    if not bool(some.all()):
        name = targets[int(some.int().argmin())]
        raise InputError(
            f"the {part} split has no measured value of {name!r} to forecast: choose another data.split, "
            "or leave the column out of data.targets"
        )
