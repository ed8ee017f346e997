"""Products of the linear family in bfloat16 on a GPU, and of all mechanisms in float32 on a CPU."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from forecast.attention import _chunks, build, full, probsparse
from forecast.attention._parsing import configured
from forecast.kernels import causal_products
from tests.attention.cases import gradients, prefix, tensors

KINDS: list[dict[str, Any]] = [
    {"name": "linear"},
    {"name": "linear", "feature_map": "exp"},
    {"name": "linear", "feature_map": "softplus"},
    {"name": "linear", "normalize": False},
    {"name": "efficient"},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
both_forms = pytest.mark.parametrize("causal", [False, True])


def results(kind: dict[str, Any], causal: bool, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    output = build(**kind, num_heads=2, head_dim=8, causal=causal)(*inputs)
    return [output, *gradients(output, *inputs)]


@pytest.mark.parametrize("chunk", [1, 2**17])
@both_forms
@every_kind
def test_output_and_gradients_are_those_of_float64_within_the_rounding_of_bfloat16(
    kind: dict[str, Any], causal: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", chunk)
    monkeypatch.setattr(causal_products, "has_tensor_cores", lambda _: True)
    inputs = tensors(length=300, value_width=5, dtype=torch.bfloat16)
    exact = tuple(x.detach().double().requires_grad_() for x in inputs)
    for half, expected in zip(results(kind, causal, inputs), results(kind, causal, exact), strict=True):
        assert half.dtype == torch.bfloat16
        assert (half.double() - expected).abs().max() <= 2**-5 * expected.abs().max()


@both_forms
@every_kind
def test_only_bfloat16_on_such_a_device_is_multiplied_so(
    kind: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = tensors(length=100)
    for dtype, differs in ((torch.bfloat16, True), (torch.float16, False), (torch.float32, False)):
        cast = tuple(x.detach().to(dtype).requires_grad_() for x in inputs)
        outputs = []
        for units in (False, True):
            monkeypatch.setattr(causal_products, "has_tensor_cores", lambda _, units=units: units)
            outputs.append(results(kind, causal, cast)[0])
        assert torch.equal(*outputs) is not differs, dtype


@both_forms
def test_relu_stays_in_float32(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = tensors(length=100, dtype=torch.bfloat16)
    plain = results({"name": "linear", "feature_map": "relu"}, causal, inputs)
    monkeypatch.setattr(causal_products, "has_tensor_cores", lambda _: True)
    torch.testing.assert_close(
        results({"name": "linear", "feature_map": "relu"}, causal, inputs), plain, rtol=0, atol=0
    )


@both_forms
def test_sums_over_the_sequence_stay_in_float32(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal_products, "has_tensor_cores", lambda _: True)
    query, key, value = (x.detach() for x in tensors(length=5000, dtype=torch.bfloat16))
    value = torch.full_like(value, 30.0)
    output = build("linear", num_heads=2, head_dim=8, causal=causal)(query, key, value)
    torch.testing.assert_close(output, value, rtol=2**-7, atol=0)


@pytest.mark.slow
def test_a_compiled_form_is_one_graph_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal_products, "has_tensor_cores", lambda _: True)
    torch.compiler.reset()
    attention = build("linear", num_heads=2, head_dim=8, causal=True)
    inputs = [x.detach() for x in tensors(length=100, dtype=torch.bfloat16)]
    compiled = torch.compile(attention, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), attention(*inputs), rtol=2**-6, atol=2**-6)


@both_forms
@every_kind
def test_a_cpu_with_matrix_units_multiplies_in_float32(
    kind: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = tensors(length=100, dtype=torch.bfloat16)
    plain = results(kind, causal, inputs)
    monkeypatch.setattr("forecast.common.devices.has_amx", lambda: True)
    assert all(map(torch.equal, results(kind, causal, inputs), plain))


@pytest.mark.parametrize("name", ["efficient", "full", "linear", "linformer", "mean", "probsparse", "taylor"])
@pytest.mark.parametrize("masked", [False, True])
def test_half_precision_on_a_cpu_is_float32_rounded_at_the_end(
    name: str, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full, "has_bfloat16_products", lambda: False)
    torch.manual_seed(0)
    sizes = {"num_heads": 2, "head_dim": 8, "max_key_length": 300}
    attention = build(name, **configured("attention", name), **sizes).eval()
    mask = prefix([300, 7], 300) if masked else None
    inputs = tensors(length=300, dtype=torch.bfloat16)
    single = tuple(x.detach().float().requires_grad_() for x in inputs)
    output, expected = attention(*inputs, mask), attention(*single, mask)
    assert output.dtype == torch.bfloat16
    bound = {"rtol": 2**-7, "atol": 1e-6}
    torch.testing.assert_close(output.float(), expected, **bound)
    weight = torch.randn(output.shape).bfloat16()
    found = torch.autograd.grad(output, inputs, weight, materialize_grads=True)
    wanted = torch.autograd.grad(expected, single, weight.float(), materialize_grads=True)
    for half, gradient in zip(found, wanted, strict=True):
        assert (half.float() - gradient).abs().max() <= 2**-7 * gradient.abs().max()


def test_probsparse_in_half_precision_copies_queries_in_parts_and_moves_rows_by_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probsparse, "CHUNK_ELEMENTS_HALF", 2**10)
    inputs = tensors(length=300, dtype=torch.bfloat16)
    attention = build("probsparse", **configured("attention", "probsparse"), num_heads=2, head_dim=8)
    seen: list[tuple[str, torch.Size]] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(
                (function.overloadpacket.__name__, args[0].shape if args and torch.is_tensor(args[0]) else torch.Size())
            )
            return function(*args, **(kwargs or {}))

    with Watch():
        attention.choose_active_queries(*inputs[:2])
        copied = [shape for name, shape in seen if name == "_to_copy"]
        torch.autograd.grad(attention(*inputs).sum(), inputs)
    assert inputs[0].shape not in copied
    assert any(len(shape) == 4 for shape in copied)
    assert not {"gather", "scatter", "scatter_add", "scatter_"} & {name for name, _ in seen}
