import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.datamodule import ForecastData, training_targets
from tests.data.test_datamodule import make

LOOK_BACKS = (1, 24, 100)


def trained_on(data: ForecastData) -> torch.Tensor:
    """Return the first target row of each training window, in the order of training."""
    data.total_steps = 12
    return torch.cat([batch.origin for batch in data.train_dataloader()])


def test_with_one_first_origin_every_look_back_trains_on_the_same_targets_in_the_same_order() -> None:
    first, *others = [trained_on(make(context_length=length, first_origin=100)) for length in LOOK_BACKS]
    assert int(first.min()) == 100
    for other in others:
        assert torch.equal(first, other)
    assert not torch.equal(first, trained_on(make(context_length=24)))


def test_the_first_origin_changes_neither_validation_nor_test() -> None:
    whole, later = make(), make(first_origin=150)
    assert [len(data.parts["train"]) for data in (whole, later)] == [200 - 24 - 4 + 1, 200 - 150 - 4 + 1]
    for part in ("validation", "test"):
        assert torch.equal(whole.parts[part].starts, later.parts[part].starts)
    assert whole.scaler.to_dict() == later.scaler.to_dict()


def test_the_default_first_origin_is_the_first_row_with_a_complete_look_back() -> None:
    assert torch.equal(make(context_length=24).parts["train"].starts, make(first_origin=24).parts["train"].starts)
    assert training_targets(range(200), None, 24, 4) == range(200)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (23, "training.first_origin=23: a look-back of 24 steps has no window before row 24: set at least 24"),
        (197, "training.first_origin=197: the training split ends with row 199: set at most 196"),
        (9000, "set at most 196"),
    ],
)
def test_a_first_origin_without_a_window_is_refused_with_its_bound(first: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(first_origin=first)
    assert len(make(first_origin=196).parts["train"]) == 1


@pytest.mark.parametrize("length", LOOK_BACKS)
def test_a_stride_keeps_the_same_windows_of_validation_and_test_at_every_look_back(length: int) -> None:
    data, whole = make(context_length=length, evaluation_stride=3), make(context_length=length)
    for part, first in (("validation", 200), ("test", 250)):
        windows = data.parts[part]
        origins = (windows.starts + length).tolist()
        assert origins == list(range(first + (47 - 1) % 3, first + 47, 3))
        assert len(windows) == 16
    assert torch.equal(data.parts["train"].starts, whole.parts["train"].starts)


@pytest.mark.parametrize("stride", [0, 5])
def test_a_stride_that_would_leave_rows_unscored_is_refused(stride: int) -> None:
    with pytest.raises(InputError, match=f"training.evaluation_stride={stride}: must be from 1 .* to the horizon, 4"):
        make(evaluation_stride=stride)
