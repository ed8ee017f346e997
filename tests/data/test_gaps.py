from dataclasses import replace

import numpy as np
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.windows import causal_starts, check_measured
from tests.support.examples import make_windows


def masked(share: float = 0.1, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((60, 3)) >= share)


@pytest.mark.parametrize("seed", range(5))
def test_a_window_is_kept_where_its_last_context_row_was_measured_in_every_channel(seed: int) -> None:
    observed = masked(seed=seed)
    starts = make_windows().starts
    kept = causal_starts(starts, 8, observed, part="train").tolist()
    assert kept == [start for start in starts.tolist() if all(observed[start + 7].tolist())]
    assert 0 < len(kept) < len(starts)


def test_the_remaining_origins_are_the_same_at_every_look_back() -> None:
    observed = masked()
    origins = [
        set((causal_starts(torch.arange(20 - length, 50 - length), length, observed, part="test") + length).tolist())
        for length in (1, 8, 20)
    ]
    assert origins[0] == origins[1] == origins[2]


def test_a_split_that_loses_every_window_is_refused_with_the_policies_that_keep_them() -> None:
    observed = masked()
    observed[:, 2] = False
    with pytest.raises(InputError, match=r"each of the 50 windows of the test split .*data.missing=ffill or mask"):
        causal_starts(make_windows().starts, 8, observed, part="test")


def test_a_target_measured_in_no_horizon_is_refused_by_name_and_split() -> None:
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[30:44, 1] = False
    windows = make_windows(targets=range(30, 44), observed=observed)
    with pytest.raises(InputError, match="the test split has no measured value of 'oil' to forecast: choose another"):
        check_measured(windows, ["load", "oil"], part="test")
    observed[43, 1] = True
    check_measured(windows, ["load", "oil"], part="test")
    with pytest.raises(InputError, match="'oil'"):  # the only value is outside the horizons of the remaining windows
        check_measured(replace(windows, starts=windows.starts[:-1]), ["load", "oil"], part="test")


def test_a_covariate_need_not_be_measured_in_the_horizon() -> None:
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[30:, 2] = False
    check_measured(make_windows(targets=range(30, 60), observed=observed), ["load", "oil"], part="test")
