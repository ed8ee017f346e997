"""Shapley values of games whose shares are known."""

import numpy as np
import pytest

from forecast.predict.shapley import shapley

WEIGHTS = np.array([3.0, -1.0, 0.5, 0.0, 7.0, 2.0, 1.0, -4.0])


def additive(coalitions: np.ndarray) -> np.ndarray:
    """Return 10 plus the weights of the players, and twice that."""
    value = 10 + coalitions @ WEIGHTS[: coalitions.shape[1]]
    return np.stack([value, 2 * value], 1)


@pytest.mark.parametrize("players", [1, 3, 8])
def test_the_shares_of_an_additive_game_are_exact(players: int) -> None:
    shares = shapley(additive, players)
    np.testing.assert_allclose(shares.values[:, 0], WEIGHTS[:players], atol=1e-12)
    np.testing.assert_allclose(shares.values[:, 1], 2 * WEIGHTS[:players], atol=1e-12)
    assert shares.errors.max() < 1e-12
    assert shares.empty.tolist() == [10, 20]


def test_what_two_players_make_together_is_halved() -> None:
    shares = shapley(lambda sets: (6.0 * (sets[:, 0] & sets[:, 1]) + sets[:, 2])[:, None], 3)
    np.testing.assert_allclose(shares.values[:, 0], [3, 3, 1])


def test_sampled_shares_sum_to_the_whole_and_are_near_the_exact_ones() -> None:
    def game(sets: np.ndarray) -> np.ndarray:
        """Return the square of the number of players, to which all contribute alike."""
        return (sets.sum(1) ** 2 + 5.0 * (sets[:, 0] & sets[:, 9]))[:, None]

    shares = shapley(game, 10)
    assert shares.values.sum() == pytest.approx(float(shares.whole[0] - shares.empty[0]))
    expected = np.array([12.5, *[10.0] * 8, 12.5])
    assert (np.abs(shares.values[:, 0] - expected) < 4 * shares.errors[:, 0] + 1e-9).all()
    assert shares.errors.max() < 1
