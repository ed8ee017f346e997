"""From the `data` configuration to a checked series: simulated, found, downloaded, or the user's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import sha256
from forecast.data.calendar import check_cycles
from forecast.data.download import locate
from forecast.data.packed import content_sha256
from forecast.data.policies import Policies
from forecast.data.series import Series, read_series, series_from_frame
from forecast.data.synthetic import simulate_transformer


@dataclass(frozen=True)
class Source:
    """A series with the roles of its columns, and where it came from.

    Parameters
    ----------
    path, sha256
        Of its file; None: simulated.
    cycles
        Of the calendar, for the model; None: those that its training part shows.
    """

    series: Series
    targets: list[str]
    past_covariates: list[str]
    path: Path | None
    sha256: str | None = None
    cycles: tuple[str, ...] | None = None


def load_source(config: Mapping[str, Any]) -> Source:
    """Read what the `data` configuration names.

    Raises
    ------
    InputError
        If it cannot be had, is flawed, or gives a column a role that no model uses.
    """
    if config["known_covariates"]:
        raise InputError(
            "data.known_covariates: no model of this version takes covariates that are known in advance "
            "(the calendar is built in): give them as data.past_covariates or leave them out"
        )
    covariates = [str(name) for name in config["past_covariates"]]
    wanted = None if config["targets"] is None else [str(name) for name in config["targets"]]
    if wanted is not None and (shared := sorted(set(wanted) & set(covariates))):
        raise InputError(f"data.targets and data.past_covariates both name {', '.join(shared)}: choose one role")
    for role, names in (("targets", wanted or []), ("past_covariates", covariates)):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"data.{role} names {', '.join(twice)} twice: name each column once")
    columns = None if wanted is None else [*wanted, *covariates]
    if config["source"] == "synthetic":
        path = digest = None
        frame = simulate_transformer(rows=int(config["rows"]), seed=int(config["seed"]))
        series = series_from_frame(frame, source="the simulated transformer", columns=columns)
    else:
        path = _path(config)
        digest = sha256(path) if path.is_file() else None  # before it is read: it may grow while a model is trained
        series = read_series(
            path,
            time_column=config["time_column"],
            columns=columns,
            covariates=covariates,
            frequency=config["frequency"],
            policies=Policies.of(config),
            merges_series=wanted is not None,
        )
    present = list(series.frame.columns)
    if absent := [name for name in covariates if name not in present]:
        raise InputError(f"data.past_covariates: no column {absent[0]!r}, only {', '.join(present[:12])}")
    targets = wanted if wanted is not None else [name for name in present if name not in covariates]
    if not targets:
        raise InputError("data.past_covariates names every column: leave at least one to forecast")
    named = config["calendar"]
    cycles = None if named is None else check_cycles([str(name) for name in named], series.frequency)
    return Source(series, targets, covariates, path, digest, cycles)


def expanded(name: str) -> Path:
    """Return the path, a home at its beginning put in; where ~ is nobody's home it is a letter of the name."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _path(config: Mapping[str, Any]) -> Path:
    if config["path"] is not None:
        path = expanded(str(config["path"]))
        known = config["sha256"]
        if known is not None and path.is_file() and known.lower() not in (sha256(path), content_sha256(path)):
            raise InputError(f"{path}: its sha256 is not data.sha256: take the right file, or set data.sha256=null")
        return path
    if config["file_name"] is None:
        raise InputError("data.path=null: name your file: data=csv data.path=my.csv")
    return locate(str(config["file_name"]), url=config["url"], sha256=config["sha256"], about=config["about"])
