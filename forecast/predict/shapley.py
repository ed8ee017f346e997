"""Shapley values: the fair share of each player in the value of all of them."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PAIRS, ALL = 32, 120
"""Pairs of a permutation and its reverse that are drawn, if all permutations are more than `ALL`."""


@dataclass(frozen=True)
class Shares:
    """Shapley values (n, h) of n players, with their standard error, and the values (h,) without and with all players.

    The shares sum to `whole` minus `empty`.
    """

    values: np.ndarray
    errors: np.ndarray
    empty: np.ndarray
    whole: np.ndarray


def shapley(game: Callable[[np.ndarray], np.ndarray], players: int, pairs: int = PAIRS) -> Shares:
    """Return the Shapley values of a game, which maps coalitions (B, n) to their values (B, h).

    All permutations are used if there are at most `ALL`; else `pairs` random ones, each with its reverse. An additive
    game has the same shares in every permutation, so that they are exact.

    References
    ----------
    Castro, Gómez and Tejada, "Polynomial calculation of the Shapley value based on sampling", Computers & Operations
    Research 36 (2009); Mitchell et al., "Sampling permutations for Shapley value estimation", Journal of Machine
    Learning Research 23 (2022), for the reverse of each permutation.
    """
    orders, are_all = _orders(players, pairs)
    coalitions = np.zeros((len(orders), players + 1, players), dtype=bool)
    for place in range(players):
        coalitions[np.arange(len(orders)), place + 1 :, orders[:, place]] = True
    unique, places = np.unique(coalitions.reshape(-1, players), axis=0, return_inverse=True)
    found = game(unique)[places.ravel()].reshape(len(orders), players + 1, -1)
    gains = np.empty((len(orders), players, found.shape[-1]))
    np.put_along_axis(gains, orders[..., None], np.diff(found, axis=1), axis=1)
    values = gains.mean(0)
    errors = np.zeros_like(values)
    if not are_all:
        both = (gains[0::2] + gains[1::2]) / 2
        errors = both.std(0, ddof=1) / math.sqrt(len(both))
    return Shares(values, errors, found[0, 0], found[0, -1])


def _orders(players: int, pairs: int) -> tuple[np.ndarray, bool]:
    """Return permutations of the players (P, n), and whether they are all."""
    if math.factorial(players) <= ALL:
        return np.array(list(itertools.permutations(range(players)))).reshape(-1, players), True
    random = np.random.default_rng(0)
    drawn = [random.permutation(players) for _ in range(pairs)]
    return np.array([order for one in drawn for order in (one, one[::-1])]), False
