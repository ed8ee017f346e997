"""Hidden steps do not count in the findings of a probe, and have no weight in a map."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from forecast.attention import find
from forecast.attention.base import Attention
from forecast.data.windows import Batch
from forecast.model.presets import Sizes
from forecast.training.probe import measures
from forecast.training.probe.capture import Captured
from forecast.training.probe.layer import Findings, compare_with_softmax, probe
from forecast.training.probe.maps import attention_maps
from tests.attention.cases import CASES, FILES, Case, load, tensors
from tests.support.examples import FULL, make_model, make_windows

SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=2, context_length=16, horizon=8)
LENGTH = 40


def called(mechanism: Attention, visible: Tensor | None, *tokens: Tensor) -> Captured:
    """Return a self-attention over tokens, of which those outside `visible` (B, L) are hidden."""
    query, key, value = tokens
    return Captured(query, key, value, mechanism(query, key, value, visible, visible), visible, visible)


def shown(case: Case) -> Tensor:
    """Return the visible positions; those of a mechanism whose weights depend on the position are the first."""
    if case.name == "linformer" or case.arguments.get("sampling") == "per_query" or case.build().local:
        return torch.arange(LENGTH) < 27
    return torch.rand(LENGTH, generator=torch.Generator().manual_seed(0)) > 0.3


def close(one: Findings, other: Findings) -> bool:
    """Return whether the measures of two findings agree."""
    measures = ("distance", "distance_of_mean", "entropy", "entropy_of_softmax", "found", "found_by_chance")
    pairs = [(getattr(one, name), getattr(other, name)) for name in measures]
    return all(left is right is None or left == pytest.approx(right, rel=1e-4, abs=1e-6) for left, right in pairs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_findings_are_those_of_the_visible_tokens_alone(case: Case) -> None:
    case = Case({**case.arguments, "factor": 1}, case.causal, case.label) if case.name == "probsparse" else case
    mechanism, visible = case.build(), shown(case)
    tokens = [tensor.detach().float() for tensor in tensors(batch=1, length=LENGTH)]
    masked = compare_with_softmax(mechanism, called(mechanism, visible[None], *tokens))
    alone = compare_with_softmax(mechanism, called(mechanism, None, *(tensor[:, :, visible] for tensor in tokens)))
    assert (masked.queries, masked.keys) == (LENGTH, LENGTH)
    assert close(masked, alone)


def test_the_recall_of_sequences_of_unequal_lengths_is_their_mean() -> None:
    mechanism = Case(load(FILES[0].with_name("probsparse.yaml")) | {"factor": 2}, False, "probsparse").build()
    visible = torch.arange(LENGTH) < torch.tensor([[LENGTH], [9], [0]])
    call = called(mechanism, visible, *(tensor.detach().float() for tensor in tensors(batch=3, length=LENGTH)))
    both, chance = measures.query_recall(mechanism, call)
    each = [measures.query_recall(mechanism, call.rows(slice(row, row + 1)))[0] for row in (0, 1)]
    torch.testing.assert_close(both, torch.stack(each).mean(0))
    assert chance == (2 * math.ceil(math.log(LENGTH)) + 2 * math.ceil(math.log(9))) / (LENGTH + 9)


def gaps() -> Batch:
    """Return windows with hidden steps at the start, inside and at the end; the first window is the one of a map."""
    observed = torch.ones(60, 3, dtype=torch.bool)
    observed[3:8] = observed[10] = observed[17:19] = False
    observed[12, 0] = False
    return make_windows(60, context_length=16, horizon=8, observed=observed).batch(torch.tensor([3, 20]))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_hidden_keys_and_queries_have_no_weight_in_a_map(file: Path) -> None:
    mechanism, batch = load(file), gaps()
    cross = mechanism if find(file.stem).cross else FULL
    network = make_model("informer", SIZES, mechanism, cross=cross, distil=False)
    maps = attention_maps(network, batch)
    assert batch.past_observed is not None
    steps = batch.past_observed[0].any(1)
    assert 0 < int(steps.sum()) < 16
    queries = torch.cat([steps[-4:], torch.ones(8, dtype=torch.bool)])
    wanted = {"encoder.0.self": (steps, steps), "decoder.0.self": (queries, queries)}
    wanted["decoder.0.cross"] = (queries, steps)
    for place, (rows, columns) in wanted.items():
        weights = torch.from_numpy(maps[place].weights)  # (H', n, m)
        assert not weights[:, ~rows].any(), place
        assert not weights[:, :, ~columns].any(), place
        if find(maps[place].mechanism).weights_may_vanish:
            continue
        assert weights[:, rows].abs().sum(2).min() > 1e-3, place
        if maps[place].mechanism != "linformer":
            torch.testing.assert_close(weights[:, rows].sum(2), torch.ones(2, int(rows.sum())).double())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_window_without_a_value_is_left_out_of_the_findings(file: Path) -> None:
    """Only the map of its decoder remains: the horizon attends to itself."""
    network, batch = make_model("informer", SIZES, load(file)), gaps()
    assert batch.past_observed is not None
    observed = batch.past_observed.clone()
    observed[0] = False
    emptied = batch._replace(past_observed=observed)
    findings = probe(network, emptied)
    alone = probe(network, Batch(*(None if each is None else each[1:] for each in batch)))
    for place in ("encoder.0.self", "encoder.1.self"):
        assert close(findings[place], alone[place])
    maps = attention_maps(network, emptied)
    assert maps["decoder.0.self"].weights.any()
    assert not any(maps[place].weights.any() for place in maps if place != "decoder.0.self")
