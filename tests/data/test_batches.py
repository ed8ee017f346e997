import pytest
import torch

from forecast.data.batches import ShuffledBatches
from forecast.data.windows import SeriesRows, Windows
from tests.support.examples import make_windows

WINDOWS = make_windows()  # 50 of them


def stream(batch_size: int, seed: int, total: int) -> list[int]:
    batches = ShuffledBatches(WINDOWS, batch_size, seed, total)
    return torch.cat([batches.indices(number) for number in range(total)]).tolist()


@pytest.mark.parametrize("batch_size", [1, 7, 16, 50, 64, 120])
def test_every_window_occurs_once_per_pass_and_every_batch_is_full(batch_size: int) -> None:
    batches = ShuffledBatches(WINDOWS, batch_size, seed=3, total=-(-200 // batch_size))
    assert {len(batch.origin) for batch in batches} == {batch_size}
    order = stream(batch_size, 3, -(-200 // batch_size))
    for begin in range(0, 200, 50):
        assert sorted(order[begin : begin + 50]) == list(range(50))


@pytest.mark.parametrize("batch_size", [7, 16, 64])
def test_a_batch_is_the_same_alone_backwards_and_in_sequence(batch_size: int) -> None:
    sequence = ShuffledBatches(WINDOWS, batch_size, seed=5, total=30)
    expected = [sequence.indices(number) for number in range(30)]
    backwards = ShuffledBatches(WINDOWS, batch_size, seed=5, total=30)
    for number in reversed(range(30)):
        assert torch.equal(backwards.indices(number), expected[number])
        assert torch.equal(ShuffledBatches(WINDOWS, batch_size, seed=5, total=30).indices(number), expected[number])


def test_a_loader_that_begins_at_batch_n_goes_on_where_the_whole_one_would() -> None:
    whole = [batch.origin for batch in ShuffledBatches(WINDOWS, 16, seed=2, total=12)]
    rest = ShuffledBatches(WINDOWS, 16, seed=2, total=12, first=5)
    resumed = [batch.origin for batch in rest]
    assert len(rest) == len(resumed) == 7
    assert torch.equal(torch.cat(resumed), torch.cat(whole[5:]))


def test_the_length_of_the_run_changes_no_batch() -> None:
    assert stream(16, 2, 4) == stream(16, 2, 40)[: 4 * 16]


def test_the_batch_size_changes_where_the_stream_is_cut_and_not_its_order() -> None:
    assert stream(7, 2, 20) == stream(70, 2, 2)


def test_seeds_and_passes_are_shuffled_each_in_its_own_way() -> None:
    passes = [tuple(stream(50, seed, 3)[begin : begin + 50]) for seed in (0, 1, 2) for begin in (0, 50, 100)]
    assert len(set(passes)) == 9
    assert tuple(range(50)) not in passes


def test_the_order_neither_reads_nor_moves_the_global_generator() -> None:
    torch.manual_seed(1)
    first = stream(16, 4, 5)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)
    torch.manual_seed(99)
    assert stream(16, 4, 5) == first


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_every_allowed_seed_produces_an_order(seed: int) -> None:
    assert sorted(stream(50, seed, 1)) == list(range(50))


def test_batches_hold_the_windows_that_the_indices_name() -> None:
    batches = ShuffledBatches(WINDOWS, 6, seed=1, total=2)
    for number, batch in enumerate(batches):
        for row, position in enumerate(batches.indices(number).tolist()):
            assert torch.equal(batch.past[row], WINDOWS.values[position : position + 8])
            assert torch.equal(batch.future[row], WINDOWS.values[position + 8 : position + 11, :2])


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_processes_share_each_batch_of_one_order(processes: int) -> None:
    whole = [batch.origin.tolist() for batch in ShuffledBatches(WINDOWS, 16, seed=2, total=12, first=3)]
    loaders = [
        ShuffledBatches(WINDOWS, 16, seed=2, total=12, first=3, rank=rank, processes=processes)
        for rank in range(processes)
    ]
    for origins, *parts in zip(whole, *loaders, strict=True):
        assert {len(part.origin) for part in parts} == {16 // processes}
        assert sorted(origin for part in parts for origin in part.origin.tolist()) == sorted(origins)


def panel_of(counts: list[int]) -> Windows:
    """Return windows of series of unequal number."""
    series = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    rows = torch.arange(len(series))
    values = torch.zeros(len(series), 1)
    starts = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    return Windows(values, values, starts, 0, 0, 1, panel=SeriesRows(series, rows, rows[:1]))


def test_series_are_drawn_equally_often_with_windows_at_random() -> None:
    counts, total = [1000, 100, 10, 3], 60
    windows = panel_of(counts)
    assert windows.panel is not None
    batches = ShuffledBatches(windows, 100, 3, total, by_series=True)
    drawn = windows.starts[torch.cat([batches.indices(number) for number in range(total)])]
    found = torch.bincount(windows.panel.series[drawn])
    assert (found - 1500).abs().max() <= 6  # a pass of 1,113 draws gives each 278 or 279
    assert len(drawn[windows.panel.series[drawn] == 0].unique()) > 700
    assert len(drawn[windows.panel.series[drawn] >= 2].unique()) == 13
    again = ShuffledBatches(windows, 100, 3, total, first=41, by_series=True)
    assert torch.equal(again.indices(41), batches.indices(41))
    assert not torch.equal(batches.indices(1), batches.indices(20))
