import pytest
import torch
from torch.nn import functional

from forecast.benchmark.case import prepare
from forecast.common.memory import peak_bytes, peak_of_sum
from tests.benchmark.made import CPU, case

PRODUCT = 256 * 1024 * 4


def test_the_peak_is_the_maximum_of_the_running_sum() -> None:
    assert peak_of_sum([100, 50, -100, 40, -90, 60]) == 150
    assert peak_of_sum([-20, 10]) == 0
    assert peak_of_sum([]) == 0


def test_known_cases_take_the_bytes_counted_by_hand() -> None:
    x, y = torch.randn(256, 512), torch.randn(512, 1024)
    assert peak_bytes(lambda: x @ y, CPU) == PRODUCT
    assert peak_bytes(lambda: (x @ y).exp_(), CPU) == PRODUCT
    assert peak_bytes(lambda: (x @ y).exp(), CPU) == 2 * PRODUCT
    # the first product is released before the second is made
    assert peak_bytes(lambda: ((x @ y).sum(), (x @ y).sum()), CPU) == PRODUCT + 4 + 4
    assert peak_bytes(lambda: x.t()[:5].expand(9, 5, 256), CPU) == 0


def test_temporary_memory_of_a_kernel_counts_until_it_is_released() -> None:
    query = torch.randn(1, 2, 512, 16)
    output = query.numel() * 4
    peak = peak_bytes(lambda: functional.scaled_dot_product_attention(query, query, query), CPU)
    assert output < peak < 2 * 512 * 512 * 4  # its blocks of scores are there, the whole scores never


@pytest.mark.parametrize("causal", [False, True])
def test_the_explicit_softmax_holds_its_scores_and_the_fused_one_does_not(causal: bool) -> None:
    scores = 2 * 512 * 512 * 4
    peaks = {}
    for word in ("full:implementation=explicit", "full:implementation=fused"):
        made = case(word, length=512, causal=causal)
        inputs, gradient = made.shape.draw(CPU, torch.float32)
        peaks[word] = peak_bytes(prepare(made.build(), inputs, gradient), CPU)
    explicit, fused = peaks.values()
    assert explicit >= 2 * scores
    assert causal or explicit == 2 * scores
    assert fused < scores / 2


def test_the_mean_takes_its_output_and_a_few_rows_a_head() -> None:
    made = case("mean", length=512)
    inputs, gradient = made.shape.draw(CPU, torch.float32)
    row = 2 * 8 * 4
    assert peak_bytes(prepare(made.build(), inputs, gradient), CPU) <= (512 + 3) * row


def test_gradients_are_part_of_the_pass() -> None:
    made = case("mean", length=512, backward=True)
    inputs, gradient = made.shape.draw(CPU, torch.float32)
    run = prepare(made.build(), inputs, gradient)
    _, (_, _, of_value) = run()
    assert peak_bytes(run, CPU) >= of_value.untyped_storage().nbytes()


def test_on_a_gpu_the_peak_is_counted_from_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: log.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1700)
    assert peak_bytes(lambda: log.append("run"), torch.device("cuda")) == 700
    assert log == ["wait", "reset", "run", "wait"]


@pytest.mark.gpu
def test_known_cases_on_a_gpu() -> None:
    device = torch.device("cuda")
    x, y = torch.randn(256, 512, device=device), torch.randn(512, 1024, device=device)
    x @ y  # the library's own workspace comes with the first product
    assert peak_bytes(lambda: x @ y, device) == PRODUCT
    assert peak_bytes(lambda: (x @ y).exp_(), device) == PRODUCT
    assert peak_bytes(lambda: (x @ y).exp(), device) == 2 * PRODUCT
