import io
import math

import pytest
import torch

from forecast.common.timing import Load
from forecast.training.callbacks.speed import Timings


def test_the_figures_are_ratios_of_the_sums() -> None:
    timings = Timings([1.0, 2.0, 3.0, 4.0], 400, 8.0, 2.0, 20.0, 0.5, 700.0, 7.5, 2.0, load=Load(8.0, 9.0, 0.5, 6.0))
    assert timings.figures() == {
        "train_windows_per_s": 50.0,
        "step_ms_p50": 2.5,
        "step_ms_p95": pytest.approx(3.85),
        "data_wait_share": 0.25,
        "arithmetic_share": 0.75,
        "peak_memory_mib": 700.0,
        "fit_seconds": 20.0,
        "logging_share": 0.025,
        "train_wall_seconds": 8.0,
        "train_cpu_seconds": 9.0,
        "train_waited_seconds": 0.5,
        "train_other_cpu_seconds": 6.0,
        "train_disturbed": True,
    }


def test_figures_are_nan_without_measurements() -> None:
    assert all(math.isnan(value) for name, value in Timings().figures().items() if name != "fit_seconds")


def test_the_state_survives_a_checkpoint_of_plain_data() -> None:
    timings = Timings([1.5, 2.25], 64, 3.0, 0.5, 4.0, 0.25, 10.0, 2.0, 0.125, load=Load(3.0, 2.5, 0.5, 1.5))
    file = io.BytesIO()
    torch.save(timings.state_dict(), file)
    file.seek(0)
    assert Timings.from_state_dict(torch.load(file, weights_only=True)) == timings


def test_fields_missing_in_an_older_checkpoint_are_nan() -> None:
    state = Timings([1.5, 2.25], 64, 3.0).state_dict()
    del state["arithmetic_seconds"], state["logged_seconds"], state["load"]
    figures = Timings.from_state_dict(state).figures()
    assert math.isnan(figures["arithmetic_share"])
    assert all(math.isnan(figures[f"train_{name}"]) for name in ("cpu_seconds", "other_cpu_seconds", "disturbed"))


def test_the_load_is_unknown_if_an_earlier_start_did_not_measure_it() -> None:
    state = Timings([1.5, 2.25], 64, 3.0).state_dict()
    del state["load"]
    timings = Timings.from_state_dict(state)
    timings.load += Load(1.0, 1.0, 0.0, 0.0)
    assert math.isnan(timings.figures()["train_disturbed"])


def test_only_a_compiled_run_has_compile_figures() -> None:
    figures = Timings(compile_seconds=21.5, recompiles=1).figures()
    assert (figures["compile_seconds"], figures["recompiles"]) == (21.5, 1)
    assert not {"compile_seconds", "recompiles"} & set(Timings().figures())
