"""A table whose columns have every role, and the options that name them."""

import numpy as np
import pandas as pd

TARGETS, PAST, KNOWN = ["load", "oil"], ["air", "state"], ["wind", "promo", "kind"]

STATIC = "data.static_covariates={region:{load:north,oil:south},size:{load:1,oil:3}}"

ROLES = [f"data.past_covariates=[{','.join(PAST)}]", f"data.known_covariates=[{','.join(KNOWN)}]", STATIC]


def table(rows: int = 700) -> pd.DataFrame:
    """Return hourly loads that answer to wind, a promotion and a kind of day; `state` is a label of the past."""
    generator = np.random.default_rng(0)
    hour = np.arange(rows)
    wind, air = generator.standard_normal((2, rows))
    promo = generator.random(rows) < 0.2
    kind = generator.choice(["a", "b", "c"], rows)
    effect = 2 * wind + 3 * promo + np.where(kind == "a", 2, 0)
    return pd.DataFrame(
        {
            "date": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "load": 100 + 10 * np.sin(hour * np.pi / 12) + effect + generator.standard_normal(rows),
            "oil": 5 + np.cos(hour * np.pi / 12) - effect + generator.standard_normal(rows),
            "air": air,
            "state": generator.choice(["on", "off"], rows),
            "wind": wind,
            "promo": promo,
            "kind": kind,
        }
    )
