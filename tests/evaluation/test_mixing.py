from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from forecast.data.windows import Windows
from forecast.evaluation.metrics import ErrorSums
from forecast.evaluation.mixing import MIXING_WEIGHTS, MixingSums, independent_blocks, percent, shrinkage
from forecast.runs.settings import Settings
from forecast.training.prepare import prepare
from tests.support.small import quick

SIZES = (40, 6, 2)


def forecasts(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two forecasts and the truth: each errs on its own, the second less."""
    generator = torch.Generator().manual_seed(seed)
    future = torch.randn(SIZES, generator=generator)
    decoded = future + torch.randn(SIZES, generator=generator)
    linear = future + 0.6 * torch.randn(SIZES, generator=generator)
    return decoded, linear, future


def summed(
    decoded: torch.Tensor, linear: torch.Tensor, future: torch.Tensor, *observed: torch.Tensor, trust: float = 1
) -> MixingSums:
    sums = MixingSums.zeros(trust)
    for batch in zip(*(tensor.split(7) for tensor in (decoded, linear, future, *observed)), strict=True):
        sums.update(*batch)
    return sums


def of(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in ("mse", "mae")}


def test_the_share_and_its_scores_are_those_of_the_best_mean_written_out() -> None:
    decoded, linear, future = forecasts()
    scores = {}
    for share in MIXING_WEIGHTS:
        sums = ErrorSums.zeros(*SIZES[1:])
        sums.update(share * decoded + (1 - share) * linear, future)
        scores[share] = sums.scaled()
    best = min(scores, key=lambda share: scores[share]["mse"])
    assert 0 < best < 1
    found = summed(decoded, linear, future)
    assert found.mixing_weight == best
    assert found.scaled() == pytest.approx(of(scores[best]), rel=1e-6)


def test_a_forecast_that_is_perfect_takes_all_and_one_that_only_harms_takes_nothing() -> None:
    decoded, linear, future = forecasts()
    assert summed(future, linear, future).mixing_weight == 1
    assert summed(decoded, future, future).mixing_weight == 0


def test_two_forecasts_that_are_one_leave_the_linear_path() -> None:
    _, linear, future = forecasts()
    assert summed(linear, linear, future).mixing_weight == 0


def test_targets_that_were_not_measured_settle_nothing() -> None:
    decoded, linear, future = forecasts()
    observed = torch.rand(SIZES, generator=torch.Generator().manual_seed(1)) < 0.7
    broken = torch.where(observed, decoded, torch.nan)
    found = summed(broken, linear, future, observed)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(found.mixing_weight * decoded + (1 - found.mixing_weight) * linear, future, observed)
    assert found.scaled() == pytest.approx(of(sums.scaled()), rel=1e-6)


def test_of_the_best_share_the_trusted_part_is_taken_with_the_scores_of_that() -> None:
    decoded, linear, future = forecasts()
    best = summed(decoded, linear, future).mixing_weight
    found = summed(decoded, linear, future, trust=0.4)
    assert found.mixing_weight == pytest.approx(0.4 * best)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(0.4 * best * decoded + (1 - 0.4 * best) * linear, future)
    assert found.scaled() == pytest.approx(of(sums.scaled()), rel=1e-6)


def windows(rows: int, starts: Sequence[int], horizon: int, hidden: Sequence[int] = ()) -> Windows:
    """Return windows that look one step back, over a table in which nothing was measured in the rows `hidden`."""
    observed = torch.ones(rows, 2, dtype=torch.bool)
    observed[list(hidden), 0] = False  # the target; the covariate beside it always is
    table = torch.zeros(rows, 2)
    return Windows(table, table[:, :0], torch.tensor(starts), 1, horizon, 1, observed if hidden else None)


@pytest.mark.parametrize(
    ("starts", "hidden", "blocks"),
    [
        (range(48), [], 48 / 12),  # at every step
        (range(0, 48, 3), [], 48 / 12),  # every third: as many
        (range(0, 48, 12), [], 4),  # side by side
        (range(0, 48, 24), [], 2),  # further apart than a horizon
        ([*range(12), *range(36, 48)], [], (11 + 12 + 12) / 12),  # a stretch is left out
        (range(48), range(25, 60), 24 / 12),  # from row 25 on nothing was measured
        (range(48), range(1, 60), 0),
        ([7], [], 1 / 12),
    ],
)
def test_blocks_are_what_the_windows_with_a_target_come_to(
    starts: Sequence[int], hidden: Sequence[int], blocks: float
) -> None:
    assert independent_blocks(windows(60, list(starts), 12, list(hidden))) == pytest.approx(blocks)


def test_trust_grows_with_the_blocks_and_without_a_prior_is_whole() -> None:
    assert shrinkage(30, 30) == pytest.approx(0.5)
    assert shrinkage(270, 30) == pytest.approx(0.9)
    assert shrinkage(10, 30) == shrinkage(20, 60) == pytest.approx(0.25)
    assert shrinkage(0, 30) == 0
    assert shrinkage(5, 0) == shrinkage(0, 0) == 1


@pytest.mark.parametrize("best", [0.2, 0.5, 0.8])
def test_the_share_is_to_a_tenth_that_of_a_ridge_regression(best: float) -> None:
    generator = torch.Generator().manual_seed(0)
    noise, difference = torch.randn(2, 5000, 4, 1, generator=generator)
    linear, future = torch.zeros_like(noise), best * difference + noise / 4
    prior = 2000.0  # blocks: the windows share no target
    sums = MixingSums.zeros(shrinkage(5000, prior))
    sums.update(difference, linear, future)
    error, other = (linear - future).double(), difference.double()
    penalty = prior * other.square().sum() / 5000
    held = -(error * other).sum() / (other.square().sum() + penalty)
    assert sums.mixing_weight == pytest.approx(float(held), abs=0.05)
    assert sums.best_weight == pytest.approx(best)


@pytest.mark.parametrize("stride", [1, 5])
def test_a_training_takes_what_its_validation_part_is_trusted_with(stride: int, tmp_path: Path) -> None:
    words = ["model.linear_path=weighted", f"training.evaluation_stride={stride}"]
    made = prepare(Settings.parse(quick(tmp_path / "outputs", *words, "training.share_prior=7")))
    windows = made.data.parts["validation"]
    n = len(windows) * stride / windows.horizon
    assert n > 1
    assert made.task.shrinkage == pytest.approx(n / (n + 7))
    assert prepare(Settings.parse(quick(tmp_path / "outputs", *words, "training.share_prior=0"))).task.shrinkage == 1


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0%"), (0.0034, "<1%"), (0.006, "1%"), (0.012, "1%"), (0.3, "30%"), (1.0, "100%")]
)
def test_a_share_that_is_there_is_never_printed_as_none(share: float, said: str) -> None:
    assert percent(share) == said
