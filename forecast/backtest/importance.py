"""Which inputs matter over a backtest: the error rises if blocks of one input are exchanged between origins."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from forecast.backtest.scores import LEVEL
from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame
from forecast.common.tables import Table
from forecast.common.text import counted, three_digits
from forecast.data.calendar import season_name, seasonal_period
from forecast.data.scaler import SeriesScaler
from forecast.evaluation.significance import mean_interval
from forecast.model.original_units import Context, stack
from forecast.predict.explanation import Part
from forecast.predict.history import History
from forecast.predict.rolling import Rolling
from forecast.tables.panel import Id

FILE, PICTURE = "importance.csv", "backtest-importance.png"

ORIGINS, REPEATS = 100, 5
"""Largest number of origins, evenly spaced, and exchanges of each input."""

ROUNDING = 1e-6
"""Largest rise, relative to the MAE, that is rounding."""

COLUMNS = ("input", "mae", "exchanged_mae", "rise", "low", "high")


def inputs_that_matter(rolling: Rolling) -> pd.DataFrame:
    """Return how much the MAE rises for each input whose blocks are exchanged, the largest rise first.

    A block is a season of the look-back or of the horizon, counted from the origin. It is exchanged with the block of
    another origin at the same phase of the season, in a panel of the same series; within it the order in time stays.
    So an input keeps its values and its cycle, and loses what it says about this origin. The columns are input, mae,
    exchanged_mae, rise, low and high (the interval of the rise, by origin). Errors of several series are in standard
    deviations of training.

    References
    ----------
    Breiman, "Random forests", Machine Learning 45 (2001), for permuted inputs.
    """
    assert rolling.explained is not None
    chosen = np.unique(np.linspace(0, len(rolling.places) - 1, min(ORIGINS, len(rolling.places))).round().astype(int))
    places, history = [rolling.places[place] for place in chosen], rolling.history
    names, windows = zip(*(rolling.explained(place) for place in places), strict=True)
    season = seasonal_period(history.model.frequency)
    groups = [(place % season, name) for place, own in zip(places, names, strict=True) for name in own]
    donors = _Donors(groups)
    if 2 * donors.with_other.sum() < len(groups):
        cycle = season_name(season, history.model.frequency)
        raise InputError(
            f"--importance: most of {counted(len(places), 'origin')} have no other at the same phase of the season "
            f"({cycle}): choose a --step that is a multiple of it, or more origins"
        )
    parts, whole = windows[0].columns(0), stack(_alike([each.context for each in windows]))
    drawn = [_exchanged(whole, donors, season, np.random.default_rng(seed)) for seed in range(REPEATS)]
    stop, errors = 0, []
    for place, own, each in zip(places, names, windows, strict=True):
        rows = slice(stop, stop := stop + len(own))
        forecasts = _forecasts(each.forward, whole.rows(rows), parts, [one.rows(rows) for one in drawn])
        away = np.abs(forecasts - history.truth(place, own)) / _units(history, own)
        error = np.nanmean(away, axis=(2, 3))[:, donors.with_other[rows]]
        if error.size:
            errors.append(error.mean(1))
    overlap = int((np.searchsorted(places, np.add(places, history.model.horizon)) - np.arange(len(places))).max())
    return _table([part.name for part in parts], np.stack(errors), overlap)


def _units(history: History, names: Sequence[Id]) -> np.ndarray:
    """Return the unit of the errors of series, (S, 1, C) or (C,): 1 for a single one."""
    scaler, count = history.model.scaler, len(history.model.targets)
    if isinstance(scaler, SeriesScaler):
        return scaler.scale[[scaler.names.index(name) for name in names], None, :count]
    return scaler.scale[:count] if count > 1 else np.ones(1)


def _table(names: Sequence[str], errors: np.ndarray, overlap: int) -> pd.DataFrame:
    """Return the table of the errors (N, 1 + P R) of each origin: the model's, then each input's exchanges."""
    mae, exchanged = errors[:, 0], errors[:, 1:].reshape(len(errors), len(names), -1).mean(2)
    rows = []
    for place, name in enumerate(names):
        rise = exchanged[:, place] - mae
        rise[np.abs(rise) <= ROUNDING * mae.mean()] = 0
        interval = mean_interval(rise, overlap, level=LEVEL)
        ends = (np.nan, np.nan) if interval is None else (interval.low, interval.high)
        rows.append((name, mae.mean(), exchanged[:, place].mean(), rise.mean(), *ends))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values("rise", ascending=False, kind="stable", ignore_index=True)


class _Donors:
    """Random exchanges between the windows of a group; `with_other` (W,) says which have another in theirs."""

    def __init__(self, groups: Sequence[object]) -> None:
        _, self.group, count = np.unique([repr(group) for group in groups], return_inverse=True, return_counts=True)
        self.with_other = count[self.group] > 1

    def draw(self, random: np.random.Generator) -> np.ndarray:
        """Return the window (W,) that each window gets a block from: another one of its group."""
        order = np.lexsort([random.random(len(self.group)), self.group])
        first = np.searchsorted(self.group[order], np.arange(self.group.max() + 2))
        following = np.arange(1, len(order) + 1)
        following[first[1:] - 1] = first[:-1]
        found = np.empty(len(order), np.int64)
        found[order] = order[following]
        return found


def _exchanged(whole: Context, donors: _Donors, season: int, random: np.random.Generator) -> Context:
    """Return windows in which each block of all inputs is of another window."""
    length, horizon = whole.past.shape[1], whole.future_known.shape[1]

    def drawn(steps: int) -> np.ndarray:
        blocks = [donors.draw(random) for _ in range(-(-steps // season))]
        return np.repeat(np.stack(blocks, 1), season, 1)

    past, ahead = drawn(length), drawn(horizon)
    before, after = torch.from_numpy(past[:, past.shape[1] - length :]), torch.from_numpy(ahead[:, :horizon])
    steps, later = torch.arange(length), torch.arange(horizon)
    observed = None if whole.past_observed is None else whole.past_observed[before, steps]
    return Context(
        whole.past[before, steps], whole.past_known[before, steps], whole.future_known[after, later], observed
    )


def _alike(windows: Sequence[Context]) -> Sequence[Context]:
    """Return windows that all have a mask if one of them has: a short look-back has, and a whole one has none."""
    if all(window.past_observed is None for window in windows):
        return windows
    return [
        window if window.past_observed is not None else window._replace(past_observed=torch.ones_like(window.past) > 0)
        for window in windows
    ]


def _forecasts(
    forward: Callable[[Context], Tensor], now: Context, parts: Sequence[Part], drawn: Sequence[Context]
) -> np.ndarray:
    """Return the forecasts (1 + P R, S, h, C) of an origin: as they are, and with each exchange of each part."""
    several = [now, *(_mixed(now, other, part) for part in parts for other in drawn)]
    with torch.inference_mode():
        found = forward(stack(several)).double().numpy()
    return found.reshape(len(several), len(now.past), *found.shape[1:])


def _mixed(now: Context, other: Context, part: Part) -> Context:
    """Return the windows with one part of others."""
    past, known = torch.from_numpy(part.past), torch.from_numpy(part.known)
    observed = None
    if now.past_observed is not None:
        assert other.past_observed is not None
        observed = torch.where(past, other.past_observed, now.past_observed)
    return Context(
        torch.where(past, other.past, now.past),
        torch.where(known, other.past_known, now.past_known),
        torch.where(known, other.future_known, now.future_known),
        observed,
    )


def input_sentences(table: pd.DataFrame) -> list[str]:
    """Return what each input is worth, the largest first."""
    found = []
    for row in table.itertuples(index=False, name=None):
        name, (mae, _, *values) = row[0], [float(str(cell)) for cell in row[1:]]
        rise, low, high = (f"{round(100 * value / mae, 1) + 0.0:+.1f}" for value in values)
        if np.isnan(values[1]):
            found.append(f"{name}: exchanged, the MAE changes by {rise} %; too few origins for an interval.")
            continue
        verdict = "matters to this model" if values[1] > 0 else "has no effect that these origins show"
        found.append(f"{name} {verdict}: exchanged, the MAE changes by {rise} % (95 % interval {low} to {high} %).")
    return found


def input_table(table: pd.DataFrame) -> Table:
    """Return the table of the page."""
    cells = [[str(name), *map(three_digits, numbers)] for name, *numbers in table.itertuples(index=False, name=None)]
    notes = [
        f"Blocks of a season, exchanged between at most {ORIGINS} origins, {REPEATS} times; {FILE} has all digits. "
        "What a model learnt by chance matters to it as well: train without an input, and compare."
    ]
    headings = [name.replace("_", " ").replace("mae", "MAE") for name in COLUMNS]
    return Table("Which inputs matter", headings, cells, notes)


def write_inputs(folder: Path, table: pd.DataFrame) -> None:
    """Write the table and its picture into the folder of a backtest."""
    with replacing(folder / FILE) as file:
        write_frame(file, table, index=False)
    with replacing(folder / PICTURE) as file:
        file.write(draw_inputs(table))


def draw_inputs(table: pd.DataFrame) -> bytes:
    """Return a PNG: a bar for each input, with its interval."""
    share = 100 * table[["rise", "low", "high"]].to_numpy() / table[["mae"]].to_numpy()
    figure = Figure(figsize=(9, 1 + 0.3 * len(table)), layout="constrained")
    FigureCanvasAgg(figure)
    panel, seats = figure.subplots(), np.arange(len(table))[::-1]
    panel.barh(seats, share[:, 0], color="tab:orange", height=0.7)
    panel.hlines(seats, share[:, 1], share[:, 2], color="0.2", linewidth=1.2)
    panel.axvline(0, color="0.6", linewidth=0.8)
    panel.set_yticks(seats)
    panel.set_yticklabels(list(table["input"]), fontsize=8, parse_math=False)
    panel.set_xlabel("change of the MAE if the input is exchanged, %, with 95 % interval", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110, metadata={"Software": None})
    return data.getvalue()
