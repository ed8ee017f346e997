"""Unobserved values are filled, whatever their content."""

import pandas as pd
import pytest
import torch

from forecast.evaluation.ridge import LinearMap
from forecast.model.normalization import forward_fill
from forecast.model.presets import Sizes
from tests.support.examples import make_model, make_windows

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=8, horizon=3)


@pytest.mark.parametrize("length", [1, 2, 7, 33])
@pytest.mark.parametrize("hidden", [torch.nan, torch.inf, 1e30])
def test_forward_fill_equals_pandas_with_the_mean_before_the_first_value(length: int, hidden: float) -> None:
    generator = torch.Generator().manual_seed(length)
    past = torch.randn(3, length, 4, generator=generator, dtype=torch.float64)
    observed = torch.rand(3, length, 4, generator=generator) > 0.6
    observed[0, :, 0] = False
    actual = forward_fill(torch.where(observed, past, hidden), observed)
    for window, seen, filled in zip(past, observed, actual, strict=True):
        frame = pd.DataFrame(window.numpy()).where(seen.numpy())
        expected = frame.ffill().fillna(frame.mean()).fillna(0)
        torch.testing.assert_close(filled, torch.from_numpy(expected.to_numpy()))


@pytest.mark.parametrize("path", ["ridge", "weighted"])
def test_with_gaps_the_path_forecasts_like_its_initial_map(path: str) -> None:
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(60, 3, generator=generator) > 0.5
    observed[:21:20] = observed[40] = True  # the first rows of the windows below
    windows = make_windows(observed=observed)
    rows = torch.arange(60)[:, None].where(observed, -1).cummax(0).values
    windows.values[:] = windows.values.gather(0, rows)  # filled, as a table is
    batch = windows.batch(torch.tensor([0, 20, 40]))
    start = LinearMap(torch.randn(8, 3, generator=generator), "made")
    model = make_model("patch_informer", SIZES, linear_path=path).eval()
    assert model.linear_path is not None
    model.linear_path.start_from(start.weight)
    seen = observed.unfold(0, 8, 1).transpose(1, 2)[[0, 20, 40]]
    torch.testing.assert_close(model.forward_linear_path(*batch[:3], seen), start(batch), atol=1e-4, rtol=1e-4)
    if path == "weighted":  # whose share is 0
        torch.testing.assert_close(
            model(batch.past, batch.past_known, batch.future_known, seen), start(batch), atol=1e-4, rtol=1e-4
        )
