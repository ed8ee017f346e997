"""The response to known inputs: taken out of the look-back, put back into the forecast."""

import pytest
import torch

from forecast.model.informer import Informer, Response
from forecast.model.presets import Sizes
from tests.support.examples import make_inputs, make_model

LEVELS = [0.1, 0.5, 0.9]


def sizes(quantiles: list[float]) -> Sizes:
    return Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=8, horizon=3, quantiles=quantiles)


def pair(quantiles: list[float], linear_path: str | bool = False) -> tuple[Informer, Informer]:
    """Return a model with a response, and one with the same other weights without."""
    with_response = make_model("patch_informer", sizes(quantiles), response_width=5, linear_path=linear_path)
    without = make_model("patch_informer", sizes(quantiles), linear_path=linear_path)
    state = with_response.state_dict()
    without.load_state_dict({name: weight for name, weight in state.items() if not name.startswith("response.")})
    return with_response, without


def test_a_fresh_response_is_zero() -> None:
    shape = sizes([])
    _, past_known, _ = make_inputs(shape)
    answer = Response(shape.layout, 2, 5)(past_known)
    assert answer.shape == (2, 8, 2)
    assert not answer.detach().any()


@pytest.mark.parametrize("quantiles", [[], LEVELS])
@pytest.mark.parametrize("linear_path", [False, "weighted", "ridge"])
def test_the_response_leaves_the_look_back_and_returns_in_the_forecast(
    quantiles: list[float], linear_path: str | bool
) -> None:
    with_response, without = pair(quantiles, linear_path)
    assert with_response.response is not None
    torch.nn.init.normal_(with_response.response.head.weight)
    past, past_known, future_known = make_inputs(sizes(quantiles))
    rest = past.clone()
    rest[..., :2] -= with_response.response(past_known)  # the past covariate keeps its values
    answer = with_response.response(future_known)
    assert float(answer.detach().abs().max()) > 0.1
    expected, level = without._decode(rest, past_known, future_known, None)
    actual, same_level = with_response._decode(past, past_known, future_known, None)
    torch.testing.assert_close(actual, expected + (answer[..., None] if quantiles else answer))
    torch.testing.assert_close(same_level, level)
    if linear_path:  # which reads the values as they are
        inputs = past, past_known, future_known
        torch.testing.assert_close(with_response.forward_linear_path(*inputs), without.forward_linear_path(*inputs))


def test_the_response_is_trained() -> None:
    model, _ = pair([])
    assert model.response is not None
    past, past_known, future_known = make_inputs(sizes([]))
    model(past, past_known, future_known).square().sum().backward()
    gradient = model.response.head.weight.grad
    assert gradient is not None
    assert float(gradient.abs().max()) > 0
