"""The contribution of each column, part of the past and known column to one forecast, with its lines and picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.data.calendar import earlier_index, seasonal_period
from forecast.data.contract import DataContract
from forecast.model.original_units import Context
from forecast.predict.shapley import PAIRS, shapley

COLUMN, PAST = "column", "past"
"""The two views: whose value it is, and when it was."""

REFERENCE = "reference"
"""Name of the rows with the forecast from a flat past."""

MOST = 12
"""Largest number of columns, or of parts of the past, that are named: the others are one."""

WEEK = 7
"""Seasons before the forecast that are parts of their own, and seasons in one part before them."""

CELLS = 2**22
"""Largest number of values of the look-backs that the model reads at once."""

SHOWN = 6
"""Largest number of parts in a printed line."""

ROUNDING = 1e-6
"""Largest standard error, relative to the largest contribution, that is rounding."""

WORDS = {COLUMN: "by column", PAST: "by part of the past"}


@dataclass(frozen=True)
class Part:
    """Inputs whose contribution is one number: places in the look-back (T, C_in), and known inputs (F,)."""

    name: str
    past: np.ndarray
    known: np.ndarray


@dataclass(frozen=True)
class Explained:
    """A forecast to explain: the `context` of one window, and a model that maps windows to forecasts (B, h, C_out).

    Over a backtest, a panel has a window for each series of an origin, and the model maps any number of such windows.
    The mean over this model and the `others`, whose look-backs are no longer, is explained.
    """

    contract: DataContract
    context: Context
    dates: pd.DatetimeIndex
    forward: Callable[[Context], Tensor]
    others: "tuple[Explained, ...]" = ()

    def table(self, target: str | None = None) -> pd.DataFrame:
        """Return the contributions to the forecast of a target; None: the first.

        The columns are by ("column" or "past"), part, time, contribution and error, the standard error of sampling.
        The rows of one view and time sum to the forecast; those of part "reference" have the forecast from a flat past.
        """
        names = self.contract.targets
        if target is not None and target not in names:
            raise InputError(f"target {target!r}: is not forecast: choose {', '.join(names[:MOST])}")
        place = 0 if target is None else names.index(target)
        return pd.concat(
            [self._view(COLUMN, self.columns(place), place), self._view(PAST, self._past(), place)], ignore_index=True
        )

    def _view(self, view: str, parts: Sequence[Part], target: int) -> pd.DataFrame:
        def game(coalitions: np.ndarray) -> np.ndarray:
            each = [model._values(coalitions, parts, target) for model in (self, *self.others)]
            return np.asarray(np.mean(each, axis=0))

        shares = shapley(game, len(parts), max(4, min(PAIRS, 16 * PAIRS // self.context.past.shape[2])))
        rows = [(REFERENCE, shares.empty, np.zeros_like(shares.empty))]
        rows += [(part.name, *pair) for part, *pair in zip(parts, shares.values, shares.errors, strict=True)]
        return pd.concat(
            pd.DataFrame({"by": view, "part": name, "time": self.dates, "contribution": value, "error": error})
            for name, value, error in rows
        )

    def _values(self, coalitions: np.ndarray, parts: Sequence[Part], target: int) -> np.ndarray:
        """Return the forecasts of a target (B, h) in which the parts of each coalition (B, n) have their values."""
        length = self.context.past.shape[1]
        past = torch.from_numpy(np.stack([part.past[-length:] for part in parts]))
        known = torch.from_numpy(np.stack([part.known for part in parts]))
        several = torch.from_numpy(coalitions).split(max(1, CELLS // self.context.past.numel()))
        with torch.inference_mode():
            values = [self.forward(self._mixed(chosen, past, known))[..., target] for chosen in several]
        return torch.cat(values).double().numpy()

    def _mixed(self, chosen: Tensor, past: Tensor, known: Tensor) -> Context:
        """Return the windows in which the chosen parts (B, n) have their values, and the others the reference."""
        now, calm = self.context, self._reference
        in_past = torch.einsum("bn,ntc->btc", chosen.float(), past.float()) > 0
        in_known = (chosen.float() @ known.float() > 0)[:, None]
        observed = self.context.past_observed
        return Context(
            torch.where(in_past, now.past, calm.past),
            torch.where(in_known, now.past_known, calm.past_known),
            torch.where(in_known, now.future_known, calm.future_known),
            None if observed is None else observed.expand(len(chosen), -1, -1),
        )

    @cached_property
    def _reference(self) -> Context:
        """The window in which every column has its mean over the look-back, and a label its most frequent one."""
        past, known, future, observed = self.context
        seen = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
        mean = (past * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1)
        level = known.mean(1, keepdim=True)
        first = self.contract.layout.first_category
        level[..., first:] = known[..., first:].mode(1, keepdim=True).values
        ahead = level.expand_as(future).clone()
        count = len(self.contract.encoder.past_categories)
        if count:
            ahead[..., -count:] = future[..., -count:]
        return Context(mean.expand_as(past), level.expand_as(known), ahead, observed)

    def _empty(self) -> tuple[np.ndarray, np.ndarray]:
        _, length, channels = self.context.past.shape
        return np.zeros((length, channels), bool), np.zeros(self.context.past_known.shape[2], bool)

    def _known(self) -> list[Part]:
        """Return the calendar, the holidays and each known column as parts."""
        encoder, holidays = self.contract.encoder, self.contract.holidays
        names = ["calendar"] * self.contract.layout.num_calendar
        names += [*encoder.numbers, *(["holidays"] * (0 if holidays is None else len(holidays.columns)))]
        names += [*encoder.categories, *encoder.past_categories]
        past, _ = self._empty()
        return [Part(name, past, np.array([name == other for other in names])) for name in dict.fromkeys(names)]

    def columns(self, target: int) -> list[Part]:
        """Return the target, each other column of the look-back, and each known column as parts."""
        channels = self.contract.channels
        order = [target, *(place for place in range(len(channels)) if place != target)]
        groups = [[place] for place in order[:MOST]]
        if len(order) > MOST:
            groups[-1:] = [order[MOST - 1 :]]
        parts = []
        for group in groups:
            past, known = self._empty()
            past[:, group] = True
            parts.append(Part(channels[group[0]] if len(group) == 1 else f"{len(group)} other columns", past, known))
        return [*parts, *self._known()]

    def _past(self) -> list[Part]:
        """Return each season of the look-back, weeks of seasons before them, and each known column as parts."""
        length, frequency = self.context.past.shape[1], self.contract.frequency
        times = earlier_index(self.dates, frequency, length)
        season = seasonal_period(frequency)
        borders = borders_of(length, season if 1 < season < length else max(1, length // WEEK))
        parts = []
        for start, stop in zip(borders[1:], borders[:-1], strict=True):
            past, known = self._empty()
            past[start:stop] = True
            parts.append(Part(f"{times[start]} to {times[stop - 1]}", past, known))
        return [*parts, *self._known()]


def mean_explained(several: Sequence[Explained]) -> Explained:
    """Return the mean of forecasts of the same steps by several models, to be explained.

    The contributions to a mean are the means of the contributions. The longest look-back has the parts of the past.
    """
    first, *others = sorted(several, key=lambda each: -each.context.past.shape[1])
    inputs = [(each.contract.layout.num_calendar, each.context.past_known.shape[2]) for each in several]
    if len(set(inputs)) > 1:
        raise InputError("the runs of the ensemble have other calendar inputs or holidays: explain one of them")
    return replace(first, others=tuple(others))


def borders_of(length: int, season: int) -> list[int]:
    """Return the falling borders of the parts of a look-back: seasons of the last week, then weeks, the rest as one."""
    borders = [length]
    while borders[-1] > 0:
        count = len(borders) - 1
        size = season if count < WEEK else WEEK * season
        borders.append(0 if count == MOST - 1 else max(0, borders[-1] - size))
    return borders


def sizes(table: pd.DataFrame, view: str) -> pd.DataFrame:
    """Return the mean absolute contribution of each part of a view to a step, and the mean, in the table's order.

    A daily cycle moves the forecast up and down, so that its mean over a day says nothing.
    """
    rows = table[(table["by"] == view) & (table["part"] != REFERENCE)]
    found = rows.assign(size=rows["contribution"].abs()).groupby("part", sort=False)[["size", "contribution"]].mean()
    return found.rename(columns={"contribution": "mean"})


def lines(table: pd.DataFrame, target: str) -> list[str]:
    """Return the forecast and its reference as means over the horizon, and the largest contributions."""
    rows = table[table["by"] == COLUMN]
    calm = rows[rows["part"] == REFERENCE]["contribution"].mean()
    whole = rows.groupby("time")["contribution"].sum().mean()
    times = rows["time"]
    text = [
        f"{target}, {times.min()} to {times.max()}: mean {whole:.5g}; from a flat past {calm:.5g}; "
        f"difference {whole - calm:+.4g}"
    ]
    for view, words in WORDS.items():
        found = sizes(table, view)
        largest = found.sort_values("size", ascending=False, kind="stable").head(SHOWN)
        more = f"; {len(found) - SHOWN} smaller" if len(found) > SHOWN else ""
        named = ", ".join(f"{part} {row['size']:.4g} ({row['mean']:+.4g})" for part, row in largest.iterrows())
        text.append(f"  {words}, mean size of the contribution to a step (its mean): {named}{more}")
    error = table["error"].max()
    is_exact = error <= ROUNDING * table["contribution"].abs().max()
    exact = "exact: every order of the parts gives the same contributions, or all orders were used"
    text.append(f"  {exact if is_exact else f'the standard error of sampling is at most {error:.2g}'}")
    return text


def draw(path: Path, table: pd.DataFrame, title: str) -> None:
    """Write a PNG: the forecast and its reference, and the size of the contribution of each part in both views."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: a forecast draws nothing
    from matplotlib.figure import Figure

    from forecast.common.pictures import plot_line

    both = {view: sizes(table, view)["size"] for view in WORDS}
    height = 2.6 + 0.26 * max(map(len, both.values()))
    figure = Figure(figsize=(11, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=[1.7, height - 2.2])
    top = figure.add_subplot(grid[0, :])
    rows = table[table["by"] == COLUMN]
    calm = rows[rows["part"] == REFERENCE]
    times = pd.DatetimeIndex(calm["time"])
    whole = rows.groupby("time")["contribution"].sum().to_numpy()
    plot_line(top, times, whole, color="tab:orange", linewidth=1.6, label="forecast")
    plot_line(top, times, calm["contribution"].to_numpy(), color="0.45", linewidth=1, label="from a flat past")
    top.legend(fontsize=8, frameon=False)
    for place, (view, found) in enumerate(both.items()):
        panel = figure.add_subplot(grid[1, place])
        seats = np.arange(len(found))[::-1]
        panel.barh(seats, found.to_numpy(), color="tab:orange", height=0.7)
        panel.set_yticks(seats)
        panel.set_yticklabels([str(part) for part in found.index], fontsize=7, parse_math=False)
        panel.set_title(f"mean size of the contribution to a step\n{WORDS[view]}", fontsize=9)
    for panel in figure.axes:
        panel.tick_params(axis="x", labelsize=8)
        panel.tick_params(axis="y", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10, parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
