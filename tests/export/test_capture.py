from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast.attention.full import FullAttention
from forecast.common.errors import InputError
from forecast.export.formats import KEPT, WRITERS, Captured, capture, facts_of
from forecast.model.original_units import Context
from forecast.predict.exported import open_bytes
from forecast.runs.run import WEIGHTS
from tests.export.made import ARGUMENTS, description, largest_error, make_model, windows
from tests.support.examples import FULL

VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({**ARGUMENTS["probsparse"], "sampling": "per_query", "measure": "published", "factor": 1}, {}),
    ({**FULL, "implementation": "explicit"}, {}),
    (FULL, {"channels": "mixed", "linear_path": "zero"}),
    (FULL, {"stride": 3, "dropout": 0.5}),
]


def check_all(captured: Captured, suffix: str, model: Any, architecture: Any, contexts: list[Context]) -> None:
    """Write the graph, open it, and compare its forecasts."""
    content = WRITERS[suffix](captured, description(captured, architecture), "")
    exported = open_bytes(content, Path(f"model{suffix}"))
    with torch.inference_mode():
        for context in contexts:
            assert largest_error(exported(*context), model(*context)) < 2e-5


def formats() -> list[Any]:
    return [".pt2", pytest.param(".onnx", marks=pytest.mark.slow)]


def mechanisms(names: Iterable[str]) -> list[Any]:
    """Return all names; those beside probsparse run by hand; most other tests export full."""
    return [
        name if name == "probsparse" else pytest.param(name, marks=pytest.mark.exhaustive) for name in sorted(names)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", formats())
@pytest.mark.parametrize("preset", ["patch_informer", pytest.param("informer", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", mechanisms(ARGUMENTS))
def test_every_mechanism_is_exported_for_any_number_of_windows(name: str, preset: str, suffix: str) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    shallow = {} if name == "full" else {"encoder_layers": 1}  # a layer takes seconds to capture; one of two distils
    model, architecture = make_model(preset, ARGUMENTS[name], **shallow)
    captured = capture(model, architecture, masked=False)
    assert captured.batch is None
    check_all(captured, suffix, model, architecture, [windows(architecture, count) for count in (1, 2, 5)])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("mechanism", "changes"), VARIANTS, ids=["per_query", "explicit", "mixed", "overlap"])
def test_other_arguments_are_exported_as_well(mechanism: dict[str, Any], changes: dict[str, Any]) -> None:
    model, architecture = make_model("patch_informer", mechanism, **changes)
    captured = capture(model, architecture, masked=False)
    assert captured.batch is None
    check_all(captured, ".pt2", model, architecture, [windows(architecture, count) for count in (1, 4)])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["patch_informer", pytest.param("informer", marks=pytest.mark.exhaustive)])
def test_a_masked_model_accepts_past_observed_or_reads_everything(preset: str) -> None:
    model, architecture = make_model(preset, FULL)
    captured = capture(model, architecture, masked=True)
    contexts = [windows(architecture, 3, masked=True), windows(architecture, 3)]
    check_all(captured, ".pt2", model, architecture, contexts)


@pytest.mark.exhaustive  # in each run tests/export/test_export.py exports a run that masks gaps
@pytest.mark.parametrize("suffix", formats())
@pytest.mark.parametrize("name", mechanisms(set(ARGUMENTS) - {"efficient", "taylor"}))  # they mask as linear does
def test_mechanisms_are_exported_with_hidden_steps(name: str, suffix: str) -> None:
    """Windows without gaps and a window without any value use the same graph."""
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    model, architecture = make_model("informer", ARGUMENTS[name], **({} if name == "full" else {"encoder_layers": 1}))
    captured = capture(model, architecture, masked=True)
    assert captured.batch is None
    contexts = [windows(architecture, count, masked=True) for count in (1, 4)]
    for context in contexts:
        assert context.past_observed is not None
        context.past_observed[-1, :9] = context.past_observed[0, 20:23] = context.past_observed[0, -2:] = False
        context.past_observed[1:2] = False
    changed = contexts[1].past_known.where(contexts[1].past_observed.any(2, keepdim=True), 1e3)
    contexts.append(contexts[1]._replace(past_known=changed))
    check_all(captured, suffix, model, architecture, [*contexts, windows(architecture, 3)])
    with torch.inference_mode():
        assert torch.equal(model(*contexts[2]), model(*contexts[1]))  # known inputs of hidden steps do not count


Attend = Callable[[FullAttention, Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
ATTEND: Attend = FullAttention.attend


def row_by_row(self: FullAttention, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> Tensor:
    rows = [ATTEND(self, *(x[row : row + 1] for x in (query, key, value)), None, None) for row in range(len(value))]
    return torch.cat(rows)


def by_value(self: FullAttention, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> Tensor:
    return ATTEND(self, query, key, value if float(value.sum()) > 0 else -value, None, None)


@pytest.mark.slow
def test_a_mechanism_that_loops_over_the_batch_is_exported_for_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullAttention, "attend", row_by_row)
    model, architecture = make_model("informer", FULL, encoder_layers=1)
    captured = capture(model, architecture, masked=False)
    assert captured.batch == 1
    check_all(captured, ".pt2", model, architecture, [windows(architecture, 1)])


@pytest.mark.slow
def test_a_mechanism_whose_arithmetic_depends_on_values_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullAttention, "attend", by_value)
    model, architecture = make_model("patch_informer", FULL)
    with pytest.raises(
        InputError, match=r"model=patch_informer attention=full .*torch\.export cannot capture"
    ) as caught:
        capture(model, architecture, masked=False)
    assert "\n" not in str(caught.value)


def test_a_file_keeps_the_name_of_the_run_that_training_began_with_but_not_its_place() -> None:
    manifest: dict[str, Any] = {key: {} for key in KEPT} | {"files": {WEIGHTS: {}}}
    start = {"kind": "run", "run": "/home/me/outputs/first", "weights": "ab", "pretrained_on": None}
    assert facts_of({**manifest, "start_from": start}, None)["start_from"] == {**start, "run": "first"}
    assert facts_of(manifest, None)["start_from"] is None
