"""Inputs whose future is known: numbers, booleans, categories and holidays, encoded for the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from forecast.common.errors import InputError
from forecast.common.text import is_plain
from forecast.data.calendar import calendar_features
from forecast.data.holidays import Holidays, Places
from forecast.data.scaler import LARGEST
from forecast.tables.labels import EMPTY
from forecast.tables.roles import KNOWN
from forecast.tables.series import Rows, Series

Labels = Mapping[str, Sequence[str]]
"""Labels of each categorical column: the cell n of its column stands for `labels[column][n]`."""

MOST_LABELS = 256
"""Largest number of labels of a categorical column: more are the names of things, not categories."""

SHOWN = 40
"""Largest number of characters of a label in a note."""

MOST_FEATURES = 2048
"""Largest number of known inputs that a linear model reads at once; its fit is cubic in it."""

MOST_PRODUCTS = 2**26
"""Largest number of products of the past or the horizon with known inputs, over all targets: 512 MiB in float64."""

UNSEEN = "not seen in training"
"""Words of a note on labels that training does not have."""

SEASONS = 7
"""Seasons before the forecast in which linear models read known covariates: a week of hours."""


@dataclass(frozen=True)
class KnownLayout:
    """The columns of the known inputs, in order, and the stretch of them that linear models read.

    Attributes
    ----------
    num_calendar
        Calendar features.
    num_dense
        Known covariates that are numbers: z-scores, or 0 and 1.
    categories, past_categories
        Number of values of each categorical column, known and past, with 0 for *unknown*. The future of a past
        column is always unknown.
    look_back
        Steps before the forecast whose known covariates linear models read; None: they read no known covariates.
    """

    num_calendar: int = 0
    num_dense: int = 0
    categories: tuple[int, ...] = ()
    past_categories: tuple[int, ...] = ()
    look_back: int | None = None

    @property
    def width(self) -> int:
        """Number of columns F."""
        return self.first_category + len(self.categories) + len(self.past_categories)

    @property
    def first_category(self) -> int:
        """Place of the first categorical column."""
        return self.num_calendar + self.num_dense

    def future(self, known: Tensor) -> Tensor:
        """Return the known inputs of the horizon, (…, F), with *unknown* in the past categories."""
        if not self.past_categories:
            return known
        return functional.pad(known[..., : -len(self.past_categories)], (0, len(self.past_categories)))

    def facts(self) -> dict[str, Any]:
        """Return the layout as plain values, with the names of `forecast.model.presets.Sizes`."""
        return {
            "num_known_covariates": self.num_dense,
            "known_categories": list(self.categories),
            "past_categories": list(self.past_categories),
            "known_look_back": self.look_back,
        }

    def num_features(self, horizon: int) -> int:
        """Return the number of known inputs that a linear model reads, M."""
        if self.look_back is None:
            return 0
        indicators = sum(values - 1 for values in self.categories)
        return self.num_dense * (self.look_back + horizon) + indicators * horizon

    def features(self, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Return the known inputs of a linear model, shape (B, M), from the known inputs (B, T, F) and (B, h, F).

        Numbers are read in the last `look_back` steps and the horizon. Categories are read in the horizon, as one
        indicator per label; an unknown value has none.
        """
        assert self.look_back is not None
        first, last = self.num_calendar, self.first_category
        recent = past_known[:, past_known.shape[1] - self.look_back :, first:last]
        pieces = [torch.cat([recent, future_known[..., first:last]], 1).flatten(1)]
        for place, values in enumerate(self.categories, last):
            indicators = functional.one_hot(future_known[..., place].long(), values)[..., 1:]
            pieces.append(indicators.flatten(1).to(future_known.dtype))
        return torch.cat(pieces, 1)


NO_COVARIATES = KnownLayout()
"""Layout without known covariates, for linear models that read none."""


def choose_look_back(layout: KnownLayout, context_length: int, horizon: int, period: int, targets: int) -> int | None:
    """Return the steps before the forecast whose known covariates linear models read.

    They span `SEASONS` seasons of `period` steps and at least one horizon, inside the context. Fewer are read where
    the inputs would exceed `MOST_FEATURES` or `MOST_PRODUCTS`; None if the horizon alone exceeds them.
    """
    most = min(MOST_FEATURES, MOST_PRODUCTS // (targets * max(context_length, horizon)))
    least = replace(layout, look_back=0).num_features(horizon)
    if not 0 < least <= most:
        return None
    if not layout.num_dense:
        return 0
    wanted = min(context_length, max(horizon, SEASONS * period))
    return min(wanted, (most - least) // layout.num_dense)


@dataclass(frozen=True)
class KnownEncoder:
    """Encoding of the columns that are not channels, fitted on the training rows.

    Attributes
    ----------
    numbers
        Known covariates that are numbers, in order.
    mean, scale
        Mean and standard deviation of `numbers` on the training split, shape (K,); 0 and 1 for booleans.
    categories, past_categories
        Labels of each categorical column, known and past, that training has seen, in order. Value 0 is *unknown*,
        value n is label n - 1.
    """

    numbers: list[str] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    past_categories: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def fit(cls, series: Series, known: Sequence[str], past: Sequence[str], train: Rows) -> "KnownEncoder":
        """Return the encoder of the known covariates and of the categorical past covariates."""
        numbers = [name for name in known if name not in series.labels]
        observed = series.observed_of(numbers, train)
        columns = (series.frame[name].to_numpy(np.float64)[train] for name in numbers)
        statistics = [
            _statistics(name, column if observed is None else column[observed[:, place]])
            for place, (name, column) in enumerate(zip(numbers, columns, strict=True))
        ]
        return cls(
            numbers,
            [mean for mean, _ in statistics],
            [scale for _, scale in statistics],
            {name: _seen(series, name, train) for name in known if name in series.labels},
            {name: _seen(series, name, train) for name in past if name in series.labels},
        )

    @property
    def known(self) -> list[str]:
        """The known covariates that a table must have."""
        return [*self.numbers, *self.categories]

    @property
    def categorical(self) -> list[str]:
        """The categorical columns, the known ones first."""
        return [*self.categories, *self.past_categories]

    @property
    def empty_labels(self) -> list[str]:
        """The categorical columns in which an empty cell is a label."""
        groups = {**self.categories, **self.past_categories}
        return [name for name, labels in groups.items() if EMPTY in labels]

    def layout(self, num_calendar: int, num_holidays: int = 0) -> KnownLayout:
        """Return the layout of the known inputs, without a look-back."""
        known, past = (
            tuple(len(labels) + 1 for labels in group.values()) for group in (self.categories, self.past_categories)
        )
        return KnownLayout(num_calendar, len(self.numbers) + num_holidays, known, past)

    def dense(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the numbers of the rows as z-scores, shape (N, K), float32."""
        values = frame[self.numbers].to_numpy(np.float64)
        scaled: np.ndarray = ((values - np.asarray(self.mean)) / np.asarray(self.scale)).astype(np.float32)
        return scaled

    def numbered(self, frame: pd.DataFrame, labels: Labels, *, past: bool) -> np.ndarray:
        """Return the values of the categorical columns, known or `past`, shape (N, K), float32; 0 is unknown."""
        group = self.past_categories if past else self.categories
        columns = [_renumbered(frame[name], labels[name], seen) for name, seen in group.items()]
        return np.stack(columns, 1).astype(np.float32) if columns else np.empty((len(frame), 0), np.float32)

    def unknown_notes(self, decoded: pd.DataFrame) -> list[str]:
        """Return a note for each categorical column of the rows, labels as text, with labels new to training."""
        notes = []
        for name, seen in {**self.categories, **self.past_categories}.items():
            if name not in decoded.columns:
                continue
            labels = decoded[name].dropna()
            unknown = labels[labels.isin([one for one in labels.unique() if as_in_training(one, seen) not in seen])]
            if len(unknown):
                shown = [repr(label if len(label) <= SHOWN else f"{label[:SHOWN]}…") for label in unknown.unique()]
                listed = ", ".join(shown[:3]) + (" …" if len(shown) > 3 else "")
                values, count = ("1 value", "counts") if len(unknown) == 1 else (f"{len(unknown):,} values", "count")
                trained = ", ".join(map(repr, seen[:5])) + (" …" if len(seen) > 5 else "")
                notes.append(f"{values} of {name!r} {UNSEEN} {count} as unknown: {listed} (training has {trained})")
        return notes

    def check_range(self, frame: pd.DataFrame, source: str) -> None:
        """Raise InputError for numbers so far from training that their squares overflow float32."""
        for name, mean, scale in zip(self.numbers, self.mean, self.scale, strict=True):
            distance = (frame[name].astype(np.float64) - mean).abs().to_numpy() / scale
            if len(distance) and (worst := float(np.nanmax(distance, initial=0.0))) > LARGEST:
                row = int(np.nanargmax(distance))
                raise InputError(
                    f"{source}, column {name!r}, {frame.index[row]}: {frame[name].iloc[row]:g} is {worst:.0e} standard "
                    "deviations of the training split from its mean: correct it"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "KnownEncoder":
        """Return the encoder of a `to_dict` state; raise ValueError for values that no encoder has."""
        encoder = cls(**{name: state[name] for name in cls.__dataclass_fields__})
        lists = (encoder.numbers, encoder.mean, encoder.scale)
        if not all(isinstance(values, list) and len(values) == len(encoder.numbers) for values in lists):
            raise ValueError("the known covariates have other numbers of means or scales")
        numbers = np.asarray([encoder.mean, encoder.scale], dtype=np.float64)
        if not np.isfinite(numbers).all() or not (numbers[1] > 0).all():
            raise ValueError("the scale of the known covariates is not finite or not positive")
        for group in (encoder.categories, encoder.past_categories):
            if not isinstance(group, dict) or not all(_are_names(labels) for labels in group.values()):
                raise ValueError("the labels of a category are not a list of names")
        if not _are_names([*encoder.known, *encoder.past_categories]):
            raise ValueError("a known covariate has no plain name")
        return encoder


def known_inputs(
    index: pd.DatetimeIndex,
    cycles: Sequence[str],
    encoder: KnownEncoder,
    frame: pd.DataFrame,
    labels: Labels,
    holidays: Holidays | None,
    places: Places | None = None,
) -> np.ndarray:
    """Return the known inputs of the rows in the order of `KnownLayout`, shape (N, F), float32.

    `frame` has the encoder's columns at the times `index`, on the clock of training. `places` are those of the rows, if
    the holidays have a column.
    """
    pieces = [calendar_features(index, cycles), encoder.dense(frame)]
    if holidays is not None:
        pieces.append(holidays.features(index, places).astype(np.float32))
    pieces += [encoder.numbered(frame, labels, past=past) for past in (False, True)]
    return np.concatenate(pieces, 1)


def static_features(static: Mapping[str, Sequence[Any]], num_targets: int) -> np.ndarray:
    """Return the static covariates of the targets, shape (C_out, S), float32.

    A covariate with text has one indicator per label; numbers have mean 0 and standard deviation 1 over the targets.
    """
    columns: list[np.ndarray] = []
    for values in static.values():
        if isinstance(values[0], str):
            columns += [np.array([value == label for value in values]) for label in sorted(set(values))]
            continue
        numbers = np.asarray(values, dtype=np.float64)
        columns.append((numbers - numbers.mean()) / (numbers.std() or 1.0))
    return np.stack(columns, 1).astype(np.float32) if columns else np.empty((num_targets, 0), np.float32)


def _statistics(name: str, values: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of a known covariate in training; 0 and 1 for a boolean or a constant."""
    if not len(values):
        raise InputError(f"column {name!r} has no measured value in the training split: leave it out of {KNOWN}")
    if np.isin(values, (0.0, 1.0)).all():
        return 0.0, 1.0
    mean, deviation = float(values.mean()), float(values.std())
    rounding = len(values) * np.finfo(np.float64).eps * abs(mean)  # a constant has a deviation of this size at most
    return mean, deviation if deviation > rounding else 1.0


def _seen(series: Series, name: str, train: Rows) -> list[str]:
    """Return the labels of a categorical column in the training rows, sorted."""
    codes = series.frame[name].to_numpy()[train]
    labels = sorted({series.labels[name][int(code)] for code in np.unique(codes)})
    if len(labels) > MOST_LABELS:
        raise InputError(
            f"column {name!r} has {len(labels):,} different labels in training, at most {MOST_LABELS} are allowed: "
            "group them, or leave the column out"
        )
    return labels


def as_in_training(label: str, seen: Sequence[str]) -> str:
    """Return the label, or the only one of training that a table may have turned into it.

    A table may read 01 as the number 1, 1.10 as 1.1, and a column of true and false alone as booleans.
    """
    if label in seen:
        return label
    read = _as_read(label)
    alike = [other for other in seen if _as_read(other) == read]
    return alike[0] if len(alike) == 1 else label


@lru_cache(4096)
def _as_read(label: str) -> str:
    """Return the text that is the same for all labels which a table may read as the same number or boolean."""
    whole, _, decimals = label.removeprefix("-").partition(".")
    if whole.isdecimal() and (decimals.isdecimal() or not decimals):  # a pattern would be quadratic in the zeros
        return f"{'-' * label.startswith('-')}{whole.lstrip('0') or '0'}.{decimals.rstrip('0')}"
    return label.lower() if label.lower() in ("true", "false") else label


def _renumbered(codes: pd.Series, labels: Sequence[str], seen: Sequence[str]) -> np.ndarray:
    """Return the values of a column: 1 + place in `seen`, or 0 for a label that is not there or an empty cell."""
    place = {label: number for number, label in enumerate(seen, 1)}
    known = (place.get(as_in_training(label, seen), 0) for label in labels)
    table = np.array([*known, 0], dtype=np.int64)  # an empty cell takes the last
    cells = codes.to_numpy(np.float64)
    return np.asarray(table[np.where(np.isnan(cells), len(labels), cells).astype(np.int64)])


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) and is_plain(name) for name in names)
