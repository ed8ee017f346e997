"""The scaled windows of a checked series on the training device."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import lightning
import numpy as np
import pandas as pd
import torch

from forecast.common.errors import InputError
from forecast.common.group import ALONE
from forecast.common.text import counted
from forecast.data.batches import ShuffledBatches
from forecast.data.calendar import calendar_cycles, seasonal_period, span_of
from forecast.data.contract import DataContract
from forecast.data.holidays import Places
from forecast.data.known import (
    KnownEncoder,
    KnownLayout,
    choose_look_back,
    known_inputs,
    static_features,
)
from forecast.data.mapped import Address, Recipe
from forecast.data.scaler import Scaler, SeriesScaler, check_spikes
from forecast.data.sources import Source
from forecast.data.split import split_rows
from forecast.data.static import Static
from forecast.data.storage import IN_MEMORY, Placed, Placing, place
from forecast.data.target_copies import MOST_COMPARED, check_copies, check_parts
from forecast.data.training_range import TrainingRange
from forecast.data.windows import Batch, Windows, causal_starts, check_measured, start_rows
from forecast.tables.labels import decode_labels
from forecast.tables.reading import Reading
from forecast.tables.sentinels import sentinel_warnings
from forecast.tables.series import Rows, Series
from forecast.tables.times.clock import Clock


def _measured(series: Series, names: Sequence[str], rows: slice) -> pd.DataFrame:
    """Return columns as numbers, NaN where a value was filled; a label that is no number is NaN too."""
    labels = decode_labels(series.frame.iloc[rows][list(names)], series.labels)
    numbers = {name: pd.to_numeric(labels[name], errors="coerce") for name in names}
    frame = pd.DataFrame(numbers, index=labels.index, copy=False)
    observed = series.observed_of(names, rows)
    return frame if observed is None else frame.where(observed)


def training_targets(
    rows: range, first_origin: int | None, context_length: int, horizon: int, unit: str = "row"
) -> range:
    """Return the target rows of the training split, from `first_origin` on if it is set.

    With the same first origin, runs with different look-backs train on the same targets. `unit` is what a message calls
    a row: the rows of a long table are not its steps.
    """
    if first_origin is None:
        return rows
    name = f"training.first_origin={first_origin}"
    if first_origin < context_length:
        raise InputError(
            f"{name}: a look-back of {context_length} steps has no window before {unit} {context_length}: set at least "
            f"{context_length}, or null for the first possible {unit}"
        )
    if first_origin + horizon > rows.stop:
        raise InputError(
            f"{name}: the training split ends with {unit} {rows.stop - 1}: set at most {rows.stop - horizon}, "
            f"{counted(horizon, unit)} before its end"
        )
    return range(first_origin, rows.stop)


def check_stride(stride: int, horizon: int) -> None:
    """Raise InputError for a stride that leaves rows between the windows unscored.

    The last window is always scored; up to `stride` - 1 rows before the first window are not targets.
    """
    if not 1 <= stride <= horizon:
        raise InputError(
            f"training.evaluation_stride={stride}: must be from 1 (every window) to the horizon, {horizon}: a larger "
            "stride never scores the rows between two windows"
        )


class EvaluationBatches:
    """Every window of a split once, in order, or the windows at the positions `share`."""

    def __init__(self, windows: Windows, batch_size: int, share: range | None = None) -> None:
        self.windows = windows
        self.batch_size = batch_size
        self.share = range(len(windows)) if share is None else share

    def __len__(self) -> int:
        return -(-len(self.share) // self.batch_size)

    def __iter__(self) -> "Any":
        return self.windows.batches(self.batch_size, self.share)


class ForecastData(lightning.LightningDataModule):
    """The training, validation and test windows of one series, scaled.

    Parameters
    ----------
    source
        The series and its roles.
    split
        `train`, `validation`, `test`, as `split_rows` takes them.
    context_length, horizon
        T and h, in steps.
    batch_size, evaluation_batch_size
        Windows per batch: of all processes together in training, of each process otherwise.
    evaluation_stride
        Keep every n-th validation and test window, counted back from the last.
    first_origin
        Row, or step of a panel, of the first training target; None: the first possible one.
    seed
        Seed of the training order.
    placing
        Where the scaled table may be stored.

    Attributes
    ----------
    warnings
        What is probably wrong with the values of the table.
    left_out
        Number of windows of each split that are dropped because a fill in their context depends on the future.
    group
        The processes that share the windows of a loop; set before a fit, like the steps.
    static_inputs
        The static inputs of the series of a panel.
    by_series
        Whether each series of a panel is drawn equally often in training, not each window.
    is_one_series
        Whether the rows before a window are of its series, so that earlier errors may say something about it.
    least_context
        Fewest rows before a window; None: a whole look-back.
    """

    static_inputs = Static()
    by_series = False
    is_one_series = True
    least_context: int | None = None

    def __init__(
        self,
        source: Source,
        split: Mapping[str, float | int],
        *,
        context_length: int,
        horizon: int,
        batch_size: int,
        evaluation_batch_size: int,
        seed: int,
        evaluation_stride: int = 1,
        first_origin: int | None = None,
        placing: Placing = IN_MEMORY,
        encoder: KnownEncoder | None = None,
    ) -> None:
        super().__init__()
        for name, value in [
            ("context_length", context_length),
            ("horizon", horizon),
            ("training.batch_size", batch_size),
            ("training.evaluation_batch_size", evaluation_batch_size),
        ]:
            if value < 1:
                raise InputError(f"{name} {value}: must be at least 1")
        check_stride(evaluation_stride, horizon)
        self.source, self.seed = source, seed
        self.evaluation_stride = evaluation_stride
        self.batch_size, self.evaluation_batch_size = batch_size, evaluation_batch_size
        self.total_steps = self.first_step = 0
        self.group = ALONE
        self.index, raw = pd.DatetimeIndex(source.series.frame.index), source.series.values(source.columns)
        self.split = split_rows(source.series.num_steps, **split, unit=source.series.unit)
        train = self.train_rows = self._train_rows()
        self.scaler: Scaler | SeriesScaler = self._fit_scaler(raw, train)
        self.cycles = self._choose_cycles(train)
        self.encoder = self._fit_encoder(train, horizon, encoder)
        self.layout = self._choose_layout(context_length, horizon)
        self.warnings = sentinel_warnings(source.series, [*source.columns, *self.encoder.numbers])
        placed = place(self._recipes(raw), placing)
        self.placement, self._file = placed.placement, placed.file
        least, unit = self.least_context or context_length, source.series.unit
        first = training_targets(self.split.train, first_origin, least, horizon, unit)
        self._cut_parts(self._table(placed, context_length, horizon), vars(self.split) | {"train": first})

    def _train_rows(self) -> Rows:
        return slice(self.split.train.start, self.split.train.stop)

    def training_values(self, names: Sequence[str]) -> np.ndarray:
        """Return these columns in the training rows, (N, C), original units; those of a stored table stay in a file."""
        return self.source.series.values(names)[self.train_rows]

    def _fit_scaler(self, raw: np.ndarray, train: Rows) -> Scaler | SeriesScaler:
        """Return the scaler of the training rows; check them for spikes and all rows for their range."""
        columns = self.source.columns
        measured, values = self.source.series.observed_of(columns, train), self.training_values(columns)
        check_spikes(values, self.index[train], columns, measured)
        scaler = Scaler.fit(values, columns, measured)
        scaler.check_range(raw, self.index)
        return scaler

    def _choose_cycles(self, train: Rows) -> tuple[str, ...]:
        """Return the user's calendar cycles, or the cycles that the training rows show."""
        if self.source.cycles is not None:
            return self.source.cycles
        frequency = self.source.series.frequency
        return calendar_cycles(frequency, span_of(self.index[train], frequency))

    def _fit_encoder(self, train: Rows, horizon: int, given: KnownEncoder | None) -> KnownEncoder:
        """Return the encoding of the covariates, `given` or fitted on the training rows; refuse a copy of a target."""
        source, series, frame = self.source, self.source.series, self.source.series.frame
        numbers = [name for name in source.roles.known if name not in series.labels]
        check_spikes(self.training_values(numbers), self.index[train], numbers, series.observed_of(numbers, train))
        self._parts_notes: list[str] = []
        encoder = given or KnownEncoder.fit(series, source.roles.known, source.roles.past, train)
        if encoder.known:
            last = self._compared_rows()
            roles = encoder.known, source.targets, source.columns[len(source.targets) :]
            compared, targets, others = (_measured(series, names, last) for names in roles)
            check_copies(compared, targets, horizon)
            self._parts_notes = check_parts(compared, targets, others, horizon)
        encoder.check_range(frame, "the table")
        return encoder

    def _compared_rows(self) -> slice:
        """Return consecutive rows of the training split, in which copies of a target are looked for."""
        stop = self.split.train.stop
        return slice(max(self.split.train.start, stop - MOST_COMPARED), stop)

    def _choose_layout(self, context_length: int, horizon: int) -> KnownLayout:
        holidays = self.source.holidays
        layout = self.encoder.layout(2 * len(self.cycles), 0 if holidays is None else len(holidays.columns))
        period = seasonal_period(self.source.series.frequency)
        look_back = choose_look_back(layout, context_length, horizon, period, len(self.source.targets))
        return replace(layout, look_back=look_back)

    def _constant_notes(self) -> list[str]:
        """Return a note for each target with a single value in training: its intervals may have no width."""
        series, rows = self.source.series, self.train_rows
        notes = []
        for name in self.source.targets:
            values, observed = series.frame[name].to_numpy()[rows], series.observed_of([name], rows)
            seen = values if observed is None else values[observed[:, 0]]
            if len(seen) and seen.min() == seen.max():
                notes.append(f"{name!r} is {seen[0]:g} in all training rows: no MASE, and intervals may have no width")
        return notes

    def _linear_notes(self) -> list[str]:
        """Return a note if there are known covariates, but too many for the linear models."""
        inputs = replace(self.layout, look_back=0).num_features(self.parts["train"].horizon)
        if not inputs or self.layout.look_back is not None:
            return []
        return [f"the linear models read no known covariates: {inputs:,} inputs over the horizon are too many for them"]

    def _known(self, piece: slice) -> np.ndarray:
        """Return the known inputs of some rows, (N, F), float32."""
        series = self.source.series
        frame = series.frame.iloc[piece]
        holidays, places = self.source.holidays, self._places(piece)
        return known_inputs(self.index[piece], self.cycles, self.encoder, frame, series.labels, holidays, places)

    def _places(self, piece: slice) -> Places | None:
        """Return the places of some rows whose holidays are inputs; None: all rows have the same."""
        return None

    def _table(self, placed: Placed, context_length: int, horizon: int) -> Windows:
        """Return the windows of the whole table, without starts."""
        values, known, *observed = placed.tensors
        return Windows(
            values=values,
            known=known,
            starts=torch.empty(0, dtype=torch.int64),
            context_length=context_length,
            horizon=horizon,
            num_targets=len(self.source.targets),
            layout=self.layout,
            observed=observed[0] if observed else None,
            past_masked=self.source.series.policies.masks_past,
            mapped_for=None if placed.file is None else torch.device("cpu"),
        )

    def _cut_parts(self, table: Windows, targets: Mapping[str, range]) -> None:
        """Choose the windows of each split by its target rows. Without a test split, those of validation are scored."""
        self.parts: dict[str, Windows] = {}
        self.left_out: dict[str, int] = {}
        for part, rows in targets.items():
            if part == "test" and not rows:
                self.parts[part], self.left_out[part] = self.parts["validation"], self.left_out["validation"]
                continue
            self.parts[part], self.left_out[part] = self._cut(table, rows, part)

    def _scaled(self, raw: np.ndarray, piece: slice) -> np.ndarray:
        """Return the z-scores of some rows, (N, C_in)."""
        assert isinstance(self.scaler, Scaler)
        return self.scaler.transform(raw[piece])

    def stride_of(self, part: str) -> int:
        """Return how many steps lie between the origins of a scored split."""
        return self.evaluation_stride

    def original(self, values: np.ndarray, batch: Batch) -> np.ndarray:
        """Return original units, float64, of z-scores (B, n, C) of the first C targets of a batch."""
        assert isinstance(self.scaler, Scaler)
        return self.scaler.inverse(values, self.source.targets[: values.shape[-1]])

    def _recipes(self, raw: np.ndarray) -> list[Recipe]:
        """Return the recipes of the table: z-scores, known inputs and, if values were filled, their mask."""
        series, columns, rows = self.source.series, self.source.columns, len(raw)
        recipes = [
            Recipe(rows, len(columns), np.float32, lambda piece: self._scaled(raw, piece)),
            Recipe(rows, self.layout.width, np.float32, self._known),
        ]
        if series.observed is not None:
            observed = series.observed_of
            recipes.append(Recipe(rows, len(columns), np.bool_, lambda piece: np.asarray(observed(columns, piece))))
        return recipes

    def _cut(self, table: Windows, targets: range, part: str) -> tuple[Windows, int]:
        """Return the windows of a split, and how many were dropped."""
        starts = start_rows(targets, table.context_length, table.horizon, part=part)
        if self.source.origins is not None:
            starts = starts[np.isin(starts.numpy() + table.context_length, self.source.origins)]
            if len(starts) == 0:
                raise InputError(
                    f"data.windows: too few for a {part} split: raise it, or give the split a larger share"
                )
        step = 1 if part == "train" else self.evaluation_stride
        if table.observed is None:
            return replace(table, starts=starts).every(step), 0
        kept = starts
        if self.source.series.policies.reads_past_gaps:
            kept = causal_starts(starts, table.context_length, table.observed, part=part)
        windows = replace(table, starts=kept).every(step)
        check_measured(windows, self.source.targets, part=part)
        return windows, len(starts) - len(kept)

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the input, one line each."""
        series = self.source.series
        unknown = self.encoder.unknown_notes(decode_labels(series.frame[list(series.labels)], series.labels))
        notes = (*series.notes, *self._constant_notes(), *unknown, *self._parts_notes, *self._linear_notes())
        if not any(self.left_out.values()):
            return notes
        counts = ", ".join(f"{count:,} {part}" for part, count in self.left_out.items())
        return (*notes, f"windows left out because their context ends in a gap: {counts}")

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes of a model for this data, with the names of `forecast.model.presets.Sizes`."""
        windows = self.parts["train"]
        return {
            "num_targets": windows.num_targets,
            "num_past_covariates": windows.values.shape[1] - windows.num_targets,
            "num_known": windows.known.shape[1],
            **self.layout.facts(),
            "num_static": self.static.shape[1],
            "context_length": windows.context_length,
            "horizon": windows.horizon,
        }

    @property
    def static(self) -> np.ndarray:
        """The static covariates of each target, shape (C_out, S), float32."""
        return static_features(self.source.roles.static, len(self.source.targets))

    @property
    def target_scale(self) -> np.ndarray:
        """The standard deviation of each target in the training split, in its unit, shape (C_out,)."""
        return np.asarray(self.scaler.scale[: len(self.source.targets)])

    @property
    def address(self) -> Address | None:
        """The address of the table for another process of this machine; None if it is in memory."""
        return None if self._file is None else self._file.address

    def to(self, device: torch.device) -> None:
        """Move the batches to `device`, and also the table, which all splits share, unless it is in a file."""
        moved = self.parts["train"].to(device)
        self.parts = {
            part: replace(moved, starts=windows.starts.to(moved.starts.device)) for part, windows in self.parts.items()
        }

    def train_dataloader(self) -> ShuffledBatches:
        """Return this process's share of the run's batches, from `first_step` to `total_steps`."""
        return ShuffledBatches(
            self.parts["train"],
            self.batch_size,
            self.seed,
            self.total_steps,
            self.first_step,
            rank=self.group.rank,
            processes=self.group.size,
            by_series=self.by_series,
        )

    def val_dataloader(self) -> EvaluationBatches:
        """Return this process's share of the validation windows."""
        windows = self.parts["validation"]
        return EvaluationBatches(windows, self.evaluation_batch_size, self.group.share(len(windows)))

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Return the batch unchanged, since it is on the device already."""
        return batch

    def contract(self, *, reads_known: bool = True) -> DataContract:
        """Return what prediction needs of a table.

        Without `reads_known`, it says that the known covariates are not needed.
        """
        series, windows = self.source.series, self.parts["train"]
        roles = replace(self.source.roles, fixed=self.source.roles.fixed or [])
        reading = Reading(
            str(self.index.name),
            series.time_format,
            series.frequency,
            series.policies,
            series.resampling,
            series.bounds,
            last_rows=series.last_rows,
            merges_series=bool(series.merged),
            region=None if self.source.holidays is None else self.source.holidays.column,
            layout=series.layout,
        )
        return DataContract(
            roles,
            reading,
            Clock.of(self.index, series.frequency),
            self.scaler,
            windows.context_length,
            windows.horizon,
            cycles=list(self.cycles),
            encoder=self.encoder,
            holidays=self.source.holidays,
            shown=series.shown,
            merged=series.merged,
            unread=[] if reads_known else roles.known,
            whole=list(self.source.whole),
            static=self.static_inputs,
        )

    def training_range(self) -> TrainingRange:
        """Return the limits of the training rows and of their look-backs, of channels and known numbers."""
        columns = [*self.source.columns, *self.encoder.numbers]
        observed = self.source.series.observed_of(columns, self.train_rows)
        return TrainingRange.fit(self.training_values(columns), columns, self.parts["train"].context_length, observed)
