import pytest
import torch

from forecast.metrics import ErrorSums
from forecast.share import PRIOR, SHARES, ShareSums, trust

SIZES = (40, 6, 2)


def forecasts(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give two forecasts and the truth: each errs on its own, the second less."""
    generator = torch.Generator().manual_seed(seed)
    future = torch.randn(SIZES, generator=generator)
    decoded = future + torch.randn(SIZES, generator=generator)
    linear = future + 0.6 * torch.randn(SIZES, generator=generator)
    return decoded, linear, future


def summed(
    decoded: torch.Tensor, linear: torch.Tensor, future: torch.Tensor, *observed: torch.Tensor, trust: float = 1
) -> ShareSums:
    sums = ShareSums.zeros(trust)
    for batch in zip(*(tensor.split(7) for tensor in (decoded, linear, future, *observed)), strict=True):
        sums.update(*batch)
    return sums


def of(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in ("mse", "mae")}


def test_the_share_and_its_scores_are_those_of_the_best_mean_written_out() -> None:
    decoded, linear, future = forecasts()
    scores = {}
    for share in SHARES:
        sums = ErrorSums.zeros(*SIZES[1:])
        sums.update(share * decoded + (1 - share) * linear, future)
        scores[share] = sums.scaled()
    best = min(scores, key=lambda share: scores[share]["mse"])
    assert 0 < best < 1
    found = summed(decoded, linear, future)
    assert found.share == best
    assert found.scaled() == pytest.approx(of(scores[best]), rel=1e-6)


def test_a_forecast_that_is_perfect_takes_all_and_one_that_only_harms_takes_nothing() -> None:
    decoded, linear, future = forecasts()
    assert summed(future, linear, future).share == 1
    assert summed(decoded, future, future).share == 0


def test_two_forecasts_that_are_one_leave_the_linear_path() -> None:
    _, linear, future = forecasts()
    assert summed(linear, linear, future).share == 0


def test_targets_that_were_not_measured_settle_nothing() -> None:
    decoded, linear, future = forecasts()
    observed = torch.rand(SIZES, generator=torch.Generator().manual_seed(1)) < 0.7
    broken = torch.where(observed, decoded, torch.nan)
    found = summed(broken, linear, future, observed)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(found.share * decoded + (1 - found.share) * linear, future, observed)
    assert found.scaled() == pytest.approx(of(sums.scaled()), rel=1e-6)


def test_of_the_best_share_the_trusted_part_is_taken_with_the_scores_of_that() -> None:
    decoded, linear, future = forecasts()
    best = summed(decoded, linear, future).share
    found = summed(decoded, linear, future, trust=0.4)
    assert found.share == pytest.approx(0.4 * best)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(0.4 * best * decoded + (1 - 0.4 * best) * linear, future)
    assert found.scaled() == pytest.approx(of(sums.scaled()), rel=1e-6)


def test_trust_grows_with_the_blocks_of_windows_and_is_that_of_a_ridge_penalty() -> None:
    assert trust(PRIOR * 96, 96) == pytest.approx(0.5)
    assert trust(PRIOR * 9 * 96, 96) == pytest.approx(0.9)
    generator = torch.Generator().manual_seed(0)
    error, difference = torch.randn(2, 50, 96, generator=generator, dtype=torch.float64)  # 50 blocks
    difference = difference - 0.3 * error
    plain = -(error * difference).sum() / difference.square().sum()
    penalty = PRIOR * difference.square().mean(0).sum()
    held = -(error * difference).sum() / (difference.square().sum() + penalty)
    assert float(held / plain) == pytest.approx(trust(50 * 96, 96))
