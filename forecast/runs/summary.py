"""The table of scores that a run prints, and its sentences."""

import math
import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table as TerminalTable

from forecast.common.tables import Table, inert
from forecast.common.text import shown
from forecast.common.timing import Load
from forecast.data.calendar import season_name
from forecast.evaluation.metrics import skill
from forecast.evaluation.mixing import percent
from forecast.runs.run import INPUT, PICTURE, Run

NAMES = {
    "model": "model",
    "linear_path": "its linear path alone",
    "last_value": "last value",
    "seasonal_naive": "seasonal naive",
    "linear": "linear (ridge)",
}


HEADINGS = ("forecast", "MSE", "MAE", "MSE (units)", "MAE (units)", "MASE", "skill")
PREFERRED = 1e-3
"""Least relative advantage in MSE of a baseline over the model that causes a warning."""

STRETCHES = {"train": "training", "inference": "inference"}
"""Prefix of the figures of each timed stretch, and its name."""


def title(result: Mapping[str, Any]) -> str:
    """Return the line above the table: the data and the scored windows."""
    windows, every = result["data"]["windows"]["test"], result["data"].get("evaluation_stride", 1)
    scored = f"all {windows:,} test windows" if every == 1 else f"{windows:,} test windows, 1 in {every}"
    return f"{result['data']['name']}: {scored}, horizon {result['config']['horizon']}"


def caption(result: Mapping[str, Any]) -> str:
    """Return the line below the table, with the skill against the last value if that beats the seasonal naive one."""
    rows = result["baselines"]
    said = (
        "MSE, MAE: on z-scores; (units): in original units; MASE: mean absolute error over the seasonal naive one's in "
        f"training; skill: against {row_name('seasonal_naive', result)}, on MSE"
    )
    if rows["last_value"] is None or rows["seasonal_naive"] is None:
        return said
    own, last, naive = (row["test"]["scaled"]["mse"] for row in (result, rows["last_value"], rows["seasonal_naive"]))
    gain = skill(own, last)
    if math.isnan(gain) or not last < naive:
        return said
    return f"{said}; here the last value is the better naive forecast: against it the model's skill is {gain:+.1%}"


def row_name(row: str, result: Mapping[str, Any]) -> str:
    """Return a row's name in the table; the seasonal naive forecast's has the length of its season."""
    data = result["data"]
    if row != "seasonal_naive" or data.get("season") is None or data.get("frequency") is None:
        return NAMES[row]
    return f"{NAMES[row]} ({season_name(data['season'], data['frequency'])})"


def table_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return a row of test scores per forecaster, by `HEADINGS`."""
    rows = {"model": result, "linear_path": result["linear_path"], **result["baselines"]}
    naive = result["baselines"]["seasonal_naive"]
    cells = []
    for name, row in rows.items():
        if row is None:
            cells.append([row_name(name, result), *["none"] * (len(HEADINGS) - 1)])
            continue
        scaled, original = row["test"]["scaled"], row["test"]["original"]
        gain = skill(scaled["mse"], naive["test"]["scaled"]["mse"] if naive else 0.0)
        scores = [f"{scaled['mse']:.4f}", f"{scaled['mae']:.4f}", f"{original['mse']:.5g}", f"{original['mae']:.5g}"]
        mase = original.get("mase")  # None in a file where it is no number
        scores.append("none" if mase is None or math.isnan(mase) else f"{mase:.3f}")
        cells.append([row_name(name, result), *scores, "none" if math.isnan(gain) else f"{gain:+.1%}"])
    return cells


def result_table(result: Mapping[str, Any]) -> TerminalTable:
    """Return the rows as a table for a terminal, the model's bold."""
    table = Table(title(result), HEADINGS, table_rows(result), (caption(result),)).to_terminal()
    table.rows[0].style = "bold"
    return table


def speed_line(speed: Mapping[str, float | None]) -> str:
    """Return the measured speed figures of a result in one line."""
    measured = {name: value for name, value in speed.items() if value is not None and not math.isnan(value)}

    def told(**forms: str) -> list[str]:
        return [form.format(measured[name]) for name, form in forms.items() if name in measured]

    lengths = told(step_ms_p50="step {:.1f} ms", step_ms_p95="p95 {:.1f} ms")
    shares = told(
        data_wait_share="{:.1%} of it waiting for data", arithmetic_share="{:.1%} in forward, backward and update"
    )
    step = "; ".join(", ".join(part) for part in (lengths, shares) if part)
    (training,) = told(train_windows_per_s="{:,.0f} windows/s in training") or ["training too short to be timed"]
    if step:
        training = f"{training} ({step})"
    rates = [training, *told(inference_windows_per_s="{:,.0f} windows/s in inference")]
    figures = [", ".join(rates), *told(peak_memory_mib="peak memory {:,.0f} MiB")]
    if "flops_per_window" in measured:
        figures.append(f"{measured['flops_per_window'] / 1e6:,.1f} MFLOPs a window")
    figures += told(logging_share="logging {:.1%} of the fit")
    if compiled := told(compile_seconds="compiled in {:.1f} s", recompiles="{:,.0f} recompiles"):
        figures.append(", ".join(compiled))
    return "; ".join([*figures, *_busy(speed)])


def _busy(speed: Mapping[str, float | None]) -> list[str]:
    """Return a warning on times taken while other processes used needed processors, if any were."""
    disturbed = [stretch for stretch in STRETCHES if speed.get(f"{stretch}_disturbed") is True]
    words = [f"in {STRETCHES[stretch]} {Load.of(speed, stretch).words}" for stretch in disturbed]
    return [f"busy machine, the times are too long: {'; '.join(words)}"] if words else []


def warning(result: Mapping[str, Any]) -> str | None:
    """Return a warning if a baseline beats the model on the validation part, else None."""
    own = result["validation"]["scaled"]["mse"]
    scores = {name: row["validation"]["scaled"]["mse"] for name, row in result["baselines"].items() if row}
    name = min(scores, key=lambda name: scores[name])
    if not scores[name] < own * (1 - PREFERRED):
        return None
    return (
        f"on validation, {NAMES[name]} is better than the model: MSE {scores[name]:.4g} against {own:.4g}; a model "
        "that does not beat it is not worth its training"
    )


def print_table(result: Mapping[str, Any]) -> None:
    """Print the table, wide enough for any output."""
    Console(width=max(Console().width, 92)).print(result_table(result))


def print_next_commands(run: Run, result: Mapping[str, Any]) -> None:
    """Print the speed, the kept weights, the run folder, and two commands to use it."""
    from forecast.common.pictures import not_drawn  # here, since it imports what draws

    folder = shlex.quote(str(run.path))
    source = shlex.quote(shown(result["data"]["path"] or str(run.path / INPUT)))
    best, steps = result["model"]["best_step"], result["model"]["steps"]
    start = " (the start itself: on validation, training added nothing to it beyond chance)" if best == 0 else ""
    print(f"speed: {speed_line(result['speed'])}")
    print(f"best on validation: step {best:,} of {steps:,}{_mean(result['model'])}{start}; {result['status']}")
    if text := warning(result):
        print(text)
    if text := not_drawn(run.path / PICTURE, result["data"].get("targets", [])):
        print(text)
    print(f"run folder: {folder}")
    print(f"look at it: tensorboard --logdir {shlex.quote(str(run.path.parent))}")
    print(f"forecast:   python -m forecast.predict --run {folder} --input {source} --output forecast.csv")


def _mean(model: Mapping[str, Any]) -> str:
    share, trusted = model.get("share"), model.get("share_trusted")
    if share is None:
        return ""
    said = f", {percent(share)} encoder-decoder, the rest linear path"
    if not share or not trusted:
        return said
    return f"{said} (of the {share / trusted:.0%} that validation likes best {percent(trusted)} is taken)"


def summary(result: Mapping[str, Any]) -> str:
    """Return the command, the data, the result table and the speed of a `result.json`."""
    data, model, speed = result["data"], result["model"], result["speed"]
    windows = ", ".join(f"{count:,} {part}" for part, count in data["windows"].items())
    if (every := data.get("evaluation_stride", 1)) > 1:
        windows += f" (of validation and test 1 in {every})"
    table = Table("", HEADINGS, table_rows(result)).to_markdown()
    lines = [
        f"``{result['command']}``",
        "",
        f"**{data['name']}**: {data['rows']:,} rows of {data['frequency']}, {len(data['targets'])} targets; "
        f"windows: {windows}",
        "",
        f"{title(result)}; {model['parameters']:,} parameters, step {model['best_step']:,} of "
        f"{model['steps']:,} kept; {result['status']}; seed {result['seed']}",
        "",
    ]
    below = [caption(result), "", f"{speed_line(speed)}; {result['device']}"]
    return "\n".join([*map(inert, lines), table, "", *map(inert, below)])
