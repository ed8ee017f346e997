from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from forecast.data.windows import Windows
from forecast.evaluation import metrics
from forecast.evaluation.metrics import ErrorSums, windows_at_once
from forecast.evaluation.mixing import MIXING_WEIGHTS, MixingSums, QuantileSums, independent_blocks, percent, shrinkage
from forecast.runs.settings import Settings
from tests.support.prepared import prepare
from tests.support.small import quick

SIZES = (40, 6, 2)


def forecasts(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two forecasts with independent errors, smaller in the second, and the truth."""
    generator = torch.Generator().manual_seed(seed)
    future = torch.randn(SIZES, generator=generator)
    decoded = future + torch.randn(SIZES, generator=generator)
    linear = future + 0.6 * torch.randn(SIZES, generator=generator)
    return decoded, linear, future


def summed(
    decoded: torch.Tensor, linear: torch.Tensor, future: torch.Tensor, *observed: torch.Tensor, shrink: float = 1
) -> MixingSums:
    sums = MixingSums.zeros(shrink)
    for batch in zip(*(tensor.split(7) for tensor in (decoded, linear, future, *observed)), strict=True):
        sums.update(*batch)
    return sums


def mse_and_mae(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in ("mse", "mae")}


def test_mixing_weight_and_scores_equal_a_search_over_all_weights() -> None:
    decoded, linear, future = forecasts()
    scores = {}
    for weight in MIXING_WEIGHTS:
        sums = ErrorSums.zeros(*SIZES[1:])
        sums.update(weight * decoded + (1 - weight) * linear, future)
        scores[weight] = sums.scaled()
    best = min(scores, key=lambda weight: scores[weight]["mse"])
    assert 0 < best < 1
    mixing = summed(decoded, linear, future)
    assert mixing.mixing_weight == best
    assert mixing.scaled() == pytest.approx(mse_and_mae(scores[best]), rel=1e-6)


def test_a_perfect_forecast_has_weight_one_and_a_harmful_one_weight_zero() -> None:
    decoded, linear, future = forecasts()
    assert summed(future, linear, future).mixing_weight == 1
    assert summed(decoded, future, future).mixing_weight == 0


def test_equal_forecasts_have_weight_zero() -> None:
    _, linear, future = forecasts()
    assert summed(linear, linear, future).mixing_weight == 0


def test_targets_that_were_not_observed_are_ignored() -> None:
    decoded, linear, future = forecasts()
    observed = torch.rand(SIZES, generator=torch.Generator().manual_seed(1)) < 0.7
    broken = torch.where(observed, decoded, torch.nan)
    mixing = summed(broken, linear, future, observed)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(mixing.mixing_weight * decoded + (1 - mixing.mixing_weight) * linear, future, observed)
    assert mixing.scaled() == pytest.approx(mse_and_mae(sums.scaled()), rel=1e-6)


def test_scores_are_those_of_the_shrunk_weight() -> None:
    decoded, linear, future = forecasts()
    best = summed(decoded, linear, future).mixing_weight
    mixing = summed(decoded, linear, future, shrink=0.4)
    assert mixing.mixing_weight == pytest.approx(0.4 * best)
    sums = ErrorSums.zeros(*SIZES[1:])
    sums.update(0.4 * best * decoded + (1 - 0.4 * best) * linear, future)
    assert mixing.scaled() == pytest.approx(mse_and_mae(sums.scaled()), rel=1e-6)


def windows(rows: int, starts: Sequence[int], horizon: int, hidden: Sequence[int] = ()) -> Windows:
    """Return windows with a look-back of 1, over a table without measured targets in the rows `hidden`."""
    observed = torch.ones(rows, 2, dtype=torch.bool)
    observed[list(hidden), 0] = False  # the target; its covariate is always measured
    table = torch.zeros(rows, 2)
    return Windows(table, table[:, :0], torch.tensor(starts), 1, horizon, 1, observed if hidden else None)


@pytest.mark.parametrize(
    ("starts", "hidden", "blocks"),
    [
        (range(48), [], 48 / 12),  # at every step
        (range(0, 48, 3), [], 48 / 12),  # every third step
        (range(0, 48, 12), [], 4),  # side by side
        (range(0, 48, 24), [], 2),  # further apart than a horizon
        ([*range(12), *range(36, 48)], [], (11 + 12 + 12) / 12),  # with a gap
        (range(48), range(25, 60), 24 / 12),  # no target after row 24
        (range(48), range(1, 60), 0),
        ([7], [], 1 / 12),
    ],
)
def test_blocks_count_non_overlapping_windows_with_a_target(
    starts: Sequence[int], hidden: Sequence[int], blocks: float
) -> None:
    assert independent_blocks(windows(60, list(starts), 12, list(hidden))) == pytest.approx(blocks)


def test_shrinkage_grows_with_the_blocks_and_is_one_without_a_prior() -> None:
    assert shrinkage(30, 30) == pytest.approx(0.5)
    assert shrinkage(270, 30) == pytest.approx(0.9)
    assert shrinkage(10, 30) == shrinkage(20, 60) == pytest.approx(0.25)
    assert shrinkage(0, 30) == 0
    assert shrinkage(5, 0) == shrinkage(0, 0) == 1


@pytest.mark.parametrize("best", [0.2, 0.5, 0.8])
def test_the_mixing_weight_equals_a_ridge_regression_to_a_tenth(best: float) -> None:
    generator = torch.Generator().manual_seed(0)
    noise, difference = torch.randn(2, 5000, 4, 1, generator=generator)
    linear, future = torch.zeros_like(noise), best * difference + noise / 4
    prior = 2000.0  # blocks: the windows share no target
    sums = MixingSums.zeros(shrinkage(5000, prior))
    sums.update(difference, linear, future)
    error, other = (linear - future).double(), difference.double()
    penalty = prior * other.square().sum() / 5000
    expected = -(error * other).sum() / (other.square().sum() + penalty)
    assert sums.mixing_weight == pytest.approx(float(expected), abs=0.05)
    assert sums.best_weight == pytest.approx(best)


@pytest.mark.parametrize("stride", [1, 5])
def test_a_training_shrinks_by_the_blocks_of_its_validation_split(stride: int, tmp_path: Path) -> None:
    words = ["model.linear_path=weighted", f"training.evaluation_stride={stride}"]
    prepared = prepare(Settings.parse(quick(tmp_path / "outputs", *words, "training.mixing_prior=7")))
    windows = prepared.data.parts["validation"]
    n = len(windows) * stride / windows.horizon
    assert n > 1
    assert prepared.task.shrinkage == pytest.approx(n / (n + 7))
    assert prepare(Settings.parse(quick(tmp_path / "outputs", *words, "training.mixing_prior=0"))).task.shrinkage == 1


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.0034, "<1%"), (0.006, "1%"), (0.012, "1%"), (0.3, "30%"), (1.0, "100%")]
)
def test_a_positive_share_is_never_printed_as_zero(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize("chunk", [1, 50])
@pytest.mark.parametrize("masked", [False, True])
def test_the_errors_of_windows_do_not_depend_on_how_many_are_scored_together(
    chunk: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [*forecasts(), *([torch.rand(SIZES, generator=torch.Generator().manual_seed(1)) > 0.3] if masked else [])]
    whole, parts = MixingSums.zeros(1), MixingSums.zeros(1)
    expected = whole.update(*batch)
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    assert windows_at_once(batch[0]) == max(1, chunk // 12) < len(expected)
    torch.testing.assert_close(parts.update(*batch), expected, rtol=0, atol=0)
    for name in ("squared", "absolute", "count"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=0)


@pytest.mark.parametrize("chunk", [1, 50, 2**18])
@pytest.mark.parametrize("masked", [False, True])
def test_the_losses_of_windows_do_not_depend_on_how_many_are_scored_together(
    chunk: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    levels = torch.tensor([0.1, 0.5, 0.8])
    decoded, linear = torch.randn(2, 5, 4, 2, 3)
    future, observed = torch.randn(5, 4, 2), torch.rand(5, 4, 2) > 0.3 if masked else None
    sums = QuantileSums.zeros(levels.tolist(), MixingSums.zeros(1), torch.device("cpu"))
    numbers = sums.update([decoded, linear], future, observed)
    for window in range(5):
        seen = slice(None) if observed is None else observed[window]
        for place, weight in enumerate(MIXING_WEIGHTS):
            mixed = (1 - weight) * linear[window] + weight * decoded[window]
            error = future[window][..., None] - mixed
            pinball = torch.where(error > 0, levels * error, (levels - 1) * error)
            assert float(numbers[window, place]) == pytest.approx(2 * float(pinball.mean(-1)[seen].mean()), rel=1e-5)
    assert float(sums.count) == (5 * 4 * 2 if observed is None else int(observed.sum()))
