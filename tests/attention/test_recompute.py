"""The recomputing backward pass and its memory."""

from typing import Any

import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks, build
from forecast.attention._parsing import configured
from forecast.attention._running_softmax import _decayed_sums, _running_maximum
from forecast.common.memory import peak_bytes
from forecast.kernels.causal_products import is_recomputing, recomputing
from tests.attention.cases import CASES, Case, gradients, tensors

LINEAR = [case for case in CASES if case.name in ("linear", "efficient", "taylor", "mean")]
every_case = pytest.mark.parametrize("case", LINEAR, ids=lambda case: case.label)


@pytest.fixture
def _many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)


@pytest.mark.usefixtures("_many_chunks")
@every_case
def test_gradients_of_chunks_equal_those_that_autograd_records(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = case.build()
    inputs = tensors(length=300, value_width=5)
    mask = torch.rand(2, 300, generator=torch.Generator().manual_seed(0)) < 0.7
    actual = gradients(attention(*inputs, mask), *inputs)
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 2**30)
    torch.testing.assert_close(actual, gradients(attention(*inputs, mask), *inputs), rtol=0, atol=1e-13)
    assert not is_recomputing()


@pytest.mark.usefixtures("_many_chunks")
@every_case
def test_second_order_gradients_equal_those_of_one_chunk(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = case.build()
    inputs = tensors(length=140, value_width=5)

    def second() -> tuple[Tensor, ...]:
        output = attention(*inputs)
        first = torch.autograd.grad(output.square().sum(), inputs, create_graph=True, materialize_grads=True)
        total = sum(x.square().sum() for x in first)
        return torch.autograd.grad(total, inputs, materialize_grads=True)  # type: ignore[arg-type]

    actual = second()
    monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 2**30)
    torch.testing.assert_close(actual, second())
    assert actual[2].any()


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # tril_ in torch.func
@pytest.mark.usefixtures("_many_chunks")
@every_case
def test_gradients_of_each_batch_row_by_torch_func_are_right(case: Case) -> None:
    attention = case.build()
    inputs = [x.detach() for x in tensors(length=140)]
    leaves = [x.clone().requires_grad_() for x in inputs]

    def loss(*row: Tensor) -> Tensor:
        return attention(*(x[None] for x in row)).square().sum()

    by_row = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(*inputs)
    expected = torch.autograd.grad(attention(*leaves).square().sum(), leaves, materialize_grads=True)
    torch.testing.assert_close(by_row, expected)


@pytest.mark.usefixtures("_many_chunks")
@pytest.mark.parametrize("causal", [False, True])
def test_only_gradients_that_are_needed_are_computed(causal: bool) -> None:
    attention = build("linear", num_heads=2, head_dim=8, causal=causal)
    query, key, value = tensors(length=300)
    expected = gradients(attention(query, key, value), value)
    (actual,) = gradients(attention(query.detach(), key.detach(), value), value)
    torch.testing.assert_close(actual, expected[0])


MEASURED = [
    pytest.param(
        name, causal, marks=() if causal is (name == "linear") and name != "taylor" else pytest.mark.exhaustive
    )
    for name in ("probsparse", "linear", "efficient", "taylor", "mean")
    for causal in (False, True)
]


def training_memory(name: str, causal: bool, heads: int, length: int, width: int) -> float:
    """Return the peak of both passes in tensors of the size of an input."""
    inputs = [torch.randn(1, heads, length, width, requires_grad=True) for _ in range(3)]
    attention = build(name, **configured("attention", name), num_heads=heads, head_dim=width, causal=causal)
    gradient = torch.ones_like(inputs[0])

    def both() -> Any:
        output = attention(*inputs)
        return output, torch.autograd.grad(output, inputs, gradient, allow_unused=True)

    return peak_bytes(both, torch.device("cpu")) / gradient.nbytes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "causal"), MEASURED)
def test_training_takes_the_memory_of_six_inputs_at_most(name: str, causal: bool) -> None:
    assert training_memory(name, causal, 8, 8192, 64) <= 6.02  # features of efficient: 6, and its context


@pytest.mark.exhaustive
def test_a_wide_head_takes_no_more() -> None:
    assert training_memory("linear", True, 1, 16_384, 512) <= 6


def nodes(attention: torch.nn.Module, length: int) -> int:
    inputs = tuple(torch.zeros(1, 2, length, 8) for _ in range(3))
    with torch.no_grad():
        return len(torch.export.export(attention, inputs).graph.nodes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("efficient", marks=pytest.mark.exhaustive), "probsparse", "linear", "taylor"]
)
def test_the_exported_graph_does_not_grow_with_the_length(name: str) -> None:
    attention = build(name, **configured("attention", name), num_heads=2, head_dim=8, causal=True).eval()
    assert nodes(attention, 3_000) == nodes(attention, 50_001) < 600  # no multiples of a block


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [pytest.param("efficient", marks=pytest.mark.exhaustive), "probsparse"])
def test_a_few_compiled_graphs_serve_many_lengths(name: str) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    attention = build(name, **configured("attention", name), num_heads=2, head_dim=8, causal=True).eval()
    torch.compiler.reset()
    compiled = torch.compile(attention, backend=backend, fullgraph=True)
    with torch.no_grad():
        for length in (500, 600, 640, 700, 768, 900, 1000):  # one value of ⌈ln L⌉
            inputs = [torch.randn(1, 2, length, 8) for _ in range(3)]
            torch.testing.assert_close(compiled(*inputs), attention(*inputs))
    assert len(graphs) <= 3  # for the first length, for a multiple of the block length, and for all others


@pytest.mark.parametrize("group", [2, 3, 64])
def test_states_of_grouped_blocks_equal_a_loop(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.attention._running_softmax.GROUP", group)
    for count in (1, 2, 5, 9, 30):
        keys = torch.randn(2, count, 4, dtype=torch.float64) - 5
        tops = keys.cummax(dim=1).values
        assert torch.equal(_running_maximum(keys), tops)
        added = torch.randn(2, count, 4, 3, dtype=torch.float64)
        state, states = torch.zeros(2, 4, 3, dtype=torch.float64), []
        for block in range(count):
            state = state * (tops[:, max(block, 1) - 1] - tops[:, block]).exp()[..., None] + added[:, block]
            states.append(state)
        torch.testing.assert_close(_decayed_sums(tops, added), torch.stack(states, dim=1))


def test_the_hand_written_derivatives_end_with_their_context() -> None:
    with recomputing():
        assert is_recomputing()
    assert not is_recomputing()
