"""The end of a run, printed and on TensorBoard: the table of scores, and a few lines under it."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from forecast.common.files import look_up
from forecast.common.tables import Table, inert
from forecast.common.targets import TARGET, loggers_of
from forecast.common.text import counted, shown, three_digits
from forecast.common.timing import Load
from forecast.data.calendar import season_name
from forecast.evaluation.achievable import achieved_line
from forecast.evaluation.baselines import EVERY, REQUESTED
from forecast.evaluation.coverage import calibrating_windows, coverage_facts, worst
from forecast.evaluation.holdout import IN_SAMPLE
from forecast.evaluation.interval_scores import LEVELS
from forecast.evaluation.metrics import PREFERRED, skill
from forecast.evaluation.significance import FEWEST
from forecast.runs.results import is_on_all_windows, start_name
from forecast.runs.run import INPUT, PICTURE, Run

NAMES = {
    "model": "model",
    "linear_path": "its linear path alone",
    **{name: baseline.title for name, baseline in EVERY.items()},
}

HEADINGS = ("forecast", "MSE", "MAE", "MSE (units)", "MAE (units)", "MASE", "SQL", "skill")

FEW_STEPS = 100
"""Number of steps below which a training without a gain is no evidence against the model."""

STRETCHES = {"train": "training", "inference": "inference"}
"""Prefix of the figures of each timed stretch, and its name."""

STEPS, TIME, EARLY = "finished", "out of time", "stopped early"
"""Status of a run, the reason for its end: the last step, `training.max_time`, or a callback."""

ENDS = {STEPS: "", TIME: " (stopped by training.max_time)", EARLY: " (stopped by early stopping)"}
"""Addition to the best step, by the status of the run."""


TEMPLATE = "forecast-known.csv"
"""File that predict writes if the output is forecast.csv and known covariates are missing."""

NAMED = 3
"""Largest number of known covariates that a line names."""

NO_TEST = "no test split: these windows selected the weights, so new data will have larger errors"
"""Note below scores of the validation split."""


def title(result: Mapping[str, Any]) -> str:
    """Return the line above the table: the data and the scored windows."""
    windows, stride = result["data"]["windows"]["test"], result["data"].get("evaluation_stride", 1)
    split = scored_split(result)
    scored = f"all {windows:,} {split} windows" if stride == 1 else f"{windows:,} {split} windows, 1 in {stride}"
    return f"{result['data']['name']}: {scored}, horizon {result['config']['horizon']}"


def scored_split(result: Mapping[str, Any]) -> str:
    """Return the split whose scores are shown: test, or validation if `data.split.test` is 0."""
    return str(look_up(result, "data.scored_split") or "test")


def notes(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lines below the table: the scores, the skill, what was known ahead, and the achievable skill."""
    no_test = [] if scored_split(result) == "test" else [NO_TEST]
    reached = [achieved_line(result["diagnostic"])] if "diagnostic" in result else []
    more = filter(None, (readers_note(result), foresight_note(result)))
    return (*no_test, *_score_notes(result), *_mean_notes(result), *_series_notes(result), *more, *reached)


NAIVE_THERE = "test.seasonal_naive_there.scaled.mse"
"""MSE of the seasonal naive forecast on the windows of a row that has fewer than its result."""


def _mean_notes(result: Mapping[str, Any]) -> list[str]:
    """Return what the mean of the model and each baseline on request would give, on the windows of that row."""
    lines = []
    for name in REQUESTED:
        row = result["baselines"].get(name)
        mean = look_up(row, "test.mean_with_model.scaled.mse")
        if row is None or mean is None:
            continue
        there = look_up(row, "test.model_there.scaled.mse") or result["test"]["scaled"]["mse"]
        own = row["test"]["scaled"]["mse"]
        lines.append(
            f"mean of the model and {baseline_name(name, row)}: MSE {_score(mean)} (model {_score(there)}, "
            f"{NAMES[name]} {_score(own)}); no forecast uses it"
        )
    return lines


def baseline_name(name: str, scores: Mapping[str, Any]) -> str:
    """Return the title of a baseline, with the number of windows if it was scored on fewer than its result."""
    windows = look_up(scores, "windows.test")
    return NAMES[name] if windows is None else f"{NAMES[name]}, {counted(windows, 'window')}"


READERS = {"model": "the model", "linear_path": "its linear path", "linear": "the ridge", "trees": "the trees"}
"""Rows that can read known covariates, by their names in a line."""


def readers_note(result: Mapping[str, Any]) -> str | None:
    """Return a line on the rows that read the known covariates; None without any, or if the run does not say."""
    readers, names = look_up(result, "data.known_readers"), result["data"].get("known_covariates") or []
    if readers is None or not names:
        return None
    listed = first_names(names, NAMED)
    absent = {"linear_path"} if result["linear_path"] is None else set()
    absent |= {"trees"} - set(result["baselines"])
    rows = {row: name for row, name in READERS.items() if row not in absent}
    reading, left = ([name for row, name in rows.items() if (row in readers) is is_read] for is_read in (True, False))
    unneeded = "" if "model" in readers else "; a forecast does not need them"
    if not reading:
        return f"known covariates ({listed}): no row reads them{unneeded}"
    others = f", not by {' and '.join(left)}" if left else ""
    return f"known covariates ({listed}): read by {' and '.join(reading)}{others}{unneeded}"


def first_names(names: Sequence[str], most: int) -> str:
    """Return at most so many of the names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def foresight_note(result: Mapping[str, Any]) -> str | None:
    """Return a line on known covariates that were measured, not forecast; None if there are none."""
    names = result["data"].get("perfect_foresight", [])
    return f"perfect foresight of {', '.join(names)}: measured values, not forecasts of them" if names else None


DOMINANT = 0.25
"""Share of the MSE from which one of many series is named; of few, three times an equal share."""


def dominant_series(result: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the series with the most of the test MSE on z-scores and its share, if it decides the mean; else None."""
    series = result["test"].get("by_series") or {}
    errors = {name: row["mse"] for name, row in series.items() if row.get("mse") is not None}
    errors = {name: mse for name, mse in errors.items() if math.isfinite(mse)}
    if not errors or not (total := sum(errors.values())) > 0:
        return None
    name = max(errors, key=lambda name: errors[name])
    share = errors[name] / total
    return (name, share) if share >= max(DOMINANT, 3 / len(errors)) else None


def typical_skill(row: Mapping[str, Any]) -> float | None:
    """Return the skill of the median series of a forecaster; None if few series were scored."""
    value = look_up(row, "test.typical.skill")
    return None if value is None else float(value)


def _series_notes(result: Mapping[str, Any]) -> list[str]:
    """Return how many of many series beat the seasonal naive forecast, and the series that dominates, if any."""
    lines = []
    if (better := look_up(result, "test.typical.better")) is not None:
        rows = {"model": result, **result["baselines"]}
        won = {
            name: look_up(row, "test.typical.better") for name, row in rows.items() if name != "seasonal_naive" and row
        }
        others = ", ".join(
            f"{NAMES[name]} in {count:,}" for name, count in won.items() if name != "model" and count is not None
        )
        count = result["data"].get("series") or len(result["test"].get("by_series") or result["data"]["targets"])
        lines.append(f"lower MSE than {NAMES['seasonal_naive']}: model in {better:,} of {count:,} series; {others}")
    if worst := result["test"].get("worst_series"):
        named = ", ".join(f"{name} {three_digits(row['mase'])}" for name, row in worst.items())
        lines.append(f"largest MASE of the model: {named}")
    if (dominant := dominant_series(result)) is not None:
        name, share = dominant
        lines.append(
            f"{name} has {100 * share:.0f} % of the model's MSE on z-scores: it dominates the means over the series"
        )
    return lines


def _score_notes(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what the scores and the skill mean, also against a simpler row that beats the seasonal naive."""
    scores = "MSE, MAE: z-scores; (units): original units; MASE: MAE / in-sample seasonal naive MAE"
    sql = "SQL: scaled quantile loss of each row's calibrated intervals, like MASE for nine quantiles"
    skills = f"skill: 1 - MSE / MSE of {row_name('seasonal_naive', result)}"
    if typical_skill(result) is not None:
        pooled = skill(result["test"]["scaled"]["mse"], result["baselines"]["seasonal_naive"]["test"]["scaled"]["mse"])
        return scores, sql, f"{skills}, of the median series; from the mean MSE of the series: {pooled:+.1%}"
    rows = {"model": result, **result["baselines"]}
    mse = {name: row["test"]["scaled"]["mse"] for name, row in rows.items() if row is not None}
    simpler = [name for name in ("training_mean", "last_value") if name in mse]
    if not simpler or "seasonal_naive" not in mse:
        return scores, sql, skills
    best = min(simpler, key=lambda name: mse[name])
    gain = skill(mse["model"], mse[best])
    if math.isnan(gain) or not mse[best] < mse["seasonal_naive"]:
        return scores, sql, skills
    return scores, sql, f"{skills}; against {NAMES[best]} (better here): {gain:+.1%}"


def row_name(row: str, result: Mapping[str, Any]) -> str:
    """Return a row's name in the table: with the length of the season, and with the number of an ensemble's models."""
    if row == "model" and "alone" in result:
        return f"mean of {len(result['alone'])} models"
    data = result["data"]
    if row in READERS and is_without_known(row, result):
        return f"{NAMES[row]}, without known columns"
    if row in REQUESTED:
        return baseline_name(row, result["baselines"][row])
    if row != "seasonal_naive" or data.get("season") is None or data.get("frequency") is None:
        return NAMES[row]
    return f"{NAMES[row]} ({season_name(data['season'], data['frequency'])})"


def is_without_known(row: str, result: Mapping[str, Any]) -> bool:
    """Return whether the result has known covariates, and this row does not read them."""
    readers = look_up(result, "data.known_readers")
    return readers is not None and bool(result["data"].get("known_covariates")) and row not in readers


def table_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return a row of test scores per forecaster, by `HEADINGS`; none for a linear path that the model lacks."""
    path = {} if result["linear_path"] is None else {"linear_path": result["linear_path"]}
    rows = {"model": result, **path, **result["baselines"]}
    naive = result["baselines"]["seasonal_naive"]
    cells = []
    for name, row in rows.items():
        if row is None:
            cells.append([row_name(name, result), *["none"] * (len(HEADINGS) - 1)])
            continue
        scaled, original = row["test"]["scaled"], row["test"]["original"]
        reference = look_up(row, NAIVE_THERE) or (naive["test"]["scaled"]["mse"] if naive else 0.0)
        pooled = skill(scaled["mse"], reference)
        gain = pooled if typical_skill(result) is None or (own := typical_skill(row)) is None else own
        scores = [_score(scaled["mse"]), _score(scaled["mae"]), f"{original['mse']:.5g}", f"{original['mae']:.5g}"]
        mase = original.get("mase")  # None in a file where it is no number
        sql = look_up(row, "test.intervals.sql")
        scores += ["none" if value is None or math.isnan(value) else f"{value:.3f}" for value in (mase, sql)]
        cells.append([row_name(name, result), *scores, "none" if math.isnan(gain) else f"{gain:+.1%}"])
    return cells


def _score(value: float) -> str:
    """Format a score on z-scores with four decimals, from a million on with five digits."""
    return f"{value:.4f}" if value < 1e6 else f"{value:.5g}"


def result_table(result: Mapping[str, Any]) -> TerminalTable:
    """Return the rows as a table for a terminal, the model's bold."""
    table = Table(title(result), HEADINGS, table_rows(result), notes(result)).to_terminal()
    table.rows[0].style = "bold"
    return table


def speed_line(speed: Mapping[str, float | None]) -> str:
    """Return throughput, peak memory, and the compilation if there was one."""
    training = _figures(speed, train_windows_per_s="{:,.0f} windows/s in training")
    unit = "" if training else " windows/s"
    inference = _figures(speed, inference_windows_per_s=f"{{:,.0f}}{unit} in inference")
    rates = [*(training or ["training too short to be timed"]), *inference]
    memory = _figures(speed, peak_memory_mib="peak memory {:,.0f} MiB")
    compilation = _figures(speed, compile_seconds="compiled in {:.1f} s", recompiles="{:,.0f} recompiles")
    return "; ".join(", ".join(figures) for figures in (rates, memory, compilation) if figures)


def speed_details(speed: Mapping[str, float | None]) -> str:
    """Return the time of a step and how it is spent, empty if nothing was measured."""
    return ", ".join(
        _figures(
            speed,
            step_ms_p50="median step {:,.1f} ms",
            step_ms_p95="95th percentile {:,.1f} ms",
            data_wait_share="{:.1%} waiting for data",
            arithmetic_share="{:.1%} in forward, backward and update",
            logging_share="logging {:.1%} of the fit",
            flops_per_window="{:,.0f} FLOPs a window",
        )
    )


def _figures(speed: Mapping[str, float | None], **forms: str) -> list[str]:
    """Return the text of each figure that was measured."""
    values = {name: speed.get(name) for name in forms}
    measured = {name: value for name, value in values.items() if value is not None and not math.isnan(value)}
    return [forms[name].format(value).replace("%", " %") for name, value in measured.items()]


def best_line(result: Mapping[str, Any]) -> str:
    """Return the best step, what ended the training, and the mixture of the forecast."""
    best, steps, mixing_weight = (result["model"].get(key) for key in ("best_step", "steps", "mixing_weight"))
    line = f"Best step {best:,} of {steps:,}{ENDS.get(result['status'], '')}"
    if best == 0 and not can_count(result):
        blocks = f"{result['model']['validation_blocks']} of {FEWEST} blocks needed"
        cure = "training.start_confidence=null lets any better score count"
        why = f"validation is too short to accept trained weights ({blocks})"
        return f"{line}: {why}; {cure}. {_start_alone(result)}"
    start = result.get("start_from")
    mixture = "" if mixing_weight is None else f" {_mixture(mixing_weight)}"
    few = f" {steps} steps are too few to judge a training." if steps < FEW_STEPS else ""
    if best == 0 and start and mixing_weight != 0:
        return f"{line}: no step is better than {start_name(start)}.{few}{mixture}"
    if best == 0:
        return f"{line}: training added nothing beyond chance.{few} {_start_alone(result)}"
    return f"{line}.{mixture}"


def _mixture(mixing_weight: float) -> str:
    """Return what a mixed forecast is made of."""
    percent = f"{100 * mixing_weight:.0f}", f"{100 - 100 * mixing_weight:.0f}"
    model, path = ("<1", ">99") if 0 < mixing_weight < 0.005 else percent  # a positive weight is never printed as 0
    return f"Forecast = {model} % encoder-decoder + {path} % linear path."


def _start_alone(result: Mapping[str, Any]) -> str:
    """Return what a forecast without training is made of."""
    if result.get("start_from") and (mixing_weight := look_up(result, "model.mixing_weight")):
        return _mixture(mixing_weight)
    start = result.get("linear_path_start")
    if start is None:
        return "Forecast = the linear path's start."
    return f"Forecast = {start}{'' if '+' in start else ' alone'}."


def can_count(result: Mapping[str, Any]) -> bool:
    """Return whether validation has enough blocks of windows to accept a training; True if nothing is known of it."""
    blocks = look_up(result, "model.validation_blocks")
    return blocks is None or blocks >= FEWEST


def interval_line(result: Mapping[str, Any]) -> str | None:
    """Return what the intervals cover on the scored split, and what may be wrong with them; None without any."""
    split = scored_split(result)
    scores, by_step = result["test"].get("intervals") or {}, result["test"].get("by_step", [])
    held_out = result["validation"].get("intervals") if split != "test" else None
    if held_out is not None:  # the windows of the scored split calibrated the intervals
        scores, by_step = held_out, []
    texts = []
    for percent in LEVELS:
        coverage = scores.get(f"coverage_{percent}")
        if coverage is None:
            continue
        steps = [step.get(f"coverage_{percent}") for step in by_step]
        known = [100 * step for step in steps if step is not None]
        span = f" ({min(known):.0f} to {max(known):.0f} % by step)" if known else ""
        texts.append(f"{percent} % intervals cover {100 * coverage:.1f} %{span}")
    if not texts:
        return None
    calibration, note = result.get("calibration", {}), ""
    if calibration.get("method") == IN_SAMPLE:
        tested = f"; tested on {counted(result['data']['windows']['test'], 'window')}" if split == "test" else ""
        note = f"; calibrated on {calibrating_windows(calibration)}{tested}"
    start = f"On the {split} split" if held_out is None else f"On held-out windows of the {split} split"
    return f"{start}, {', '.join(texts)}{note}."


def warnings(result: Mapping[str, Any]) -> list[str]:
    """Return the warnings on a run: its data, a busy machine, a better baseline, and a coverage unlike its level."""
    coverages = [coverage.warning for coverage in worst([coverage_facts(result)], LEVELS)]
    data = look_up(result, "data.warnings") or []
    texts = [*data, busy_warning(result["speed"]), baseline_warning(result), *coverages]
    return [text for text in texts if text is not None]


def busy_warning(speed: Mapping[str, float | None]) -> str | None:
    """Return a warning if other processes took processors that a timed stretch needed, else None."""
    disturbed = [stretch for stretch in STRETCHES if Load.is_disturbed(speed, stretch)]
    loads = " and ".join(
        f"{Load.of(speed, stretch).others:.2f} processors in {STRETCHES[stretch]}" for stretch in disturbed
    )
    return f"busy machine, the measured speed is too low: other programs used {loads}" if loads else None


def baseline_warning(result: Mapping[str, Any]) -> str | None:
    """Return a warning if a baseline beats the model on the validation split, else None."""
    model = result["validation"]["scaled"]["mse"]
    scores = {
        name: row["validation"]["scaled"]["mse"]
        for name, row in result["baselines"].items()
        if row and is_on_all_windows(row)
    }
    name = min(scores, key=lambda name: scores[name])
    if not scores[name] < model * (1 - PREFERRED):
        return None
    return (
        f"{NAMES[name]} is better than the model on validation: MSE {scores[name]:.4g} against {model:.4g}; a model "
        "that does not beat it is not worth its training"
    )


def print_table(result: Mapping[str, Any]) -> None:
    """Print the table, wide enough for any output."""
    Console(width=max(Console().width, 100)).print(result_table(result))


def print_closing_lines(run: Run, result: Mapping[str, Any]) -> None:
    """Print the speed, the best step, the warnings, the run folder and the next command."""
    from forecast.common.pictures import not_drawn  # here, since it imports what draws

    folder, parent = shlex.quote(str(run.path)), shlex.quote(str(run.path.parent))
    print(f"Speed: {speed_line(result['speed'])}.")
    print(best_line(result))
    if intervals := interval_line(result):
        print(intervals)
    for text in warnings(result):
        Console(soft_wrap=True).print(Text(f"WARNING: {text}", "bold yellow"))
    if note := not_drawn(run.path / PICTURE, result["data"].get("targets", [])):
        print(note)
    board = f" (TensorBoard: tensorboard --logdir {parent})" if writes_board(look_up(result, "config.logger")) else ""
    print(f"Run folder: {folder}{board}")
    print(next_line(run.path, result, run.path / INPUT))


def writes_board(logger: Mapping[str, Any] | None) -> bool:
    """Return whether a `logger` group writes files for TensorBoard; an empty one writes none, None is the default."""
    names = [str(node.get(TARGET)).rpartition(".")[2] for node in loggers_of(logger or {}).values()]
    return logger is None or not {"Board", "TensorBoardLogger"}.isdisjoint(names)


def next_line(folder: Path, result: Mapping[str, Any], table: Path) -> str:
    """Return the command that forecasts with the model in `folder`; its input is `table` if training read no file.

    If that input lacks the known covariates of the horizon, a second line says which file they belong in.
    """
    scores = result["test"].get("intervals") or {}
    levels = [str(percent) for percent in LEVELS if scores.get(f"coverage_{percent}") is not None]
    data = result["data"]
    options = ["--run", str(folder), "--input", shown(data["path"] or str(table))]
    is_read = "model" in data.get("known_readers", ["model"])
    lacks_known = data["path"] is not None and data.get("known_ahead") is False and is_read
    options += ["--known", TEMPLATE] if lacks_known else []
    options += ["--output", "forecast.csv", *(["--levels", *levels] if levels else [])]
    line = f"Next: {shlex.join(['python', '-m', 'forecast.predict', *options])}"
    if not lacks_known:
        return line
    names = first_names(data["known_covariates"], NAMED)
    return (
        f"{line}\n      {TEMPLATE} has {names} for the {result['config']['horizon']} steps after the table; "
        "without --known the command writes it, to be filled in"
    )


def summary(result: Mapping[str, Any]) -> str:
    """Return, as Markdown, the command, the data, the table and the lines under it."""
    data, speed = result["data"], result["speed"]
    windows = ", ".join(f"{count:,} {split}" for split, count in data["windows"].items())
    if (stride := data.get("evaluation_stride", 1)) > 1:
        windows += f" (1 in {stride} of validation and test)"
    above = [
        f"``{result['command']}``",
        f"**{data['name']}**: {data['rows']:,} rows (frequency {data['frequency']}), {len(data['targets'])} targets; "
        f"windows: {windows}",
        f"{title(result)}; {result['model']['parameters']:,} parameters; seed {result['seed']}; {result['device']}; "
        f"start: {start_name(result.get('start_from'))}",
    ]
    table = Table("", HEADINGS, table_rows(result), notes(result)).to_markdown()
    below = [
        f"Speed: {speed_line(speed)}.",
        f"{details[:1].upper()}{details[1:]}." if (details := speed_details(speed)) else "",
        best_line(result),
        interval_line(result) or "",
        *(f"WARNING: {text}" for text in warnings(result)),
    ]
    return "\n\n".join([*map(inert, above), table, *map(inert, filter(None, below))])
