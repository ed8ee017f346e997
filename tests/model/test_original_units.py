import numpy as np
import torch

from forecast.data.scaler import Scaler
from forecast.model.original_units import OriginalUnits
from forecast.model.presets import Sizes
from tests.support.examples import make_inputs, make_model

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=22, horizon=7)
SCALER = Scaler(np.array([1e7, -5.0, 20.0]), np.array([100.0, 0.1, 5.0]), ["load", "oil", "air"])


def test_forecasts_equal_the_scaled_network_at_any_level() -> None:
    network = make_model("patch_informer", SIZES)
    past, past_known, future_known = make_inputs(SIZES)
    model = OriginalUnits(network, torch.tensor(SCALER.mean), torch.tensor(SCALER.scale))
    original = torch.tensor(SCALER.inverse(past.numpy()))
    actual = model(original, past_known, future_known).detach().numpy()
    scaled = torch.tensor(SCALER.transform(original.numpy()).astype(np.float32))
    expected = network(scaled, past_known, future_known).detach().double().numpy()
    assert actual.dtype == np.float64
    np.testing.assert_array_equal(actual, SCALER.inverse(expected, ["load", "oil"]))
    direct = network(past, past_known, future_known).detach().numpy()
    np.testing.assert_allclose((actual - SCALER.mean[:2]) / SCALER.scale[:2], direct, atol=1e-4)


def test_unobserved_values_are_not_read() -> None:
    model = OriginalUnits(make_model("informer", SIZES), torch.tensor(SCALER.mean), torch.tensor(SCALER.scale))
    past, past_known, future_known = make_inputs(SIZES)
    observed = torch.ones_like(past, dtype=torch.bool)
    observed[:, 3:6, 1] = False
    other = past.double().where(observed, torch.nan)
    torch.testing.assert_close(
        model(other, past_known, future_known, observed), model(past.double(), past_known, future_known, observed)
    )
