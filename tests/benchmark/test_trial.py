import sys
from dataclasses import replace

import pytest
import torch

from forecast.attention._parsing import parse
from forecast.benchmark import trial as module
from forecast.benchmark.models import Task, parse_preset
from forecast.benchmark.trial import Ask, Trial, limit_cuda, try_here
from forecast.common.memory import peak_memory_mib
from tests.benchmark.made import CPU

GIB = 2**30
ASK = Ask(
    preset=parse_preset("patch_informer:patch_length=1,level=window,linear_path=false,d_model=8,num_heads=2,d_ff=16"),
    variant=parse("probsparse:factor=3"),
    task=Task(context_length=32, horizon=4, batch=2, channels=1),
    precision="fp32",
    device="cpu",
    memory_bytes=64 * GIB,
)


def test_what_is_asked_comes_back_from_text_as_it_was() -> None:
    assert Ask.from_json(ASK.to_json()) == ASK


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_that_fits_says_what_it_took(precision: str) -> None:
    trial = try_here(replace(ASK, precision=precision))
    assert trial.fits
    assert trial.look_back == 32
    assert trial.peak_bytes is not None
    assert 0 < trial.peak_bytes <= peak_memory_mib(CPU) * 2**20
    assert trial.seconds is not None
    assert trial.seconds > 0


def test_a_step_that_passed_the_memory_does_not_fit() -> None:
    trial = try_here(replace(ASK, memory_bytes=2**20))
    assert not trial.fits
    assert trial.why.startswith("memory: took ")


def test_a_mechanism_that_refuses_says_so() -> None:
    preset = parse_preset("informer:start_length=0,d_model=8,num_heads=2,d_ff=16")
    trial = try_here(replace(ASK, preset=preset, variant=parse("linformer")))
    assert trial == Trial(32, why=trial.why)
    assert trial.why.startswith("refused: attention=linformer cannot be causal")


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory"), MemoryError()]
)
def test_a_device_without_memory_is_a_trial_that_failed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "training_step", fail)
    assert try_here(ASK).why.startswith("memory: ")


def test_any_other_error_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(module, "training_step", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        try_here(ASK)


def test_a_gpu_is_given_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    class Properties:
        total_memory = 80 * GIB

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, device: given.append(share))
    limit_cuda(20 * GIB, torch.device("cuda"))
    limit_cuda(90 * GIB, torch.device("cuda"))
    assert given == [0.25, 1.0]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_process_is_limited_in_what_it_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, values: asked.append((kind, values)))
    module.limit_process(GIB)
    assert asked == [(resource.RLIMIT_DATA, (GIB, resource.getrlimit(resource.RLIMIT_DATA)[1]))]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_runs_out_of_its_share_and_goes_on() -> None:
    device = torch.device("cuda")
    ask = replace(ASK, device="cuda", variant=parse("full:implementation=explicit"), memory_bytes=GIB)
    limit_cuda(GIB, device)
    try:
        assert try_here(replace(ask, task=replace(ask.task, context_length=16_384))).why.startswith("memory: ")
        assert try_here(ask).fits
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
