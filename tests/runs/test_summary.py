"""The end of a run: the table of scores and the lines under it."""

import io
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from forecast.runs.run import Run
from forecast.runs.summary import (
    baseline_warning,
    best_line,
    busy_warning,
    dominant_series,
    interval_line,
    next_line,
    print_closing_lines,
    result_table,
    speed_details,
    speed_line,
    summary,
    warnings,
)
from tests.report.made import BUSY, QUIET, result_of


def row(mse: float, mase: float | None = 0.7, sql: float | None = 0.6) -> dict[str, Any]:
    return {
        "test": {
            "scaled": {"mse": mse, "mae": 0.5},
            "original": {"mse": 100 * mse, "mae": 5.0, "mase": mase},
            "intervals": None if sql is None else {"sql": sql},
        }
    }


def table(naive: dict[str, Any] | None, path: dict[str, Any] | None = None, last: Any = None) -> dict[str, Any]:
    return {
        "config": {"horizon": 96},
        "data": {"name": "etth1", "windows": {"test": 2785}},
        **row(0.25),
        "linear_path": path,
        "baselines": {"last_value": last or row(1.0), "seasonal_naive": naive, "linear": row(0.5)},
    }


def ended(speed: dict[str, Any] | None = None, path: str | None = "a.csv", **model: Any) -> dict[str, Any]:
    """Return the values of a result that the closing lines need."""
    scored = {"validation": {"scaled": {"mse": 1.0}}}
    covered = {"coverage_80": 0.812, "coverage_95": None}
    steps = [{"coverage_80": 0.7512}, {"coverage_80": None}, {"coverage_80": 0.8345}]
    return {
        **scored,
        "test": {"intervals": covered, "by_step": steps},
        "baselines": {"linear": scored},
        "data": {"path": path},
        "model": {"best_step": 93, "steps": 372, **model},
        "speed": speed or {},
        "status": "finished",
    }


def printed(naive: dict[str, Any] | None, path: dict[str, Any] | None = None) -> str:
    return shown(table(naive, path))


def shown(result: dict[str, Any]) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result_table(result))
    return console.export_text()


def line(text: str, name: str) -> list[str]:
    (match,) = [entry for entry in text.splitlines() if name in entry and "│" in entry]
    return match.replace(name, "").replace("│", " ").split()


def test_each_row_has_its_scores_and_its_skill_against_seasonal_naive() -> None:
    text = printed(naive=row(0.5), path=row(0.3))
    assert "2,785 test windows, horizon 96" in text
    assert line(text, "last value") == ["1.0000", "0.5000", "100", "5", "0.700", "0.600", "-100.0%"]
    assert line(text, "seasonal naive")[-1] == "+0.0%"
    assert line(text, "its linear path alone")[0] == "0.3000"
    assert line(text, "model")[-1] == "+50.0%"


def test_the_seasonal_naive_names_its_season_and_a_better_last_value_gets_its_own_skill() -> None:
    """On a random walk the model is no better than the last value, whatever its skill against the season."""
    result = {**table(naive=row(1.06), last=row(0.999)), **row(1.0)}
    result["data"] |= {"season": 24, "frequency": "h"}
    text = shown(result)
    assert "│ seasonal naive (24 h) │" in text
    assert "skill: 1 - MSE / MSE of seasonal naive (24 h); against last value (better here): -0.1%" in text
    assert "better here" not in shown({**result, "baselines": table(naive=row(0.9), last=row(0.999))["baselines"]})


def test_on_noise_the_skill_against_the_mean_of_training_is_shown() -> None:
    """The seasonal naive forecast of white noise has twice its variance: a skill of 50 % is none."""
    result = table(naive=row(2.0), last=row(2.0)) | row(1.0)
    result["baselines"] = {"training_mean": row(1.0), **result["baselines"]}
    assert line(shown(result), "mean of training")[-1] == "+50.0%"
    assert "; against mean of training (better here): +0.0%" in shown(result)


def test_the_caption_has_three_lines() -> None:
    lines = printed(naive=row(0.5), path=row(0.3)).rstrip().splitlines()
    assert [line.split(":")[0].strip() for line in lines[-4:]] == [lines[-4], "MSE, MAE", "SQL", "skill"]
    assert lines[-4].startswith("└")


def many(count: int, dominant: float) -> dict[str, Any]:
    """Return a result of many series, of which the last has the MSE `dominant` and the others 1."""
    series = {f"s{n}": {"mse": 1.0} for n in range(count - 1)} | {"big": {"mse": dominant}}
    naive = {"test": {**row(dominant / 5)["test"], "typical": {"skill": 0.0, "better": 0}}}
    result = table(naive=naive)
    result["test"] |= {"by_series": series, "typical": {"skill": -0.02, "better": 9}}
    result["baselines"]["linear"]["test"]["typical"] = {"skill": 0.1, "better": count}
    return result


def test_the_row_of_many_series_is_not_decided_by_one_of_them() -> None:
    text = shown(many(20, dominant=38.0))
    words = " ".join(text.split())
    assert line(text, "model")[-1] == "-2.0%"
    assert line(text, "linear (ridge)")[-1] == "+10.0%"
    assert (
        "skill: 1 - MSE / MSE of seasonal naive, of the median series; from the mean MSE of the series: +96.7%" in words
    )
    assert "lower MSE than seasonal naive: model in 9 of 20 series; linear (ridge) in 20" in text
    assert "big has 67 % of the model's MSE on z-scores: it dominates the means over the series" in text


@pytest.mark.parametrize(
    ("count", "mse", "name"), [(350, 1.0, None), (350, 200.0, "big"), (3, 5.0, None), (2, 9.0, None)]
)
def test_a_series_that_dominates_is_named(count: int, mse: float, name: str | None) -> None:
    found = dominant_series(many(count, dominant=mse))
    assert (None if found is None else found[0]) == name
    assert dominant_series({"test": {"by_series": {"s": {"mse": None}}}}) is None


def test_large_numbers_are_not_cut_off() -> None:
    result = table(naive=row(5.6699e13), path=row(3.1e22), last=row(1.23456e300))
    result["data"] |= {"season": 24, "frequency": "h"}
    console = Console(width=90, record=True, file=io.StringIO())
    console.print(result_table(result))
    text = console.export_text()
    for number in ("5.6699e+13", "5.6699e+15", "3.1e+24", "1.2346e+302"):
        assert number in text
    assert "…" not in text.replace("seasonal", "")


def test_a_row_without_intervals_has_no_scaled_quantile_loss() -> None:
    assert line(printed(naive=row(0.5, sql=None)), "seasonal naive")[-2] == "none"


def test_targets_that_the_picture_leaves_out_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (7, 9, 300):
        data = {"path": "a.csv", "targets": [f"t{n}" for n in range(number)]}
        print_closing_lines(Run(tmp_path), {**ended(), "data": data})
    lines = [line for line in capsys.readouterr().out.splitlines() if "not drawn" in line]
    assert lines == [
        "forecast.png: the first 7 of 9 targets; not drawn: t7, t8",
        "forecast.png: the first 7 of 300 targets; not drawn: t7, t8, t9, t10, t11 and 288 more",
    ]


def test_five_lines_end_a_run_and_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(Path("outputs/[red]x/2026-01-01_00-00-00_aaaaaa"))
    speed = {"train_windows_per_s": 571.2, "inference_windows_per_s": 1936.0, "peak_memory_mib": 655.0}
    print_closing_lines(run, ended(speed, path=None, mixing_weight=0.15, share_trusted=0.5))
    assert capsys.readouterr().out.splitlines() == [
        "Speed: 571 windows/s in training, 1,936 in inference; peak memory 655 MiB.",
        "Best step 93 of 372. Forecast = 15 % encoder-decoder + 85 % linear path.",
        "On the test split, 80 % intervals cover 81.2 % (75 to 83 % by step).",
        f"Run folder: '{run.path}' (TensorBoard: tensorboard --logdir 'outputs/[red]x')",
        f"Next: python -m forecast.predict --run '{run.path}' --input '{run.path}/input.csv' --output forecast.csv "
        "--levels 80",
    ]


@pytest.mark.parametrize(
    ("scores", "end"),
    [
        ({"coverage_80": 0.8, "coverage_95": 0.95}, "--output forecast.csv --levels 80 95"),
        ({"coverage_80": 0.8, "coverage_95": None}, "--output forecast.csv --levels 80"),
        ({}, "--output forecast.csv"),
    ],
)
def test_the_next_command_asks_for_the_intervals_that_the_run_has(scores: dict[str, Any], end: str) -> None:
    result = {**ended(), "test": {"intervals": scores}}
    assert next_line(Path("outputs/a"), result, Path("outputs/a/input.csv")).endswith(end)


@pytest.mark.parametrize(("ahead", "readers"), [(True, ["model"]), (False, ["model", "linear"]), (False, ["linear"])])
def test_the_next_command_names_the_known_covariates_that_the_table_lacks(ahead: bool, readers: list[str]) -> None:
    data = {"path": "a.csv", "known_covariates": ["temp", "kind", "wind", "sun"], "known_ahead": ahead}
    data["known_readers"] = readers
    ahead = ahead or "model" not in readers
    command, *notes = next_line(
        Path("outputs/a"), {**ended(), "data": data, "config": {"horizon": 12}}, Path()
    ).splitlines()
    assert ("--known forecast-known.csv --output forecast.csv" in command) is not ahead
    note = (
        "forecast-known.csv has temp, kind, wind and 1 more for the 12 steps after the table; without --known the "
        "command writes it, to be filled in"
    )
    assert [line.strip() for line in notes] == ([] if ahead else [note])


@pytest.mark.parametrize(
    ("logger", "is_named"),
    [
        ({"_target_": "forecast.training.tensorboard.logger.Board"}, True),
        ({"_target_": "lightning.pytorch.loggers.TensorBoardLogger"}, True),
        ({"_target_": "lightning.pytorch.loggers.CSVLogger"}, False),
        ({"board": {"_target_": "lightning.pytorch.loggers.TensorBoardLogger"}}, True),
        ({"csv": {"_target_": "lightning.pytorch.loggers.CSVLogger"}}, False),
        ({}, False),
    ],
)
def test_tensorboard_is_named_only_where_its_files_are(
    logger: dict[str, str], is_named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_closing_lines(Run(Path("outputs/a/b")), {**ended(), "config": {"logger": logger}})
    assert ("tensorboard" in capsys.readouterr().out) is is_named


def test_intervals_of_the_windows_that_selected_the_model_say_so_with_their_number() -> None:
    result = {**ended(), "calibration": {"method": "in-sample", "windows": 12}}
    result["data"] = {**result["data"], "windows": {"test": 23}}
    end = "; calibrated on 12 validation windows, which also selected the model; tested on 23 windows."
    assert str(interval_line(result)).endswith(end)
    result["calibration"]["training_windows"] = 31
    end = "on 12 validation windows, which also selected the model, and 31 training windows; tested on 23 windows."
    assert str(interval_line(result)).endswith(end)
    assert interval_line({**ended(), "test": {"intervals": None, "by_step": []}}) is None


def test_a_test_coverage_far_from_its_level_is_a_warning() -> None:
    result = result_of(linear=0.5)
    assert warnings(result) == []
    result["test"]["intervals"] = {"coverage_80": 0.672, "coverage_95": 0.94}
    assert warnings(result) == ["80 % intervals were too narrow on the test split: they covered 67.2 %"]


def test_each_warning_is_a_line_with_a_prefix_however_narrow_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = result_of(linear=0.1, load={"train": BUSY})
    print_closing_lines(Run(Path("outputs/a/b")), result)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("WARNING: ")]
    assert lines == [f"WARNING: {text}" for text in (busy_warning(result["speed"]), baseline_warning(result))]
    assert all(line in summary(result) for line in lines)


def test_an_absent_row_is_none_and_leaves_no_skill() -> None:
    text = printed(naive=None)
    assert line(text, "seasonal naive") == ["none"] * 7
    assert line(text, "last value")[-1] == "none"


def test_a_model_without_a_linear_path_has_no_row_for_it() -> None:
    assert "its linear path alone" not in printed(naive=row(0.5))


@pytest.mark.parametrize(("steps", "said"), [(30, True), (99, True), (100, False)])
def test_few_steps_without_a_gain_prove_nothing(steps: int, said: bool) -> None:
    text = best_line(ended(best_step=0, steps=steps))
    assert (f" {steps} steps are too few to judge a training." in text) is said


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("ridge", "ridge alone"),
        ("60 % ridge + 40 % last value", "60 % ridge + 40 % last value"),
        (None, "the linear path's start"),
    ],
)
def test_the_last_line_says_what_an_untrained_forecast_is(start: str | None, words: str) -> None:
    text = best_line({**ended(best_step=0), "linear_path_start": start})
    assert text.endswith(f" Forecast = {words}.")


def test_a_seasonal_naive_without_error_leaves_no_skill() -> None:
    text = printed(naive=row(0.0))
    assert line(text, "last value")[-1] == "none"
    assert line(text, "last value")[0] == "1.0000"


def test_the_speed_is_one_line_with_units_without_figures_that_were_not_measured() -> None:
    rates = {"train_windows_per_s": 1234.5, "inference_windows_per_s": 4567.0, "peak_memory_mib": 1043.2}
    step = {
        "step_ms_p50": 51.84,
        "step_ms_p95": 60.0,
        "data_wait_share": 0.021,
        "arithmetic_share": 0.934,
        "logging_share": 0.008,
        "flops_per_window": 16_400_000,
    }
    speed = {**rates, **step, "fit_seconds": 30.0}
    assert speed_line(speed) == "1,234 windows/s in training, 4,567 in inference; peak memory 1,043 MiB"
    assert speed_details(speed) == (
        "median step 51.8 ms, 95th percentile 60.0 ms, 2.1 % waiting for data, 93.4 % in forward, backward and update, "
        "logging 0.8 % of the fit, 16,400,000 FLOPs a window"
    )
    for absent in (None, math.nan):  # None: as result.json has it
        short = speed_line({**speed, "train_windows_per_s": absent})
        assert short == "training too short to be timed, 4,567 windows/s in inference; peak memory 1,043 MiB"
        assert ", 93.4" not in speed_details({**speed, "arithmetic_share": absent})  # as on a GPU
        assert speed_line(dict.fromkeys(speed, absent)) == "training too short to be timed"
        assert speed_details(dict.fromkeys(speed, absent)) == ""
    compiled = speed_line({**speed, "compile_seconds": 21.04, "recompiles": 2})
    assert compiled.endswith("; compiled in 21.0 s, 2 recompiles")


def test_a_busy_machine_is_a_warning_with_the_load_of_the_disturbed_stretches() -> None:
    text = busy_warning({**BUSY.figures("train"), **QUIET.figures("inference")})
    assert text == "busy machine, the measured speed is too low: other programs used 0.76 processors in training"
    assert ": other programs used 0.76 processors in inference" in str(busy_warning(BUSY.figures("inference")))
    assert busy_warning({**QUIET.figures("train"), "inference_disturbed": math.nan}) is None


@pytest.mark.parametrize("mase", [None, math.nan])
def test_an_absent_or_undefined_mase_is_none(mase: float | None) -> None:
    older = row(0.5)
    del older["test"]["original"]["mase"]
    text = printed(naive=older, path=row(0.3, mase=mase))
    assert line(text, "its linear path alone")[4] == line(text, "seasonal naive")[4] == "none"


@pytest.mark.parametrize(
    ("mixing_weight", "mixture"),
    [
        (None, ""),
        (0.0, " Forecast = 0 % encoder-decoder + 100 % linear path."),
        (0.145, " Forecast = 14 % encoder-decoder + 86 % linear path."),
        (0.003, " Forecast = <1 % encoder-decoder + >99 % linear path."),
    ],
)
def test_the_best_step_is_printed_with_the_mixture_if_there_is_one(mixing_weight: float | None, mixture: str) -> None:
    assert best_line(ended(mixing_weight=mixing_weight)) == f"Best step 93 of 372.{mixture}"


@pytest.mark.parametrize(
    ("status", "end"),
    [("finished", ""), ("out of time", "training.max_time"), ("stopped early", "early stopping")],
)
def test_the_limit_that_stopped_the_training_is_named(status: str, end: str) -> None:
    stopped = f" (stopped by {end})" if end else ""
    assert best_line({**ended(mixing_weight=None), "status": status}) == f"Best step 93 of 372{stopped}."
    line = best_line({**ended(best_step=0, mixing_weight=0.0), "status": status})
    assert line.startswith(f"Best step 0 of 372{stopped}: training added nothing beyond chance. Forecast = ")


@pytest.mark.parametrize(
    ("naive", "linear", "named"),
    [(0.5, 0.9, "seasonal naive"), (0.8, 0.4, "linear (ridge)"), (1.0, 1.1, None), (0.9999, 1.1, None)],
)
def test_a_baseline_that_is_better_on_validation_is_named_with_both_scores(
    naive: float, linear: float, named: str | None
) -> None:
    def scored(mse: float) -> dict[str, Any]:
        return {"validation": {"scaled": {"mse": mse}}}

    baselines = {"last_value": None, "seasonal_naive": scored(naive), "linear": scored(linear)}
    text = baseline_warning({**scored(1.0), "baselines": baselines})
    if named is None:
        assert text is None
    else:
        assert text is not None
        assert f"{named} is better than the model on validation: MSE {min(naive, linear)} against 1;" in text
