"""Quantiles never cross, in any model, mechanism and precision; the linear path gives their centre and scale."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from forecast.attention import available
from forecast.common.losses import levels_error
from forecast.model.informer import Informer, Quantiles
from forecast.model.normalization import window_spread
from forecast.model.presets import Sizes
from tests.export.made import ARGUMENTS
from tests.support.covering import covering
from tests.support.examples import make_inputs, make_model

DECILES = tuple(tenths / 10 for tenths in range(1, 10))
INPUTS, BATCH = 5_000, 2_500


def sizes(levels: tuple[float, ...] = DECILES) -> Sizes:
    return Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=8, horizon=3, quantiles=levels)


MODELS = [("patch_informer", "weighted"), ("patch_informer", "zero"), ("patch_informer", False), ("informer", None)]


def quantile_model(preset: str, path: object, mechanism: dict[str, object] | None = None) -> Informer:
    """Return a model with random weights, and with offsets and a mixing weight if it has a linear path."""
    options = {} if preset == "informer" else {"linear_path": path}
    model = make_model(preset, sizes(), mechanism, **options)
    if model.linear_path is not None and path == "weighted":
        generator = torch.Generator().manual_seed(3)
        model.linear_path.start_from(
            torch.randn(8, 3, generator=generator), offsets=torch.randn(3, 2, 9, generator=generator).sort(-1).values
        )
        model.combination.mixing_weight.fill_(0.4)
    return model


MECHANISMS = ["full", "probsparse"]
OTHERS = [name for name in available() if name not in MECHANISMS]
PRECISIONS = ["float32", "bfloat16"]


@pytest.mark.parametrize(
    ("model_of", "mechanism", "precision"),
    [
        *covering(MODELS, MECHANISMS, PRECISIONS, every=2),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in product(MODELS, OTHERS, PRECISIONS)),
    ],
    ids=str,
)
def test_quantiles_never_cross(model_of: tuple[str, object], mechanism: str, precision: str) -> None:
    model = quantile_model(*model_of, ARGUMENTS[mechanism])
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        for seed in range(INPUTS // BATCH):
            past, *known = make_inputs(sizes(), BATCH, seed=seed)
            scale = 10.0 ** torch.empty(BATCH, 1, 1).uniform_(-3, 3, generator=torch.Generator().manual_seed(seed))
            quantiles = model.forward_quantiles(past * scale, *known)
            assert quantiles.shape == (BATCH, 3, 2, 9)
            assert bool((quantiles.diff(dim=-1) >= 0).all())
            assert bool(quantiles.isfinite().all())


@pytest.mark.parametrize(("preset", "path"), MODELS)
def test_the_point_forecast_is_the_median(preset: str, path: object) -> None:
    model, inputs = quantile_model(preset, path), make_inputs(sizes())
    with torch.inference_mode():
        torch.testing.assert_close(model(*inputs), model.forward_quantiles(*inputs)[..., 4])


def test_the_quantiles_of_a_fresh_head_are_those_of_a_normal_distribution() -> None:
    head = Quantiles((0.1, 0.3, 0.5, 0.7, 0.9))
    found = head(torch.zeros(5))
    expected = 0.5 * torch.tensor([-1.2815516, -0.5244005, 0.0, 0.5244005, 1.2815516])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_each_quantile_adds_an_increment_outwards_from_the_median() -> None:
    head, raw = Quantiles(DECILES), torch.randn(7, 9)
    steps = functional.softplus(torch.cat([raw[:, :4], raw[:, 5:]], -1) + head.offset)
    lower = raw[:, 4:5] - steps[:, :4].flip(-1).cumsum(-1).flip(-1)
    upper = raw[:, 4:5] + steps[:, 4:].cumsum(-1)
    torch.testing.assert_close(head(raw), torch.cat([lower, raw[:, 4:5], upper], -1))


@given(st.lists(st.floats(0.001, 0.499), min_size=1, max_size=49, unique=True))
def test_levels_symmetric_about_the_median_are_accepted(lower: list[float]) -> None:
    rising = sorted({round(level, 4) for level in lower})
    levels = [*rising, 0.5, *(1 - level for level in reversed(rising))]
    assert levels_error(levels) is None
    assert all(high > low for low, high in pairwise(levels))


def test_the_quantiles_of_the_linear_path_are_its_forecast_plus_offsets_times_the_spread() -> None:
    model = quantile_model("patch_informer", "weighted")
    model.combination.mixing_weight.zero_()
    past, *known = make_inputs(sizes())
    assert model.linear_path is not None
    with torch.inference_mode():
        quantiles, forecast = model.forward_quantiles(past, *known), model(past, *known)
        spread = window_spread(past[..., :2], None)
        expected = forecast[..., None] + spread[..., None] * model.linear_path.offsets
    torch.testing.assert_close(quantiles - quantiles[..., 4:5], expected - expected[..., 4:5], atol=1e-4, rtol=1e-4)
