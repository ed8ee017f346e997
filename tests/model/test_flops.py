"""Operations counted by the program and by hand."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from forecast import attention
from forecast.attention import _few_queries as few_queries
from forecast.attention._multi_head import MultiHeadAttention
from forecast.common.operations import operations, training_operations
from forecast.model.informer import flops_per_window
from forecast.model.presets import Sizes
from tests.support.examples import FULL, LINEAR, make_model, make_windows
from tests.support.small import compose

SIZES = Sizes(num_targets=1, num_past_covariates=0, num_known=2, context_length=16, horizon=8)
HEADS, KEYS, QUERIES, WIDTH = 2, 50, 30, 8


def count(mechanism: dict[str, object], length: int = 16, preset: str = "patch_informer", **changes: object) -> int:
    windows = make_windows(length + 20, context_length=length, horizon=8, num_targets=1, num_covariates=0)
    return flops_per_window(make_model(preset, replace(SIZES, context_length=length), mechanism, **changes), windows)


def kernel(name: str, *, causal: bool = False, **changes: Any) -> Any:
    node = {**compose(f"attention={name}")["attention"], **changes}
    built = attention.build(**node, num_heads=HEADS, head_dim=WIDTH, causal=causal, max_key_length=KEYS)
    keys = QUERIES if causal or not built.cross else KEYS
    query, key, value = (torch.randn(1, HEADS, length, WIDTH) for length in (QUERIES, keys, keys))
    built.eval()
    return lambda: built(query, key, value)


def test_the_operations_of_a_small_model_match_a_count_by_hand() -> None:
    """Width 16, feed-forward 32, two encoder layers, one decoder layer, patches of 4 steps and 2 known inputs."""
    tokens, queries, width, wide, patch = 4, 2, 16, 32, 4

    def attend(rows: int, keys: int) -> int:
        projections = 2 * rows * width * width + 2 * keys * width * width
        return projections + rows * keys * 2 * width

    def feed_forward(rows: int) -> int:
        return 2 * rows * width * wide

    embedding = (tokens + 1) * patch * width + (tokens + queries) * 2 * patch * width  # the last patch twice
    encoder = 2 * (attend(tokens, tokens) + feed_forward(tokens))
    decoder = attend(queries, queries) + attend(queries, tokens) + feed_forward(queries)
    head = queries * width * patch
    assert count(FULL) == 2 * (embedding + encoder + decoder + head)
    path = 16 * 8
    assert count(FULL, linear_path="zero") == 2 * (embedding + encoder + decoder + head + path)


@pytest.mark.parametrize("implementation", ["fused", "explicit"])
@pytest.mark.parametrize("causal", [False, True])
def test_softmax_attention_costs_two_products(implementation: str, causal: bool) -> None:
    keys = QUERIES if causal else KEYS
    expected = 2 * HEADS * QUERIES * keys * 2 * WIDTH
    assert operations(kernel("full", causal=causal, implementation=implementation)) == expected


def test_linear_attention_costs_its_state_and_its_readout() -> None:
    expected = 2 * HEADS * WIDTH * (KEYS * WIDTH + QUERIES * WIDTH + QUERIES)
    assert operations(kernel("linear")) == expected


@pytest.mark.parametrize("sampling", ["shared", "per_query"])
def test_probsparse_attention_costs_its_measure_and_its_active_queries(sampling: str) -> None:
    drawn, chosen = 5 * 4, 5 * 4  # factor · ⌈ln 50⌉, factor · ⌈ln 30⌉
    expected = 2 * HEADS * (QUERIES * drawn * WIDTH + chosen * KEYS * 2 * WIDTH)
    assert operations(kernel("probsparse", sampling=sampling, factor=5)) == expected


def test_the_mean_multiplies_nothing() -> None:
    assert operations(kernel("mean")) == 0


@pytest.mark.parametrize("name", attention.available())
def test_no_mechanism_hides_products_in_a_fused_kernel(name: str) -> None:
    call = kernel(name)
    with sdpa_kernel(SDPBackend.MATH):
        plain = operations(call)
    assert operations(call) == plain


@pytest.mark.parametrize("preset", ["patch_informer", "informer"])
def test_full_attention_grows_with_the_square_and_linear_attention_does_not(preset: str) -> None:
    full, linear = ([count(kind, length, preset) for length in (128, 256, 512)] for kind in (FULL, LINEAR))
    assert linear[2] - linear[1] == 2 * (linear[1] - linear[0])
    assert full[2] - full[1] > 2.05 * (full[1] - full[0])
    assert full[2] > linear[2]


def test_counting_keeps_the_mode_and_the_random_state() -> None:
    windows = make_windows(40, context_length=16, horizon=8, num_targets=1, num_covariates=0)
    model = make_model("patch_informer", SIZES, FULL, dropout=0.5)
    model.train()
    model.encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    state = torch.get_rng_state()
    assert flops_per_window(model, windows) == flops_per_window(model.eval(), windows)
    model.train()
    model.encoder.eval()
    flops_per_window(model, windows)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.equal(torch.get_rng_state(), state)


def test_counting_does_not_disable_the_sparse_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {**compose("attention=probsparse")["attention"], "factor": 1}
    heads = MultiHeadAttention(32, 2, attention.build(**arguments, num_heads=2, head_dim=16))
    tokens = torch.randn(1, 200, 32)
    few = operations(lambda: heads(tokens, tokens, tokens))
    monkeypatch.setattr(few_queries, "is_cheaper", lambda *_: False)
    assert few < operations(lambda: heads(tokens, tokens, tokens))


def test_a_training_step_of_a_layer_costs_three_forward_passes() -> None:
    layer = torch.nn.Linear(WIDTH, 3 * WIDTH)
    inputs = torch.randn(QUERIES, WIDTH, requires_grad=True)
    forward = 2 * QUERIES * WIDTH * 3 * WIDTH
    assert operations(lambda: layer(inputs)) == forward
    assert training_operations(lambda: layer(inputs).sum().backward()) == 3 * forward


@pytest.mark.parametrize(("implementation", "products"), [("fused", 7), ("explicit", 6)])
def test_training_fused_attention_costs_one_more_product_than_explicit(implementation: str, products: int) -> None:
    node = {**compose("attention=full")["attention"], "implementation": implementation}
    built = attention.build(**node, num_heads=HEADS, head_dim=WIDTH, max_key_length=KEYS)
    query, key, value = (torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for length in (QUERIES, KEYS, KEYS))
    actual = training_operations(lambda: built(query, key, value).sum().backward())
    assert actual == products * 2 * HEADS * QUERIES * KEYS * WIDTH
