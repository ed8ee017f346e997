import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.windows import Batch, start_rows, thinned_places
from tests.support.examples import make_windows

ETT = {"train": range(8640), "validation": range(8640, 11520), "test": range(11520, 14400)}


@pytest.mark.parametrize("context_length", [1, 96, 336, 512, 720, 2048])
@pytest.mark.parametrize(("horizon", "count"), [(96, 2785), (192, 2689), (336, 2545), (720, 2161)])
def test_ett_has_the_test_windows_of_the_literature_at_every_context(
    context_length: int, horizon: int, count: int
) -> None:
    starts = start_rows(ETT["test"], context_length, horizon, part="test")
    assert len(starts) == count
    assert int(starts[0]) + context_length == 11520
    assert int(starts[-1]) + context_length + horizon == 14400


@pytest.mark.parametrize(("context_length", "horizon"), [(1, 1), (96, 96), (512, 96), (2048, 720)])
def test_the_training_split_loses_only_windows_whose_context_would_begin_before_it(
    context_length: int, horizon: int
) -> None:
    starts = start_rows(ETT["train"], context_length, horizon, part="train")
    assert starts.tolist() == list(range(8640 - context_length - horizon + 1))


def test_splits_share_no_target() -> None:
    seen: list[int] = []
    for name, rows in ETT.items():
        origins = start_rows(rows, 24, 5, part=name) + 24
        seen += sorted({int(origin) + step for origin in origins for step in range(5)})
    assert seen == list(range(24, 14400))


@pytest.mark.parametrize("horizon", [1, 7, 20])
def test_a_split_of_exactly_one_horizon_has_one_window(horizon: int) -> None:
    assert start_rows(range(30, 30 + horizon), 30, horizon, part="test").tolist() == [0]
    with pytest.raises(InputError, match=f"test split needs at least {horizon} rows and has {horizon - 1}"):
        start_rows(range(30, 29 + horizon), 30, horizon, part="test")


def test_a_first_split_one_row_short_names_the_rows_that_are_needed() -> None:
    assert len(start_rows(range(9096), 9000, 96, part="train")) == 1
    with pytest.raises(
        InputError, match=r"context_length 9000 \+ horizon 96: the train split needs at least 9096 rows .*has 9095"
    ):
        start_rows(range(9095), 9000, 96, part="train")


def test_a_context_that_would_begin_before_the_table_is_refused_with_the_available_rows() -> None:
    with pytest.raises(InputError, match="context_length 21 is longer than the 20 rows before the validation split"):
        start_rows(range(20, 40), 21, 2, part="validation")
    assert start_rows(range(20, 40), 20, 2, part="validation")[0] == 0


def test_a_batch_is_the_slices_of_its_windows() -> None:
    observed = torch.rand(60, 3) > 0.3
    windows = make_windows(observed=observed)
    index = torch.tensor([0, 17, 49, 17])
    batch = windows.batch(index)
    for row, position in enumerate(index.tolist()):
        origin = position + 8
        past, future = slice(position, origin), slice(origin, origin + 3)
        assert torch.equal(batch.past[row], windows.values[past])
        assert torch.equal(batch.past_known[row], windows.known[past])
        assert torch.equal(batch.future_known[row], windows.known[future])
        assert torch.equal(batch.past_observed[row], observed[past])
        assert torch.equal(batch.future[row], windows.values[future, :2])
        assert torch.equal(batch.future_observed[row], observed[future, :2])
        assert batch.origin[row] == origin
    assert batch.past.shape == (4, 8, 3)
    assert batch.future.shape == (4, 3, 2)


def test_a_table_without_fills_has_no_masks() -> None:
    batch = make_windows().batch(torch.tensor([3]))
    assert batch.past_observed is None
    assert batch.future_observed is None


def test_fills_that_are_read_as_values_are_masked_only_as_targets() -> None:
    observed = torch.rand(60, 3) > 0.3
    masked = make_windows(observed=observed)
    windows = replace(masked, past_masked=False)
    for given in (windows, windows.to("cpu"), windows.every(3)):
        batch = given.batch(torch.tensor([3, 9]))
        assert batch.past_observed is None
        assert batch.future_observed is not None
    assert torch.equal(windows.batch(torch.tensor([3])).future_observed, observed[None, 11:14, :2])


def test_windows_with_gaps_between_their_starts_begin_at_their_starts() -> None:
    windows = make_windows()
    gappy = type(windows)(**{**vars(windows), "starts": torch.tensor([2, 30, 49])})
    assert len(gappy) == 3
    batches = list(gappy.batches(2))
    assert torch.cat([batch.origin for batch in batches]).tolist() == [10, 38, 57]
    assert torch.equal(batches[1].past[0], windows.values[49:57])


@pytest.mark.parametrize("batch_size", [1, 7, 25, 49, 50, 51, 1000])
def test_batches_hold_every_window_once_in_order_and_keep_a_short_last_batch(batch_size: int) -> None:
    windows = make_windows()
    batches = list(windows.batches(batch_size))
    assert torch.cat([batch.origin for batch in batches]).tolist() == list(range(8, 58))
    assert [len(batch.origin) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert len(batches[-1].origin) == (50 % batch_size or batch_size)


@pytest.mark.parametrize("step", [1, 3, 7, 49, 50, 51])
def test_thinning_keeps_the_last_window_and_the_distance(step: int) -> None:
    thinned = make_windows().every(step).starts.tolist()
    assert thinned[-1] == 49
    assert thinned == sorted(range(49, -1, -step))


def test_moving_the_windows_moves_every_tensor_of_a_batch() -> None:
    moved = make_windows(observed=torch.ones(60, 3, dtype=torch.bool)).to("meta")
    batch = moved.batch(torch.zeros(2, dtype=torch.int64, device="meta"))
    assert {tensor.device.type for tensor in batch if tensor is not None} == {"meta"}


MAPPED = {"mapped_for": torch.device("cpu")}


def assert_same(one: Batch, other: Batch) -> None:
    for name, tensor in one._asdict().items():
        there = getattr(other, name)
        assert (tensor is None) == (there is None)
        assert tensor is None or torch.equal(tensor.cpu(), there.cpu()), name


@pytest.mark.parametrize("known", [0, 2])
def test_a_mapped_table_yields_the_batches_of_a_table_in_memory(known: int) -> None:
    windows = make_windows(observed=torch.rand(60, 3) > 0.3, num_known=known)
    mapped = replace(windows, **MAPPED)
    for ours, theirs in zip(windows.batches(7), mapped.batches(7), strict=True):
        assert_same(ours, theirs)
    index = torch.tensor([4, 40, 4])
    assert_same(windows.batch(index), mapped.batch(index))


def test_only_the_next_batch_of_a_mapped_table_is_prefetched() -> None:
    for windows, read in ((make_windows(), 1), (replace(make_windows(), **MAPPED), 2)):
        asked: list[int] = []
        begun = threading.Event()

        def indices(asked: list[int] = asked, begun: threading.Event = begun) -> Iterator[Tensor]:
            for number in range(5):
                asked.append(number)
                if number == 1:
                    begun.set()
                yield torch.tensor([number])

        stream = windows.stream(indices())
        assert int(next(stream).origin) == 8
        assert begun.wait(5 if read == 2 else 0) == (read == 2)
        assert len(asked) == read
        assert [int(batch.origin) for batch in stream] == [9, 10, 11, 12]


def test_a_batch_holds_one_copy_of_its_rows() -> None:
    batch = make_windows().batch(torch.tensor([0, 5]))
    assert batch.past.untyped_storage().data_ptr() == batch.future.untyped_storage().data_ptr()
    assert batch.past.untyped_storage().nbytes() == 2 * 11 * 3 * 4


def test_a_mapped_table_stays_where_it_is_and_its_batches_move() -> None:
    windows = replace(make_windows(), **MAPPED)
    moved = windows.to("meta")
    assert moved.values is windows.values
    assert moved.starts is windows.starts
    assert moved.device.type == "meta"
    batch = moved.batch(torch.tensor([0, 1]))
    assert {tensor.device.type for tensor in batch if tensor is not None} == {"meta"}


@pytest.mark.gpu
def test_batches_of_a_mapped_table_reach_a_gpu_from_pinned_memory_and_are_the_same() -> None:
    windows = make_windows(observed=torch.rand(60, 3) > 0.3)
    mapped = replace(windows, **MAPPED).to("cuda:0")
    assert mapped._gather(torch.tensor([3])).values.is_pinned()
    for ours, theirs in zip(windows.batches(7), mapped.batches(7), strict=True):
        assert theirs.past.device.type == "cuda"
        assert_same(ours, theirs)
    rows = torch.tensor([[1, 2]], device="cuda")
    assert torch.equal(mapped.values_at(rows).cpu(), windows.values[rows.cpu()])


@pytest.mark.parametrize("every", [1, 2, 3, 8, 24, 48, 50, 1000])
def test_thinned_windows_are_one_of_each_neighbourhood(every: int) -> None:
    places = thinned_places(1000, every).tolist()
    assert places[-1] == 999
    assert [(999 - place) // every for place in reversed(places)] == list(range(-(-1000 // every)))


@pytest.mark.parametrize(("count", "every"), [(1000, 7), (40, 7), (5000, 1000), (6, 7)])
def test_thinned_windows_are_drawn_as_by_torch(count: int, every: int) -> None:
    """Weights of a start depend on them, so another draw would be another result."""
    random, groups = torch.Generator().manual_seed(0), -(-count // every)
    drawn = torch.cat([torch.randperm(every, generator=random) for _ in range(groups)])[:groups]
    drawn[0] = 0
    expected = (count - 1 - torch.arange(groups) * every - drawn).clamp(min=0).flip(0)
    assert thinned_places(count, every).tolist() == expected.tolist()


@pytest.mark.parametrize("season", [24, 96, 144, 168, 288])
def test_thinned_windows_are_spread_evenly_over_a_season(season: int) -> None:
    """The eighths of a season have equal shares, whatever the distance; at equal distances some have none."""
    for every in range(2, 200):
        count = 1000 * every
        parts = torch.bincount((thinned_places(count, every) % season) * 8 // season, minlength=8)
        assert 0.6 * 125 < int(parts.min()) <= int(parts.max()) < 1.4 * 125, every
    empty = torch.bincount((torch.arange(0, 1000 * season, season) % season) * 8 // season, minlength=8)
    assert int(empty.min()) == 0


def test_the_overlap_is_counted_from_the_starts() -> None:
    windows = make_windows()  # the horizon is 3
    assert [windows.every(step).overlap for step in (1, 2, 3, 4)] == [3, 2, 1, 1]
    assert replace(windows, starts=torch.tensor([0, 5, 6, 20])).overlap == 2
    assert replace(windows, starts=torch.tensor([7])).overlap == 1
