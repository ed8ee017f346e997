import pytest
import torch

from forecast.evaluation.ridge import LinearMap
from forecast.model.linear_path import LinearPath
from forecast.model.presets import Sizes
from tests.support.examples import make_model, make_windows


@pytest.mark.parametrize("look_back", [8, 5, 1])
def test_a_path_that_starts_from_the_ridge_forecasts_like_it(look_back: int) -> None:
    windows = make_windows()
    batch = windows.batch(torch.tensor([0, 21, 40]))
    torch.manual_seed(1)
    ridge = LinearMap(torch.randn(look_back, 3), "made")
    sizes = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=8, horizon=3)
    model = make_model("patch_informer", sizes, linear_path="ridge")
    assert model.linear_path is not None
    model.linear_path.start_from(ridge.weight)
    torch.testing.assert_close(model.forward_linear_path(*batch[:3]), ridge(batch), atol=1e-4, rtol=1e-4)


def test_a_path_that_starts_at_zero_forecasts_the_mean() -> None:
    past = torch.randn(2, 8, 2)
    torch.testing.assert_close(LinearPath(8, 3)(past, past, past), past.mean(1, keepdim=True).expand(-1, 3, -1))


def test_a_path_maps_every_series_with_the_same_weights_oldest_step_first() -> None:
    path = LinearPath(4, 2)
    path.start_from(torch.tensor([[1.0, 0], [0, 0], [0, 0], [0, 2.0]]))
    past = torch.arange(8.0).view(1, 4, 2)  # series 0: 0 2 4 6, a mean of 3; series 1: 1 3 5 7, of 4
    assert path(past, past, past).tolist() == [[[0, 1], [9, 10]]]


def test_a_path_with_a_map_of_each_series_applies_each_to_its_series() -> None:
    torch.manual_seed(3)
    past, weight = torch.randn(2, 8, 3), torch.randn(3, 5, 4)
    path = LinearPath(8, 4, 3, per_series=True)
    path.start_from(weight)
    forecast = path(past, past, past)
    for series in range(3):
        alone = LinearPath(8, 4)
        alone.start_from(weight[series])
        one = past[..., series : series + 1]
        torch.testing.assert_close(forecast[..., series : series + 1], alone(one, one, one))
    path.start_from(weight[0])  # one map for all of them
    shared = LinearPath(8, 4)
    shared.start_from(weight[0])
    torch.testing.assert_close(path(past, past, past), shared(past, past, past))
