import pytest
import torch

from benchmarks import step as module
from benchmarks.models import Task, build_ours, our_peer, parse_preset
from benchmarks.step import (
    OUTSIDE,
    Operation,
    StepFigures,
    encoder_rows,
    layer_product_rate,
    measure_step,
    operation_rows,
    operation_tables,
)
from forecast.attention._parsing import parse
from forecast.common.timing import Spread
from forecast.training.steps import training_step
from tests.benchmark.made import CPU

TASK = Task(context_length=24, horizon=6, batch=2, channels=3)
PRESET = parse_preset("informer:start_length=0,d_model=16,num_heads=2,d_ff=32")


def constant(seconds: float) -> Spread:
    return Spread.of([seconds])


FIGURES = StepFigures(
    step=constant(2.0), forward=constant(0.5), backward=constant(1.0), update=constant(0.5), operations=600,
    products=(1000.0, 750.0),
)  # fmt: skip


def test_the_fraction_uses_the_higher_limit_and_separates_the_optimizer() -> None:
    assert FIGURES.product_rate == 1000
    assert FIGURES.share == pytest.approx(0.3)
    assert FIGURES.share_without_update == pytest.approx(0.4)
    assert FIGURES.update_share == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("word", "rows"),
    [
        ("informer:start_length=0,d_model=16,num_heads=2,d_ff=32", 2 * 24),
        ("patch_informer:patch_length=6,d_model=16,num_heads=2,d_ff=32", 2 * 3 * 4),
    ],
)
def test_the_limit_uses_the_number_of_encoder_tokens(word: str, rows: int) -> None:
    network = build_ours(parse_preset(word), parse("mean"), TASK)
    step = training_step(our_peer(network, TASK.draw(CPU)), "fp32")
    assert encoder_rows(network, step) == rows
    assert not network.encoder._forward_pre_hooks


def test_the_limit_is_the_fastest_product_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []

    def rate(*arguments: object) -> float:
        calls.append(arguments)
        return float(len(calls))

    monkeypatch.setattr(module, "product_rate", rate)
    assert layer_product_rate(PRESET, 48, "bf16", CPU) == 3
    assert calls == [(48, *shape, CPU, torch.bfloat16) for shape in ((16, 16), (16, 32), (32, 16))]


def test_a_step_and_its_parts_have_the_requested_repetitions() -> None:
    network = build_ours(PRESET, parse("full"), TASK)
    peer = our_peer(network, TASK.draw(CPU))
    figures, step = measure_step(network, peer, PRESET, "fp32", repetitions=3)
    parts = (figures.step, figures.forward, figures.backward, figures.update)
    assert {part.repetitions for part in parts} == {3}
    assert all(part.shortest > 0 for part in parts)
    assert figures.operations > 0
    assert all(parameter.grad is None for parameter in network.parameters())
    step()


def test_operations_and_the_time_outside_add_up_to_the_step() -> None:
    operations = [Operation("aten::mm", "products", 3, 1.0), Operation("aten::copy_", "rest", 2, 0.5)]
    rows = operation_rows(TASK, "fp32", [*operations, Operation("aten::view", "rest", 9, 0.0)], 2.0)
    assert [(row["operation"], row["share_of_step"]) for row in rows] == [
        ("aten::mm", 0.5), ("aten::copy_", 0.25), (OUTSIDE, 0.25),
    ]  # fmt: skip
    (table,) = operation_tables(rows, top=1)
    assert [cells[0] for cells in table.cells] == ["aten::mm"]
    assert table.notes[0].startswith("total: products 50.0 %, optimizer 0.0 %, rest 50.0 %")
    assert all(row["operation"] != OUTSIDE for row in operation_rows(TASK, "fp32", operations, 1.2))
