import pytest
import torch

from forecast import attention
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention._parsing import parse
from forecast.benchmark.case import Case, LoopOverHeads, Shape, prepare
from tests.benchmark.made import CPU, case


def test_inputs_are_the_same_at_each_call() -> None:
    for width, count, size in ((None, 3, (3, 2, 16, 8)), (24, 1, (3, 16, 24))):
        made = case(batch=3, d_model=width).shape
        (first, gradient), (again, _) = made.draw(CPU, torch.bfloat16), made.draw(CPU, torch.bfloat16)
        assert gradient is None
        assert [x.shape for x in first] == [size] * count
        assert all(x.dtype == torch.bfloat16 and not x.requires_grad for x in first)
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


def test_a_forward_pass_runs_in_evaluation_mode() -> None:
    made = case("probsparse", length=40)
    inputs, gradient = made.shape.draw(CPU, torch.float32)
    module = made.build()
    output = prepare(module, inputs, gradient)()
    assert not module.training
    assert not output.requires_grad
    torch.testing.assert_close(output, module(*inputs))


@pytest.mark.parametrize("name", attention.available())
def test_both_passes_give_the_gradients_of_training(name: str) -> None:
    made = case(name, length=16, backward=True, d_model=24)
    inputs, gradient = made.shape.draw(CPU, torch.float32)
    module = made.build()
    _, gradients = prepare(module, inputs, gradient)()
    assert module.training
    leaves = [*inputs, *module.parameters()]
    assert len(gradients) == len(leaves)
    assert [leaf.grad for leaf in leaves] == [None] * len(leaves)
    if name == "probsparse":
        return  # in training it draws a new sample at each call
    wanted = torch.autograd.grad(module(*inputs * 3), leaves, gradient, allow_unused=True)
    for actual, expected in zip(gradients, wanted, strict=True):
        assert (actual is None) == (expected is None)
        if actual is not None:
            torch.testing.assert_close(actual, expected)


def test_a_case_with_d_model_is_the_whole_layer() -> None:
    built = case("linear", d_model=512, num_heads=2, head_dim=32).build()
    assert isinstance(built, MultiHeadAttention)
    assert built.query_projection.weight.shape == (64, 512)


def test_outputs_and_gradients_keep_half_precision() -> None:
    for name in attention.available():
        made = case(name, length=16, backward=True)
        inputs, gradient = made.shape.draw(CPU, torch.bfloat16)
        output, gradients = prepare(made.build().to(torch.bfloat16), inputs, gradient)()
        assert output.dtype == torch.bfloat16
        assert all(x is None or x.dtype == torch.bfloat16 for x in gradients)


@pytest.mark.parametrize("word", ["full", "linear", "probsparse"])
def test_the_loop_over_heads_computes_the_same_layer(word: str) -> None:
    variant, layout = parse(word), Shape(33, 2, 3, 5, d_model=12)
    inputs, _ = layout.draw(CPU, torch.float32)
    vectorised, loop = (Case(variant, layout, loop=loop).build().eval() for loop in (False, True))
    assert isinstance(loop, LoopOverHeads)
    assert [(len(layers), layers[0].out_features) for layers in (loop.queries, loop.keys, loop.values)] == [(3, 5)] * 3
    assert [mechanism.num_heads for mechanism in loop.mechanisms] == [1, 1, 1]
    torch.testing.assert_close(loop(*inputs * 3), vectorised(*inputs * 3))


def test_the_loop_over_heads_has_the_operations_of_the_vectorised_layer() -> None:
    layout = Shape(64, 1, 2, 8, d_model=32)
    loop, vectorised = (Case(parse("full"), layout, loop=loop) for loop in (True, False))
    assert loop.operations() == vectorised.operations()
    assert (loop.label, vectorised.label) == ("full, loop over heads", "full")
