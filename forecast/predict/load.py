"""Loading of a trained model, or of an ensemble of several."""

import os
from pathlib import Path

from forecast.predict.ensemble import Ensemble
from forecast.predict.exported import FORMATS
from forecast.predict.forecaster import Forecaster
from forecast.runs.ensemble import with_members


def load(path: str | os.PathLike[str], *others: str | os.PathLike[str]) -> Forecaster | Ensemble:
    """Load a trained model for forecasting, or an ensemble of several.

    Parameters
    ----------
    path
        Folder of a finished run, or of an ensemble (ensemble=5); "latest" for the finished run under outputs/ that
        started last; or an .onnx or .pt2 file written by `python -m forecast.export`.
    others
        Folders of further runs on the same data, such as other seeds. The result then forecasts the mean of all.

    Returns
    -------
    Forecaster or Ensemble
        The model, whose `path` is the folder or file that was loaded, or the ensemble with its `members`. Both have
        `predict`.

    Raises
    ------
    InputError
        If there is no finished run or exported model at `path`, or it is damaged, or the runs cannot be averaged.
    """
    paths = with_members([path, *others])
    if len(paths) > 1:
        return Ensemble.load(paths)
    if str(path) == "latest":
        return Forecaster.load("latest")
    place = Path(path)
    return Forecaster.load_exported(place) if place.suffix in FORMATS and not place.is_dir() else Forecaster.load(place)
