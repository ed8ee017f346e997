"""The sparse kernel is used only where calling the layers would give the same result."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize, prune

from forecast.attention import _few_queries as few_queries
from forecast.attention import build
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention.base import Attention
from forecast.attention.probsparse import ProbSparseAttention

ARGUMENTS = {"factor": 2, "sampling": "shared", "measure": "sampled_mean"}
LENGTH = 61


def layer(attention: Attention | None = None, **options: Any) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = attention or build("probsparse", num_heads=3, head_dim=16, **ARGUMENTS)
    return MultiHeadAttention(10, 3, attention, head_dim=16, **options).double().eval()


def tokens(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, LENGTH, 10, generator=generator, dtype=torch.float64)


def usual_form(heads: MultiHeadAttention, x: Tensor) -> Tensor:
    """Return the output of the usual form: with three different tensors the layer sees no self-attention."""
    output: Tensor = heads(x, x.clone(), x.clone())
    return output


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes every layer use the usual form."""
    return lambda: monkeypatch.setattr(few_queries, "is_cheaper", lambda *_: False)


class LowRank(nn.Linear):
    """Linear layer with a low-rank update."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, dtype=layer.weight.dtype)
        self.load_state_dict(layer.state_dict())
        self.down, self.up = (torch.randn(2, each, dtype=layer.weight.dtype) for each in layer.weight.T.shape)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + input @ self.down.T @ self.up


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def low_rank(heads: MultiHeadAttention) -> None:
    heads.value_projection = LowRank(heads.value_projection)


def pruned(heads: MultiHeadAttention) -> None:
    prune.l1_unstructured(heads.query_projection, "weight", 0.5)


def parametrized(heads: MultiHeadAttention) -> None:
    parametrize.register_parametrization(heads.output_projection, "weight", Doubled())


def without_bias(heads: MultiHeadAttention) -> None:
    heads.value_projection.bias = None


@pytest.mark.parametrize("change", [low_rank, pruned, parametrized, without_bias], ids=lambda change: change.__name__)
def test_modified_layers_are_called(change: Callable[[MultiHeadAttention], None]) -> None:
    heads, x = layer(), tokens()
    plain = heads(x, x, x)
    change(heads)
    for _ in range(2):  # pruned weights are recomputed for each backward pass
        output = heads(x, x, x)
        output.sum().backward()
    torch.testing.assert_close(output, usual_form(heads, x), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(output, plain)


@pytest.mark.parametrize(
    "register",
    [nn.modules.module.register_module_forward_hook, nn.modules.module.register_module_forward_pre_hook],
    ids=lambda register: register.__name__,
)
def test_a_global_hook_is_called_for_every_module_that_must_be_called(register: Callable[..., Any]) -> None:
    heads, x, seen = layer(), tokens(), set()
    heads.attention.must_be_called = True
    handle = register(lambda module, *_: seen.add(module))
    try:
        heads(x, x, x)
    finally:
        handle.remove()
    assert set(heads.modules()) <= seen


@pytest.mark.parametrize("name", ["query_projection", "value_projection", "attention"])
@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_hook_on_gradients_is_called_if_the_mechanism_must_be_called(name: str, kind: str) -> None:
    heads, seen = layer(), []
    heads.attention.must_be_called = True
    getattr(getattr(heads, name), kind)(lambda module, *_: seen.append(module))
    x = tokens().requires_grad_()
    heads(x, x, x).sum().backward()
    assert seen == [getattr(heads, name)]


class Twice(ProbSparseAttention):
    """Changes `attend` and inherits the choice of active queries."""

    def attend(self, *arguments: Any) -> Tensor:
        return 2 * super().attend(*arguments)


def test_a_subclass_with_another_attend_is_called() -> None:
    heads, x = layer(Twice(num_heads=3, head_dim=16, **ARGUMENTS)), tokens()
    torch.testing.assert_close(heads(x, x, x), usual_form(heads, x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor:UserWarning")
def test_a_quantized_layer_is_called() -> None:
    heads, x = layer().float(), tokens().float()
    quantized = torch.ao.quantization.quantize_dynamic(copy.deepcopy(heads), {nn.Linear}, torch.qint8)
    assert type(quantized.value_projection) is not nn.Linear
    output = quantized(x, x, x)
    torch.testing.assert_close(output, usual_form(quantized, x), rtol=1e-4, atol=1e-4)
    assert not torch.equal(output, heads(x, x, x))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_per_sample_gradients_equal_those_of_single_samples() -> None:
    heads, x = layer(), tokens(3)
    weights = {name: each.detach() for name, each in heads.named_parameters()}

    def loss(weights: dict[str, Tensor], sample: Tensor) -> Tensor:
        one = sample[None]
        return torch.func.functional_call(heads, weights, (one, one, one)).square().sum()  # type: ignore[no-any-return]

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for row in range(3):
        one = x[row : row + 1]
        alone = torch.autograd.grad(heads(one, one, one).square().sum(), list(heads.parameters()))
        torch.testing.assert_close([gradient[row] for gradient in gradients.values()], list(alone))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_differentiation_matches_finite_differences() -> None:
    heads, x = layer(), tokens()
    torch.manual_seed(2)
    direction = torch.randn_like(x)
    with sdpa_kernel(SDPBackend.MATH), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, direction)
        tangent = torch.autograd.forward_ad.unpack_dual(heads(dual, dual, dual)).tangent
    step = 1e-6
    moved = [heads(each, each, each) for each in (x + step * direction, x - step * direction)]
    torch.testing.assert_close(tangent, (moved[0] - moved[1]) / (2 * step), rtol=1e-6, atol=1e-8)


def second_derivatives(heads: MultiHeadAttention, x: Tensor) -> list[Tensor]:
    """Return the gradients of a function of the gradients."""
    output = x + heads(x, x, x)
    leaves = [x, *heads.parameters()]
    first = torch.autograd.grad(output.square().sum(), leaves, create_graph=True)
    weights = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)
    measure = first[0].square().sum() + (weights * first[0]).sum() + sum(each.square().sum() for each in first[1:])
    return [first[0].detach(), *torch.autograd.grad(measure, leaves)]


@pytest.mark.parametrize("change", ["none", "tied", "no bias", "wider values"])
def test_second_derivatives_equal_those_of_the_usual_form(change: str, general: Callable[[], None]) -> None:
    heads = layer(bias=change != "no bias", value_head_dim=20 if change == "wider values" else None)
    if change == "tied":
        heads.key_projection.weight = heads.query_projection.weight
    x = tokens().requires_grad_()
    actual = second_derivatives(heads, x)
    general()
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernel has no second derivative
        torch.testing.assert_close(actual, second_derivatives(heads, x), rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_second_derivatives_match_finite_differences() -> None:
    torch.manual_seed(0)
    heads = MultiHeadAttention(3, 2, build("probsparse", num_heads=2, head_dim=2, **ARGUMENTS), head_dim=2)
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    weights = [each.detach().double().requires_grad_() for each in heads.parameters()]
    chosen = torch.tensor([[[1, 3], [3, 2]], [[4, 0], [0, 1]]])

    def attend(x: Tensor, *weights: Tensor) -> Tensor:
        return few_queries.attend_few(x, few_queries.Projections(*weights), chosen)

    assert torch.autograd.gradcheck(attend, (x, *weights))
    assert torch.autograd.gradgradcheck(attend, (x, *weights))


def test_second_derivatives_skip_tensors_without_gradient() -> None:
    heads, x = layer(), tokens().requires_grad_()
    expected = second_derivatives(heads, x)[1]
    for projection in (heads.key_projection, heads.value_projection):
        projection.requires_grad_(False)
    output = x + heads(x, x, x)
    (first,) = torch.autograd.grad(output.square().sum(), [x], create_graph=True)
    assert first.requires_grad
    assert expected.shape == torch.autograd.grad(first.square().sum(), [x])[0].shape


def test_an_empty_batch_and_an_empty_sequence_are_accepted() -> None:
    heads = layer()
    for shape in ((0, LENGTH, 10), (2, 0, 10)):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        output = heads(x, x, x)
        assert output.shape == shape
        output.sum().backward()
        assert x.grad is not None
