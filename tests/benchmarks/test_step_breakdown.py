import pytest
import torch
from torch import nn

from benchmarks.step import breakdown, kind_of
from tests.benchmark.made import CPU


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "products"),
        ("aten::mkldnn_convolution", "products"),
        ("aten::convolution_backward", "products"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "products"),
        ("aten::_fused_adamw_", "optimizer"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("aten::copy_", "rest"),
        ("aten::native_layer_norm", "rest"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "rest"),
    ],
)
def test_the_kind_of_an_operation_follows_from_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_breakdown_lists_the_slowest_operation_first() -> None:
    layer = nn.Linear(512, 512)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    inputs = torch.randn(1024, 512)

    def run() -> None:
        layer(inputs).sum().backward()
        optimizer.step()

    run()
    operations = breakdown(run, CPU)
    by_name = {operation.name: operation for operation in operations}
    assert operations[0].kind == "products"
    assert by_name["aten::addmm"].calls == 1
    assert by_name["aten::_fused_adamw_"].kind == "optimizer"
    assert [operation.seconds for operation in operations] == sorted((o.seconds for o in operations), reverse=True)
    assert len(by_name) == len(operations)
