from pathlib import Path

import pytest
import torch

from forecast.common import devices
from forecast.common.cpu import has_amx
from forecast.common.errors import InputError
from forecast.runs import settings as precision
from forecast.runs.settings import choose_precision, exact_convolutions

CPU = torch.device("cpu")


def test_convolutions_are_exact_after_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    exact_convolutions()
    assert torch.backends.cudnn.allow_tf32 is False


@pytest.mark.parametrize("wanted", ["32-true", "bf16-mixed"])
def test_an_explicit_precision_is_used_on_every_device(wanted: str) -> None:
    assert choose_precision(wanted, CPU, 64) == wanted
    assert choose_precision(wanted, torch.device("cuda"), 64) == wanted


@pytest.mark.parametrize("wanted", ["16-mixed", "bf16", "32", "", "AUTO"])
def test_an_unknown_precision_is_refused_with_the_choices(wanted: str) -> None:
    with pytest.raises(InputError, match="choose auto, 32-true or bf16-mixed"):
        choose_precision(wanted, CPU, 64)


@pytest.mark.parametrize(
    ("flags", "fast"), [("fpu avx512_bf16 amx_bf16 amx_tile", True), ("fpu avx512_bf16 avx2", False), ("", False)]
)
def test_only_a_cpu_with_matrix_units_is_fast_in_bf16(tmp_path: Path, flags: str, fast: bool) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert has_amx(file) is fast


def test_a_cpu_without_known_flags_is_not_fast_in_bf16(tmp_path: Path) -> None:
    assert has_amx(tmp_path / "none") is False


def test_auto_always_chooses_the_same_valid_precision() -> None:
    (chosen,) = {choose_precision("auto", CPU, 512) for _ in range(3)}
    assert chosen in precision.PRECISIONS
    assert choose_precision("auto", torch.device("meta"), 512) == "32-true"


@pytest.mark.parametrize(
    ("width", "units", "chosen"),
    [
        (255, True, "32-true"),
        ("wide", True, "32-true"),
        (None, True, "32-true"),
        (256, True, "bf16-mixed"),
        (512, True, "bf16-mixed"),
        (512, False, "32-true"),
    ],
)
def test_on_a_cpu_a_narrow_model_does_not_gain_from_bf16(
    width: object, units: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_bfloat16_units", lambda _: units)
    assert choose_precision("auto", CPU, width) == chosen


def test_a_gpu_with_bf16_uses_it_at_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_bfloat16_units", lambda _: True)
    assert choose_precision("auto", torch.device("cuda"), 16) == "bf16-mixed"
