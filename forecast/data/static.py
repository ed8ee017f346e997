"""Static covariates of the series of a panel: which columns are inputs, and their values for the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from forecast.common.errors import InputError
from forecast.data.known import MOST_LABELS, KnownEncoder

FURTHEST = 10.0
"""Largest distance of a static number from its mean in training, in standard deviations: a larger one is read as it."""

MOST_SERIES = 1_000_000
"""Largest number of series whose ids can be inputs."""


@dataclass(frozen=True)
class Static:
    """The static inputs of the series of a panel.

    Parameters
    ----------
    encoder
        Encoding of the static covariates: numbers and categories.
    num_ids
        Number of series of training whose ids are inputs; 0: ids are none.
    """

    encoder: KnownEncoder = field(default_factory=KnownEncoder)
    num_ids: int = 0

    @property
    def columns(self) -> list[str]:
        """The static covariates that are inputs."""
        return self.encoder.known

    @property
    def sizes(self) -> dict[str, Any]:
        """The kinds of the inputs, with the names of `forecast.model.presets.Sizes`."""
        counts = [len(labels) + 1 for labels in self.encoder.categories.values()]
        ids = [self.num_ids + 1] if self.num_ids else []
        return {"static_numbers": len(self.encoder.numbers), "static_categories": [*counts, *ids]}

    def inputs(self, table: pd.DataFrame, codes: np.ndarray) -> np.ndarray | None:
        """Return the inputs of series, shape (S, K), float32: numbers, categories and the id; None without any.

        `table` (S, …) has their static covariates and may lack columns. A missing number is the mean, and a missing
        label or one that training did not have is *unknown*, 0. `codes` (S,) are the places of the series in training,
        -1 for a new one, whose id is unknown.
        """
        if not self.columns and not self.num_ids:
            return None
        table, encoder = table.reindex(columns=self.columns), self.encoder
        numbers = np.clip(encoder.dense(table), -FURTHEST, FURTHEST)
        frame, labels = pd.DataFrame(index=table.index), {}
        for name in encoder.categories:
            places, values = pd.factorize(table[name])
            frame[name], labels[name] = np.where(places < 0, np.nan, places.astype(np.float64)), list(map(str, values))
        ids = (codes[:, None] + 1).astype(np.float32) if self.num_ids else np.empty((len(codes), 0), np.float32)
        return np.concatenate([np.nan_to_num(numbers), encoder.numbered(frame, labels, past=False), ids], 1)

    def to_dict(self) -> dict[str, Any] | None:
        """Return the state as plain values; None without any input."""
        return {**self.encoder.to_dict(), "ids": self.num_ids} if self.columns or self.num_ids else None

    @classmethod
    def from_dict(cls, state: Mapping[str, Any] | None) -> "Static":
        """Return the inputs of a `to_dict` state; raise ValueError for values that none have."""
        return cls() if state is None else cls(KnownEncoder.from_dict(state), int(state["ids"]))


def fit_static(table: pd.DataFrame, *, named: bool) -> tuple[KnownEncoder, list[str]]:
    """Return the encoding of the static covariates (S, K) of the series of training, and notes.

    A column that all series share says nothing, and one with too many labels names its series: both are left out, or
    refused if the user `named` the columns.
    """
    useless = {name: reason for name in table if (reason := _useless(table[name])) is not None}
    if useless and named:
        name, reason = next(iter(useless.items()))
        raise InputError(f"data.static_covariates: {name!r} {reason}: leave it out")
    used = table.drop(columns=list(useless))
    numbers = [str(name) for name in used if is_numeric_dtype(used[name].dtype)]
    values = used[numbers].to_numpy(np.float64)
    mean, scale = np.nanmean(values, 0), np.nanstd(values, 0)
    labels = {str(name): sorted(used[name].dropna().unique()) for name in used if name not in numbers}
    read = f"constant within each series, read as static covariates: {', '.join(map(repr, map(str, used)))}"
    left_out = [f"constant within each series, and not read: {name!r} {reason}" for name, reason in useless.items()]
    notes = [*([read] if len(used.columns) else []), *left_out]
    return KnownEncoder(numbers, mean.tolist(), scale.tolist(), labels), notes


def _useless(column: pd.Series) -> str | None:
    """Return why a static covariate is no input, as the end of a sentence; None if it is one."""
    values = column.dropna().unique()
    if len(values) < (2 if is_numeric_dtype(column.dtype) or column.notna().all() else 1):
        return "is the same in all series"
    if not is_numeric_dtype(column.dtype) and len(values) > MOST_LABELS:
        return f"has {len(values):,} different labels, more than {MOST_LABELS}"
    return None
