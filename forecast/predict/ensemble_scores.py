"""Scores of an ensemble: the mean forecast of several runs on every window, like those of one run."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from torch import Tensor

from forecast.common.errors import InputError
from forecast.common.files import look_up, read_json
from forecast.data.datamodule import ForecastData
from forecast.data.settings import DataSettings
from forecast.data.windows import Batch
from forecast.evaluation.achievable import achieved
from forecast.evaluation.adaptive import RowErrors
from forecast.evaluation.evaluate import Past, Row, evaluate, spread_of
from forecast.evaluation.interval_scores import SCORED
from forecast.evaluation.intervals import Calibration, middle
from forecast.evaluation.metrics import skill
from forecast.evaluation.scoring import network_forecaster, scaled_limits, units_of
from forecast.predict.facts import calibration_of_run
from forecast.runs.results import PARTS
from forecast.runs.resume import differences, read_config
from forecast.runs.run import RESULT, Architecture, Run
from forecast.runs.summary import scored_split

ALLOWED = ("seed is ", "training.precision is ", "training.max_time is ")
"""Beginnings of the differences that members may have; a time limit only ends a training."""

OF_THE_DATA = ("config", "device", "versions", "commit", "data", "baselines", "calibration", "precision")
"""Entries of a member's result that the ensemble shares."""


def score_ensemble(runs: Sequence[Run], data: ForecastData) -> dict[str, Any]:
    """Return a result like a single run's: scores of the mean forecast, summed sizes and seconds.

    The mean is that of `forecast.predict`: of the values and of the calibrated quantiles. The calibrations come from
    the validation split, whose quantiles are therefore not scored. Without a test split, none are.

    Parameters
    ----------
    runs
        Finished runs that differ only in their seed.
    data
        Their data, on the device that is to compute.

    Raises
    ------
    InputError
        If the runs differ in more than their seed.
    """
    _check_alike(runs)
    members = _Members(runs, data)
    limits = scaled_limits(data)
    units, size, scale = units_of(data), data.evaluation_batch_size, data.target_scale
    calibration = members.calibration if data.split.test else None  # these windows calibrated the members
    row = Row(
        evaluate(members, data.parts["validation"], size, units=units, limits=limits),
        evaluate(members, data.parts["test"], size, units=units, calibration=calibration, limits=limits),
    )
    results = [read_json(run.path / RESULT) for run in runs]
    first, scores = results[0], row.scores(scale)
    scores["test"]["by_step"] = row.test.by_step(scale)
    for part, values in scores.items():
        if (naive := first["baselines"]["seasonal_naive"]) is not None:
            values["skill"] = skill(values["scaled"]["mse"], naive[part]["scaled"]["mse"])
    known = {key: first[key] for key in OF_THE_DATA}
    for part, baseline in product(PARTS, known["baselines"].values()):
        if baseline is not None:
            baseline[part].pop("mean_with_model", None)  # it is of the first member
    reached = achieved(DataSettings.parse(first["config"]["data"]), known | scores)
    return {
        **known,
        **scores,
        **({} if reached is None else {"diagnostic": reached}),
        "start_from": first.get("start_from"),
        "seeds": [result["seed"] for result in results],
        "linear_path": None,
        "model": {key: sum(result["model"][key] for result in results) for key in ("parameters", "steps")},
        "speed": {"fit_seconds": sum(result["speed"]["fit_seconds"] for result in results)},
        "alone": [{part: result[part]["scaled"] for part in scores} for result in results],
        "status": "; ".join(dict.fromkeys(str(result["status"]) for result in results)),
    }


def _check_alike(runs: Sequence[Run]) -> None:
    """Raise InputError if runs differ in more than their seed; the weights of a start may have changed meanwhile."""
    config, began = read_config(runs[0].path), _start_of(runs[0])
    for run in runs[1:]:
        lines = differences(config, read_config(run.path), budget=True)
        if (own := _start_of(run)) != began:
            lines.append(f"start_from.weights is {own} there and {began} here")
        if apart := [line for line in lines if not line.startswith(ALLOWED)]:
            raise InputError(f"{run.path}: differs from {runs[0].path} in more than the seed: {'; '.join(apart[:3])}")


def _start_of(run: Run) -> str | None:
    digest: str | None = look_up(read_json(run.path / RESULT), "start_from.weights")
    return None if digest is None else digest[:8]


class _Members:
    """The mean of the calibrated quantiles of several runs, or of their point forecasts if none can be had.

    `calibration` fits these quantiles, which it leaves unchanged; None for point forecasts.
    """

    def __init__(self, runs: Sequence[Run], data: ForecastData) -> None:
        windows = data.parts["test"]
        horizon, series, device = windows.horizon, windows.num_targets, windows.device
        self.forecasters = [network_forecaster(run.load_model().to(device)) for run in runs]
        sizes = [Architecture.from_dict(run.manifest()["architecture"]).sizes for run in runs]
        stored = [calibration_of_run(run.path, own) for run, own in zip(runs, sizes, strict=True)]
        self.calibrations = [Calibration(one.default.scores.to(device), one.default.trained) for one in stored]
        # empty: a member forecasts validation before test, and its intervals are scored on test
        self.past = [
            None if one.adaptive is None else Past(one.adaptive, RowErrors(one.adaptive.typical.to(device)))
            for one in stored
        ]
        self.levels = [level for level in SCORED if all(one.default.supports(level) for one in stored)]
        self.calibration = Calibration.unchanged(self.levels, horizon, series) if self.levels else None

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out, K), or (B, h, C_out) without levels."""
        point, ends, spread = None, None, spread_of(batch)
        for forecaster, calibration, past in zip(self.forecasters, self.calibrations, self.past, strict=True):
            forecast = forecaster(batch)
            middles = middle(forecast)
            point = middles if point is None else point + middles
            if self.levels:
                scaled = (forecast, spread) if past is None else past.scaled(batch, forecast, spread)
                quantiles = calibration.quantiles(*scaled, self.levels)
                ends = quantiles if ends is None else ends + quantiles
        assert point is not None
        if ends is None:
            return point / len(self.forecasters)
        ends[..., len(self.levels) // 2] = point  # a calibration may move the median, and `predict` does not
        return ends / len(self.forecasters)


def member_line(result: Mapping[str, Any]) -> str:
    """Return the errors of the members alone beside that of their mean, on the scored split."""
    alone = [scores["test"]["mse"] for scores in result["alone"]]
    mean, own = sum(alone) / len(alone), result["test"]["scaled"]["mse"]
    change = f"; averaging them changes that by {own / mean - 1:+.1%}" if mean else ""
    return (
        f"Its {len(alone)} members alone: {scored_split(result)} MSE {min(alone):.4f} to {max(alone):.4f}, on average "
        f"{mean:.4f}{change}."
    )
