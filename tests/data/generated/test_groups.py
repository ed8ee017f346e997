"""Generated series at once: what channels share, and what drivers that are known ahead say about a series."""

import numpy as np

from forecast.data.generated import groups
from forecast.data.generated.prior import draw_series

STEPS = 400
ZERO = np.zeros((STEPS, 2))


def test_a_channel_without_drivers_is_a_series() -> None:
    alone, known = groups.draw_group(np.random.default_rng(5), STEPS)
    np.testing.assert_array_equal(alone[:, 0], draw_series(np.random.default_rng(5), STEPS))
    assert known.shape == (STEPS, 0)


def test_channels_move_together_in_most_groups() -> None:
    def correlation(number: int) -> float:
        drawn = groups.together(
            np.random.default_rng(number), np.random.default_rng([9, number]).normal(size=(STEPS, 2))
        )
        return float(np.abs(np.corrcoef(drawn.T)[0, 1]))

    found = [correlation(number) for number in range(60)]
    assert 0.35 < np.mean(np.array(found) > 0.3) < 0.9  # independent normal numbers are below 0.15


def test_a_later_channel_has_the_factor_of_earlier_steps() -> None:
    assert any(
        best_delay(groups.together(np.random.default_rng(number), ZERO.copy())) not in (None, 0) for number in range(40)
    )


def best_delay(drawn: np.ndarray) -> int | None:
    """Return the delay with which one channel is the other, if both are the factor alone."""
    if not drawn.any(0).all():
        return None
    first, second = drawn.T
    delays = range(-48, 49)
    shifted = [np.abs(np.corrcoef(first[50:-50], np.roll(second, delay)[50:-50])[0, 1]) for delay in delays]
    return delays[int(np.argmax(shifted))] if max(shifted) > 0.999 else None


def test_drivers_explain_a_part_of_most_series() -> None:
    """A regression on the driver, its distance from quantiles and its past explains what the driver adds."""
    gains = []
    for number in range(40):
        random = np.random.default_rng(number)
        cause = groups.driver(random, STEPS)
        own = groups.response(random, cause)
        assert np.isfinite(own).all()

        bounds = np.quantile(cause, np.linspace(0.05, 0.95, 10))
        late = [np.concatenate([np.full(delay, cause[0]), cause[: STEPS - delay]]) for delay in range(40)]
        inputs = np.stack([np.ones(STEPS), *(np.maximum(cause - bound, 0) for bound in bounds), *late], 1)
        fitted = inputs @ np.linalg.lstsq(inputs, own, rcond=None)[0]
        gains.append(1 - np.square(own - fitted).sum() / max(np.square(own).sum(), 1e-9) if own.any() else np.nan)
    assert np.nanmedian(gains) > 0.97


def test_some_series_respond_and_others_do_not() -> None:
    def changed(number: int) -> bool:
        with_driver, _ = groups.draw_group(np.random.default_rng(number), STEPS, drivers=1)
        alone = draw_series(np.random.default_rng(number), STEPS)
        return not np.array_equal(with_driver[:, 0], alone)

    share = np.mean([changed(number) for number in range(80)])
    assert 0.6 < share < 0.9
