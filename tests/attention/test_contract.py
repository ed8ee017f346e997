"""The contract of all mechanisms, for every YAML file of conf/attention.

The first test takes every check of `forecast.check`, in each form that a mechanism has. The others hold what these
leave out.
"""

import pytest
import torch
from torch import Tensor

from forecast.attention import _chunks
from forecast.attention._costs import is_costs
from forecast.check.candidate import Candidate
from forecast.check.suite import CHECKS, Check
from tests.attention.cases import CASES, Case, gradients, parameters, prefix, tensors
from tests.attention.reference import REFERENCES

SQUARE = [(1, 1), (7, 7), (25, 25)]
OBLONG = [(1, 5), (5, 1), (24, 6)]
STRICT = [case for case in CASES if case.build().causal_ability == "strict" and case.causal]
HALF = [torch.bfloat16, torch.float16]

every_case = pytest.mark.parametrize("case", parameters(CASES))
both_forms = pytest.mark.parametrize("case", parameters([case for case in CASES if not case.causal]))


@both_forms
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_promise_of_the_checks_is_kept(case: Case, check: Check) -> None:
    value = check.measure(Candidate(case.arguments))
    assert value is None or value <= check.bound


def shapes_of(case: Case) -> list[tuple[int, int]]:
    return SQUARE if case.causal or not case.build().cross else SQUARE + OBLONG


def masks_for(batch: int, size: int) -> list[Tensor | None]:
    holes = torch.rand(batch, size, generator=torch.Generator().manual_seed(3)) < 0.6
    return [None, prefix([size, size // 2][:batch], size), holes]


@every_case
def test_output_and_gradient_equal_those_of_the_map_times_the_values(case: Case) -> None:
    attention = case.build()
    for length, key_length in [*shapes_of(case), (90, 90)]:
        inputs = tensors(length=length, key_length=key_length, value_width=5)
        for mask in masks_for(2, key_length):
            output = attention(*inputs, mask)
            weights = attention.attention_map(*inputs[:2], mask)
            expected = weights @ inputs[2]
            torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(gradients(output, *inputs), gradients(expected, *inputs), rtol=1e-8, atol=1e-10)
            attends = torch.ones(2, key_length).bool() if mask is None else mask
            assert not weights.masked_select(~attends[:, None, None].expand_as(weights)).any()


@pytest.mark.parametrize("case", parameters([case for case in CASES if case.name in REFERENCES]))
def test_output_and_gradient_equal_those_of_the_slow_formula(case: Case) -> None:
    attention = case.build(head_dim=3)
    reference = REFERENCES[case.name]
    arguments = {key: value for key, value in case.arguments.items() if key != "name"}
    arguments |= {name: parameter.detach() for name, parameter in attention.named_parameters()}
    for length, key_length in shapes_of(case):
        inputs = tensors(length=length, key_length=key_length, width=3, value_width=2)
        for mask in masks_for(2, key_length):
            output = attention(*inputs, mask)
            expected = reference(*inputs, mask, case.causal, **arguments)
            torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
            if length <= 9:
                torch.testing.assert_close(
                    gradients(output, *inputs), gradients(expected, *inputs), rtol=1e-8, atol=1e-10
                )


@pytest.mark.parametrize("dtype", HALF, ids=str)
@every_case
def test_half_precision_under_autocast_stays_near_float64(case: Case, dtype: torch.dtype) -> None:
    attention = case.build()
    mask = prefix([70, 33], 70)
    for input_dtype in (dtype, torch.float32):
        inputs = tensors(length=70, dtype=input_dtype)
        with torch.autocast("cpu", dtype=dtype):
            output = attention(*inputs, mask)
        exact = [x.detach().double() for x in inputs]
        assert output.dtype == input_dtype
        torch.testing.assert_close(output.double(), attention(*exact, mask), rtol=0, atol=0.03)
        assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@every_case
def test_a_query_without_keys_gives_zeros_with_finite_gradients(case: Case, dtype: torch.dtype) -> None:
    attention = case.build()
    inputs = tensors(batch=3, length=12, dtype=dtype)
    mask = prefix([12, 0, 12], 12)
    mask[2, :4] = False
    output = attention(*inputs, mask)
    assert not output[1].any()
    if case.causal:
        assert not output[2, :, :4].any()
    if not attention.weights_may_vanish:
        assert output[0].abs().sum(dim=-1).all()
        assert output[2, :, 4:].abs().sum(dim=-1).all()
    assert not attention.attention_map(*inputs[:2], mask)[1].any()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@pytest.mark.parametrize(
    ("number", "shape", "message"),
    [
        (0, (2, 9, 8), r"query must have shape \(B, H, L, E\), not \(2, 9, 8\)"),
        (1, (2, 2, 1, 9, 8), r"key must have shape \(B, H, S, E\), not \(2, 2, 1, 9, 8\)"),
        (2, (9, 8), r"value must have shape \(B, H, S, V\), not \(9, 8\)"),
    ],
)
@every_case
def test_a_tensor_of_another_rank_is_refused_with_the_shape_to_use(
    case: Case, number: int, shape: tuple[int, ...], message: str
) -> None:
    attention = case.build()
    inputs = [x.detach() for x in tensors()]
    inputs[number] = torch.ones(shape)
    with pytest.raises(ValueError, match=message):
        attention(*inputs)
    if number == 2:
        return
    for method in [attention.attention_map, getattr(attention, "choose_active_queries", attention.attention_map)]:
        with pytest.raises(ValueError, match=message):
            method(*inputs[:2])


@every_case
def test_empty_inputs_give_zeros_or_empty_outputs(case: Case) -> None:
    attention = case.build()
    sizes = [(0, 6, 6), (2, 0, 0)]
    if not case.causal and attention.cross:
        sizes += [(2, 6, 0), (2, 0, 6), (0, 0, 6), (0, 6, 0)]
    for training in (False, True):
        attention.train(training)
        for batch, length, key_length in sizes:
            inputs = tensors(batch=batch, length=length, key_length=key_length, value_width=5, dtype=torch.float32)
            for masks in ((), (torch.ones(batch, key_length).bool(), torch.ones(batch, length).bool())):
                output = attention(*inputs, *masks)
                assert (output.shape, output.dtype) == ((batch, 2, length, 5), torch.float32)
                assert not output.any()
                assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))
                assert attention.attention_map(*inputs[:2], *masks).shape == (batch, 2, length, key_length)


@every_case
def test_the_output_may_be_written_to(case: Case) -> None:
    attention = case.build()
    for length in (1, 7, 70):
        inputs = [x.detach() for x in tensors(length=length)]
        copies = [x.clone() for x in inputs]
        expected = attention(*inputs) + 1
        assert torch.equal(attention(*inputs).add_(1), expected)
        assert all(map(torch.equal, inputs, copies))


@every_case
def test_evaluation_is_repeatable_and_draws_no_random_numbers(case: Case) -> None:
    attention = case.build()
    inputs = tensors(length=60)
    mask = prefix([60, 30], 60)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = attention(*inputs, mask)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(attention(*inputs, mask), first)


@every_case
def test_training_depends_on_the_seed_and_is_random_only_if_declared(case: Case) -> None:
    attention = case.build().train()
    inputs = tensors(length=150, dtype=torch.float32)
    torch.manual_seed(1)
    first, second = attention(*inputs), attention(*inputs)
    torch.manual_seed(1)
    assert torch.equal(attention(*inputs), first)
    assert torch.equal(first, second) == attention.deterministic


@pytest.mark.parametrize("case", parameters(STRICT))
@pytest.mark.parametrize("parts", ["one", "many"])
def test_a_strictly_causal_output_is_bitwise_equal_for_another_future(
    case: Case, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.name == "full":
        pytest.skip("the rounding of torch's kernel may vary")
    if parts == "many":
        monkeypatch.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)
    attention = case.build()
    inputs = [x.detach() for x in tensors(length=201, dtype=torch.float32)]
    before = attention(*inputs)
    for step in (1, 63, 64, 77, 200):
        changed = [torch.cat([x[:, :, :step], 1e4 * x[:, :, step:].flip(2)], dim=2) for x in inputs]
        torch.testing.assert_close(attention(*changed)[:, :, :step], before[:, :, :step], rtol=0, atol=0)


@every_case
def test_chunks_do_not_change_the_output(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = case.build()
    inputs = tensors(length=150, value_width=5)
    for mask in masks_for(2, 150):
        whole = attention(*inputs, mask)
        expected = gradients(whole, *inputs)
        with monkeypatch.context() as patched:
            patched.setattr(_chunks, "CHUNK_ELEMENTS_CPU", 1)
            patched.setattr(_chunks, "CHUNK_ELEMENTS", 1)
            output = attention(*inputs, mask)
            torch.testing.assert_close(output, whole)
            torch.testing.assert_close(gradients(output, *inputs), expected)
            with torch.no_grad():
                torch.testing.assert_close(attention(*inputs, mask), whole)


@pytest.mark.parametrize("case", parameters([case for case in CASES if case.causal]))
def test_no_later_value_is_mixed_into_a_causal_output(case: Case) -> None:
    attention = case.build()
    query, key, value = tensors(length=100)
    changed = torch.cat([value[:, :, :40], -value[:, :, 40:] + 1], dim=2)
    before, after = attention(query, key, value), attention(query, key, changed)
    torch.testing.assert_close(after[:, :, :40], before[:, :, :40], rtol=0, atol=0)
    changed_rows = (after[:, :, 40:] != before[:, :, 40:]).any(dim=-1)
    assert changed_rows.any() if attention.weights_may_vanish else changed_rows.all()
    assert not attention.attention_map(query, key).triu(1).any()


@every_case
def test_extreme_queries_and_keys_give_exact_outputs_and_finite_gradients(case: Case) -> None:
    attention = case.build()
    _, _, value = tensors(length=90, dtype=torch.float32)
    pattern = torch.tensor([-100.0, 0.0, 100.0]).repeat(30)[:, None].expand(2, 2, 90, 8)
    extremes = {
        "all features near 0": (torch.full_like(value, -20), torch.full_like(value, -20)),
        "far keys": (torch.ones_like(value), torch.full_like(value, -100)),
        "farther keys": (torch.ones_like(value), torch.full_like(value, -140)),
        "farthest keys": (torch.ones_like(value), torch.full_like(value, -1e6)),
        "near keys": (torch.full_like(value, -100), torch.full_like(value, 100)),
        "mixed keys": (torch.full_like(value, 0.25), pattern),
    }
    for label, (query, key) in extremes.items():
        inputs = [x.detach().clone().requires_grad_() for x in (query, key, value)]
        output = attention(*inputs)
        exact = [x.detach().double() for x in inputs]
        expected = attention.attention_map(*exact[:2]) @ exact[2]
        torch.testing.assert_close(output.double(), expected, rtol=0, atol=1e-5, msg=label)
        assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs)), label


@pytest.mark.parametrize("dtype", HALF, ids=str)
@every_case
def test_large_inputs_in_half_precision_have_finite_gradients(case: Case, dtype: torch.dtype) -> None:
    attention = case.build()
    _, _, value = tensors(length=66, dtype=dtype)
    inputs = [torch.full_like(value, 100), torch.full_like(value, 100), value.detach()]
    inputs = [x.requires_grad_() for x in inputs]
    with torch.autocast("cpu", dtype=dtype):
        output = attention(*inputs)
    assert output.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(output, *inputs))


@every_case
def test_inputs_that_do_not_match_are_refused_by_name(case: Case) -> None:
    attention = case.build()
    query, key, value = tensors(length=6)
    with pytest.raises(ValueError, match="boolean"):
        attention(query, key, value, torch.ones(2, 6))
    with pytest.raises(ValueError, match=r"takes a mask of shape .*not \(2, 5\)"):
        attention(query, key, value, torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"takes a query_mask of shape .*not \(1, 6\)"):
        attention(query, key, value, None, torch.ones(1, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match="built for 2 heads of 8"):
        attention(query[:, :1], key[:, :1], value[:, :1])
    with pytest.raises(ValueError, match="do not match"):
        attention(query, key, value[:, :, :5])
    with pytest.raises(ValueError, match="do not match"):
        attention(query, key[..., :7], value)
    if case.causal:
        with pytest.raises(ValueError, match="as many queries as keys"):
            attention(query[:, :, :5], key, value)


@every_case
def test_abilities_and_costs_are_declared(case: Case) -> None:
    mechanism = type(case.build())
    assert mechanism.causal_ability in ("strict", "values only", "no")
    assert is_costs(mechanism.time_cost)
    assert is_costs(mechanism.memory_cost)
    if case.name not in REFERENCES:
        return  # a mechanism of a user: its docstring is its own matter
    text = mechanism.__doc__ or ""
    for part in ("Equation:", "Differs from the paper in:", "References\n"):
        assert part in text
