"""The mixture of a forecast without training: what it consists of, and how it is chosen."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.pretrained import mixture
from forecast.pretrained.mixture import Mixture, Table, choose, earlier_origins, network_quantiles
from forecast.pretrained.weights import open_pretrained

LEVELS = (0.1, 0.5, 0.9)
T = 64


class Flat(torch.nn.Module):
    """A network that forecasts the last value for eight steps, with quantiles one apart."""

    levels = LEVELS

    def forward_quantiles(self, past: Tensor, past_known: Tensor, future_known: Tensor, observed: Tensor) -> Tensor:
        return past[:, -1:, :, None].expand(-1, 8, -1, 1) + torch.tensor([-1.0, 0.0, 1.0])


FLAT = Flat()


def table(values: Tensor, periods: tuple[int, ...] = (1, 12)) -> Table:
    return Table(values.float(), torch.isfinite(values), periods)


def test_a_look_back_before_the_first_row_is_not_observed() -> None:
    past, observed = table(torch.arange(10.0)[:, None]).windows([4, 10], 6)
    assert observed[0, :, 0].tolist() == [False, False, True, True, True, True]
    assert past[0, :, 0].tolist() == [0, 0, 0, 1, 2, 3]
    assert past[1, :, 0].tolist() == [4, 5, 6, 7, 8, 9]


def test_what_came_ends_with_the_table() -> None:
    came = table(torch.arange(10.0)[:, None]).futures([8], 4)[0, :, 0]
    assert came[:2].tolist() == [8, 9]
    assert came[2:].isnan().all()


def test_beyond_the_networks_horizon_its_median_is_the_past_and_the_quantiles_widen() -> None:
    past = torch.ones(2, T, 3)
    found = network_quantiles(FLAT, past, past > 0, 20)  # type: ignore[arg-type]
    assert found.shape == (2, 20, 3, 3)
    widths = (found[..., 2] - found[..., 0])[0, :, 0]
    assert widths[:8].tolist() == [2.0] * 8
    torch.testing.assert_close(widths[8:16], torch.full((8,), 2 * math.sqrt(2)))
    torch.testing.assert_close(widths[16:], torch.full((4,), 2 * math.sqrt(3)))


def test_a_mirrored_series_has_the_mirrored_forecast() -> None:
    network = open_pretrained().network
    past = torch.randn(2, 512, 1, generator=torch.Generator().manual_seed(4)).cumsum(1)
    observed = torch.ones_like(past, dtype=torch.bool)
    with torch.inference_mode():
        own, mirrored = (network_quantiles(network, one, observed, 12) for one in (past, -past))
    torch.testing.assert_close(own, -mirrored.flip(-1))
    assert (own.diff(dim=-1) >= 0).all()
    assert own.std() > 0


def test_a_seasonal_table_is_forecast_by_its_season() -> None:
    values = torch.sin(torch.arange(600.0) * 2 * math.pi / 12)[:, None]
    chosen = choose(FLAT, table(values), 8, T)  # type: ignore[arg-type]
    assert chosen.shares[0] < 0.2
    past, observed = table(values).windows([600], 2 * T)
    truth = torch.sin(torch.arange(600.0, 608.0) * 2 * math.pi / 12)
    assert (chosen.quantiles(past, observed)[0, :, 0, 1] - truth).abs().max() < 0.3


def test_a_short_table_is_forecast_by_the_network_alone() -> None:
    chosen = choose(FLAT, table(torch.arange(24.0)[:, None]), 8, T)  # type: ignore[arg-type]
    assert chosen.weights.tolist() == [[1.0]]
    assert chosen.words == "pretrained network 100 %"


@pytest.mark.parametrize("rows", [40, 60, 1_000, 100_000])
def test_earlier_forecasts_end_within_the_table_and_have_a_past(rows: int) -> None:
    origins = earlier_origins(rows, 12, 7)
    assert origins == sorted(origins)
    assert len(origins) <= mixture.MOST_ORIGINS
    if origins:
        assert origins[-1] + 12 == rows
        assert origins[0] >= mixture.LEAST_PAST


def test_earlier_forecasts_are_a_third_of_a_horizon_apart_or_more_in_a_long_table() -> None:
    assert np.diff(earlier_origins(200, 31, 1)).tolist()[-1] == 11
    assert np.diff(earlier_origins(3_000, 31, 1)).tolist()[-1] == 31


def test_quantiles_that_cover_too_little_move_outwards_and_stay_in_order() -> None:
    future = torch.randn(40, 8, 2, generator=torch.Generator().manual_seed(1)) * 5
    own = torch.zeros(40, 8, 2, 1) + torch.tensor([-1.0, 0.0, 1.0])
    margins = mixture._margins(own, future, torch.ones(40, 1, 2), torch.tensor(LEVELS))
    assert margins[1] == 0
    covered = ((future > own[..., 0] + margins[0]) & (future < own[..., 2] + margins[2])).float().mean()
    assert covered == pytest.approx(0.8, abs=0.03)
    mixed = replace(Mixture.of_network(FLAT, 8, T), margins=-5 * margins)  # type: ignore[arg-type]
    found = mixed.quantiles(torch.randn(3, T, 2), torch.ones(3, T, 2, dtype=torch.bool))
    assert (found.diff(dim=-1) >= 0).all()


def test_the_weights_are_near_those_of_the_lowest_quantile_loss() -> None:
    future = torch.randn(30, 8, 1, generator=torch.Generator().manual_seed(2))
    good, bad = future[..., None] + torch.tensor([-0.1, 0.0, 0.1]), torch.full((30, 8, 1, 3), 9.0)
    far = mixture._best_weights([bad, good], future, torch.tensor(LEVELS))
    assert far[0, 1] > 0.9


def test_equal_forecasts_share_the_weight_and_the_network_has_a_little_more() -> None:
    good = torch.zeros(30, 8, 1, 3)
    weights = mixture._best_weights([good, good, good], torch.ones(30, 8, 1), torch.tensor(LEVELS))[0]
    assert weights.sum() == pytest.approx(1)
    assert weights[1] == pytest.approx(float(weights[2]))
    assert 0 < weights[0] - weights[1] < 0.05


def test_a_series_of_which_nothing_came_has_the_weights_of_the_others() -> None:
    future = torch.randn(30, 8, 3, generator=torch.Generator().manual_seed(2))
    good, bad = future[..., None] + torch.tensor([-0.1, 0.0, 0.1]), torch.full((30, 8, 3, 3), 9.0)
    future[:, :, 2] = torch.nan
    weights = mixture._best_weights([bad, good.nan_to_num(0)], future, torch.tensor(LEVELS))
    assert weights[2, 1] > 0.9
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


def test_a_series_that_one_part_hits_exactly_does_not_choose_for_the_others() -> None:
    future = torch.randn(6, 8, 20, generator=torch.Generator().manual_seed(5))
    network = future[..., None] + torch.tensor([-0.5, 0.2, 0.5])
    naive = future[..., None] + torch.tensor([-1.0, 0.6, 1.5])
    alone = mixture._best_weights([network, naive], future, torch.tensor(LEVELS))
    future[:, :, 19] = 0  # a closed shop
    naive[:, :, 19] = 0
    beside = mixture._best_weights([network, naive], future, torch.tensor(LEVELS))
    assert beside[19, 1] > 0.5
    assert (beside[:19] - alone[:19]).abs().max() < 0.05


def test_a_series_counts_by_the_origins_at_which_it_was_measured() -> None:
    future = torch.randn(24, 8, 2, generator=torch.Generator().manual_seed(6))
    good, bad = future[..., None] + torch.tensor([-0.5, 0.0, 0.5]), future[..., None] + torch.tensor([-0.5, 0.4, 0.9])
    future[1:, :, 1] = torch.nan
    first, second = (one.nan_to_num(0) for one in (good, bad))
    first[:, :, 1], second[:, :, 1] = bad.nan_to_num(0)[:, :, 1], good.nan_to_num(0)[:, :, 1]
    weights = mixture._best_weights([first, second], future, torch.tensor(LEVELS))
    assert weights[0, 0] > 0.8
    assert weights[1, 1] < 0.6  # one origin says little


def test_where_nothing_came_the_network_forecasts_alone() -> None:
    future = torch.full((24, 8, 2), torch.nan)
    weights = mixture._best_weights([torch.zeros(24, 8, 2, 3)] * 3, future, torch.tensor(LEVELS))
    assert weights.tolist() == [[1, 0, 0]] * 2


@pytest.mark.parametrize("measured", [0, 1])
def test_a_table_measured_at_every_second_step_has_no_half_without_values(measured: int) -> None:
    past = torch.full((1, 2 * T, 1), 7.0)
    observed = (torch.arange(2 * T) % 2 == measured)[None, :, None]
    found = mixture.spaced_quantiles(FLAT, torch.where(observed, past, 0.0), observed, 4)  # type: ignore[arg-type]
    assert found[0, :, 0, 1].tolist() == [7.0] * 4


def test_a_step_that_sees_every_second_one_reads_those_of_its_own_parity() -> None:
    past = torch.arange(2.0 * T)[None, :, None]
    found = mixture.spaced_quantiles(FLAT, past, past >= 0, 5)  # type: ignore[arg-type]
    assert found[0, :, 0, 1].tolist() == [126, 127, 126, 127, 126]  # the last value of each phase


def test_each_series_has_weights_of_its_own() -> None:
    future = torch.randn(40, 8, 2, generator=torch.Generator().manual_seed(3))
    good, bad = future[..., None] + torch.tensor([-0.1, 0.0, 0.1]), torch.full((40, 8, 2, 3), 9.0)
    first = torch.stack([good[:, :, 0], bad[:, :, 0]], 2)
    second = torch.stack([bad[:, :, 1], good[:, :, 1]], 2)
    weights = mixture._best_weights([first, second], future, torch.tensor(LEVELS))
    assert weights[0, 0] > 0.7
    assert weights[1, 1] > 0.7


def test_a_seasonal_regression_continues_a_series_of_two_seasons_and_ignores_its_level() -> None:
    hour = torch.arange(900.0)
    values = (torch.sin(hour * 2 * math.pi / 12) * (1 + 0.5 * torch.sin(hour * 2 * math.pi / 84)))[:, None]
    lags = [12 * number for number in mixture.LAGS]
    part = mixture._seasonal(values, values > -9, lags, 24)
    past = values[None, 876 - 512 : 876]
    found = part(past, past > -9)
    assert (found[0, :, 0] - values[876:, 0]).abs().max() < 0.15
    torch.testing.assert_close(part(past + 50, past > -9), found + 50, atol=1e-3, rtol=0)
