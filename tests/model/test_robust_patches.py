"""`model.patch_values=robust`: what is missing has no influence, and the length of the look-back has none beside it."""

import pytest
import torch
from torch import Tensor

from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes, build

FULL = {"name": "full", "implementation": "fused"}
PATCH, H = 16, 20


def network(context_length: int, values: str = "robust", targets: int = 2, past: int = 1) -> Informer:
    torch.manual_seed(3)
    options = {
        "d_model": 16,
        "num_heads": 2,
        "head_dim": None,
        "d_ff": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "dropout": 0.0,
        "patch_length": PATCH,
        "stride": None,
        "level": "window",
        "queries": "last_patch",
        "channels": "independent",
        "patch_values": values,
        "linear_path": False,
        "path_weights": "shared",
        "response_width": 0,
    }
    sizes = Sizes(targets, past, 0, context_length, H)
    return build("patch_informer", sizes, Mechanisms(FULL, FULL, FULL), **options).eval()


def forecast(model: Informer, past: Tensor, observed: Tensor | None) -> Tensor:
    known = past.new_empty(len(past), past.shape[1], 0), past.new_empty(len(past), H, 0)
    with torch.no_grad():
        return model(past, *known, observed)


@pytest.mark.parametrize("steps", [slice(0, 32), slice(5, 9), slice(90, 96)], ids=["patches", "inside", "newest"])
def test_a_missing_value_has_no_influence(steps: slice) -> None:
    model, past = network(96), torch.randn(2, 96, 3)
    observed = torch.ones(2, 96, 3, dtype=torch.bool)
    observed[:, steps] = False
    other = past.clone()
    other[:, steps] = 50
    torch.testing.assert_close(forecast(model, past, observed), forecast(model, other, observed))


def test_a_shorter_look_back_is_a_longer_one_whose_older_patches_are_missing() -> None:
    past = torch.randn(2, 96, 3)
    observed = torch.ones(2, 96, 3, dtype=torch.bool)
    observed[:, :48] = False
    short = forecast(network(48), past[:, 48:], None)
    torch.testing.assert_close(forecast(network(96), past, observed), short, rtol=1e-4, atol=1e-5)


def test_where_a_gap_is_is_seen() -> None:
    model, past = network(96), torch.zeros(1, 96, 3)
    past[:, ::2] = 1
    first, second = (torch.ones(1, 96, 3, dtype=torch.bool) for _ in range(2))
    first[:, [0, 1]], second[:, [4, 5]] = False, False
    assert not torch.allclose(forecast(model, past, first), forecast(model, past, second), atol=1e-6)


def test_an_outlier_counts_less_than_in_plain_patches() -> None:
    past = torch.randn(1, 96, 3, generator=torch.Generator().manual_seed(1))
    spiked = past.clone()
    spiked[:, 40] += 30

    def moved(values: str) -> float:
        model = network(96, values)
        normalized, _ = model.normalization.normalize(spiked, None)
        tokens = model.tokens.source(normalized, spiked[..., :0], None)
        return float(tokens[:, 2].detach().norm() / tokens[:, 3].detach().norm())

    assert moved("robust") < 0.7 * moved("plain")
