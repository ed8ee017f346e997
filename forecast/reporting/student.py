"""Quantiles of Student's t."""

from statistics import NormalDist


def normal_quantile(level: float) -> float:
    """Give the standard normal's quantile."""
    return NormalDist().inv_cdf(level)


def t_quantile(level: float, freedom: float) -> float:
    """Give the quantile of Student's t with at least 4 degrees of freedom, whole or not, to 0.3 % up to .995.

    References
    ----------
    Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.5.
    """
    z = normal_quantile(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))
