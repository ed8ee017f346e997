import io
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from forecast.common.timing import Load
from forecast.runs.run import Run
from forecast.runs.summary import print_next_commands, result_table, speed_line, warning


def row(mse: float, mase: float | None = 0.7) -> dict[str, Any]:
    return {"test": {"scaled": {"mse": mse, "mae": 0.5}, "original": {"mse": 100 * mse, "mae": 5.0, "mase": mase}}}


def table(naive: dict[str, Any] | None, path: dict[str, Any] | None = None, last: Any = None) -> dict[str, Any]:
    return {
        "config": {"horizon": 96},
        "data": {"name": "etth1", "windows": {"test": 2785}},
        **row(0.25),
        "linear_path": path,
        "baselines": {"last_value": last or row(1.0), "seasonal_naive": naive, "linear": row(0.5)},
    }


def printed(naive: dict[str, Any] | None, path: dict[str, Any] | None = None) -> str:
    return shown(table(naive, path))


def shown(result: dict[str, Any]) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result_table(result))
    return console.export_text()


def line(text: str, name: str) -> list[str]:
    found = [entry for entry in text.splitlines() if name in entry and "skill:" not in entry]
    assert len(found) == 1
    return found[0].replace(name, "").replace("│", " ").split()


def test_a_row_has_its_scores_and_its_skill_against_seasonal_naive() -> None:
    text = printed(naive=row(0.5), path=row(0.3))
    assert "2,785 test windows, horizon 96" in text
    assert line(text, "last value") == ["1.0000", "0.5000", "100", "5", "0.700", "-100.0%"]
    assert line(text, "seasonal naive")[-1] == "+0.0%"
    assert line(text, "its linear path alone")[0] == "0.3000"
    assert line(text, "model")[-1] == "+50.0%"


def test_the_season_of_the_naive_forecast_is_named_and_a_better_last_value_gets_its_own_skill() -> None:
    """A walk: the model is no better than its last value, whatever its skill against the season."""
    result = {**table(naive=row(1.06), last=row(0.999)), **row(1.0)}
    result["data"] |= {"season": 24, "frequency": "h"}
    text = " ".join(shown(result).split())
    assert "│ seasonal naive (24 h) │" in text
    assert "skill: against seasonal naive (24 h), on MSE" in text
    assert "here the last value is the better naive forecast: against it the model's skill is -0.1%" in text
    assert "better naive" not in shown({**result, "baselines": table(naive=row(0.9), last=row(0.999))["baselines"]})


def test_targets_that_the_picture_leaves_out_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scored = {"validation": {"scaled": {"mse": 1.0}}}
    model = {"best_step": 93, "steps": 372}
    result = {**scored, "baselines": {"linear": scored}, "model": model, "speed": {}, "status": "finished"}
    for number in (7, 9, 300):
        print_next_commands(
            Run(tmp_path), {**result, "data": {"path": "a.csv", "targets": [f"t{n}" for n in range(number)]}}
        )
    lines = [line for line in capsys.readouterr().out.splitlines() if "not drawn" in line]
    assert lines == [
        "forecast.png: the first 7 of 9 targets; not drawn: t7, t8",
        "forecast.png: the first 7 of 300 targets; not drawn: t7, t8, t9, t10, t11 and 288 more",
    ]


def test_a_row_that_does_not_exist_says_so_and_leaves_no_skill() -> None:
    text = printed(naive=None)
    assert line(text, "seasonal naive") == ["none"] * 6
    assert line(text, "its linear path alone") == ["none"] * 6
    assert line(text, "last value")[-1] == "none"


def test_a_seasonal_naive_without_error_leaves_no_skill_and_stops_nothing() -> None:
    text = printed(naive=row(0.0))
    assert line(text, "last value")[-1] == "none"
    assert line(text, "last value")[0] == "1.0000"


def test_the_speed_is_one_line_with_units_and_what_was_not_measured_is_left_out() -> None:
    speed = {
        "train_windows_per_s": 1234.5,
        "step_ms_p50": 51.84,
        "step_ms_p95": 60.0,
        "data_wait_share": 0.021,
        "arithmetic_share": 0.934,
        "peak_memory_mib": 1043.2,
        "fit_seconds": 30.0,
        "logging_share": 0.008,
        "inference_windows_per_s": 4567.0,
        "flops_per_window": 16_400_000,
    }
    line = speed_line(speed)
    assert "\n" not in line
    for words in (
        "1,234 windows/s",
        "51.8 ms",
        "p95 60.0 ms",
        "2.1% of it",
        "93.4% in",
        "4,567",
        "1,043 MiB",
        "16.4 MFLOPs",
        "0.8%",
    ):
        assert words in line
    step = ("train_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share", "arithmetic_share")
    rest = "4,567 windows/s in inference; peak memory 1,043 MiB; 16.4 MFLOPs a window; logging 0.8% of the fit"
    for absent in (None, math.nan):  # None: as result.json has it
        short = speed_line({**speed, **dict.fromkeys(step, absent)})
        assert short == f"training too short to be timed, {rest}"
        assert "% of it waiting for data), " in speed_line({**speed, "arithmetic_share": absent})  # as on a GPU
        assert speed_line(dict.fromkeys(speed, absent)) == "training too short to be timed"
    assert "compiled" not in line
    assert "busy" not in speed_line(
        {**speed, **Load(20, 39, 0.3, 0.4).figures("train"), "inference_disturbed": math.nan}
    )
    compiled = speed_line({**speed, "compile_seconds": 21.04, "recompiles": 2})
    assert compiled.endswith("; compiled in 21.0 s, 2 recompiles")


def test_a_busy_machine_is_said_with_what_the_others_took() -> None:
    quiet, busy = Load(20, 39, 0.3, 0.4), Load(20, 25, 13, 15)
    line = speed_line({**busy.figures("train"), **quiet.figures("inference")})
    assert line.endswith(
        "; busy machine, the times are too long: in training other processes used 0.75 processors and its threads "
        "waited 0.65 s per second"
    )
    assert "in inference other processes" in speed_line(busy.figures("inference"))


@pytest.mark.parametrize("mase", [None, math.nan])
def test_a_series_that_has_no_mase_says_so_and_an_older_result_is_still_a_table(mase: float | None) -> None:
    older = row(0.5)
    del older["test"]["original"]["mase"]
    text = printed(naive=older, path=row(0.3, mase=mase))
    assert line(text, "its linear path alone")[4] == line(text, "seasonal naive")[4] == "none"


@pytest.mark.parametrize(
    ("share", "trusted", "said"),
    [
        (None, None, ""),
        (0.0, 0.5, ", 0% encoder-decoder, the rest linear path"),
        (0.3, None, ", 30% encoder-decoder, the rest linear path"),  # a run of before: all of it was taken
        (
            *(0.12, 0.2),
            ", 12% encoder-decoder, the rest linear path (of the 60% that validation likes best 20% is taken)",
        ),
        (
            *(0.003, 0.003),
            ", <1% encoder-decoder, the rest linear path (of the 100% that validation likes best <1% is taken)",
        ),
    ],
)
def test_the_weight_of_the_encoder_decoder_is_said_where_there_is_one_and_where_it_is_none(
    share: float | None, trusted: float | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = {"validation": {"scaled": {"mse": 1.0}}}
    result = {
        **scored,
        "baselines": {"linear": scored},
        "data": {"path": "mine.csv"},
        "model": {"best_step": 93, "steps": 372, "share": share, "share_trusted": trusted},
        "speed": {},
        "status": "finished",
    }
    print_next_commands(Run(tmp_path), result)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("best on validation")]
    assert line == f"best on validation: step 93 of 372{said}; finished"


@pytest.mark.parametrize(
    ("naive", "linear", "named"),
    [(0.5, 0.9, "seasonal naive"), (0.8, 0.4, "linear (ridge)"), (1.0, 1.1, None), (0.9999, 1.1, None)],
)
def test_a_baseline_that_validation_prefers_is_named_with_both_scores(
    naive: float, linear: float, named: str | None
) -> None:
    def scored(mse: float) -> dict[str, Any]:
        return {"validation": {"scaled": {"mse": mse}}}

    baselines = {"last_value": None, "seasonal_naive": scored(naive), "linear": scored(linear)}
    text = warning({**scored(1.0), "baselines": baselines})
    if named is None:
        assert text is None
    else:
        assert text is not None
        assert f"{named} is better than the model: MSE {min(naive, linear)} against 1;" in text
