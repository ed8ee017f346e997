"""Where a series comes from: its settings, its loader, and what a run folder may say of it."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from forecast.common.conf_files import choice_files, load_choice
from forecast.common.errors import InputError
from forecast.common.files import sha256
from forecast.common.naming import LONGEST_NAME
from forecast.common.options import check_least
from forecast.common.text import is_plain
from forecast.data.calendar import check_cycles
from forecast.data.download import data_folders, locate
from forecast.data.flaws import value_word
from forecast.data.repair import Policies
from forecast.data.series import Series, read_series, series_from_frame
from forecast.data.synthetic import simulate_transformer
from forecast.data.unpacking import content_sha256


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

    @property
    def columns(self) -> list[str]:
        """The columns of the model's table, the targets first."""
        return [*self.targets, *self.past_covariates]


def load_source(config: Mapping[str, Any]) -> Source:
    """Read what the `data` configuration names."""
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


LARGEST_SEED = 2**32 - 1
"""What the seeding of numpy and Lightning takes."""


OF_SOURCE = {
    "synthetic": ("rows", "seed"),
    "file": ("path", "file_name", "url", "sha256", "about", "missing_values"),
}
"""The keys that only one source has."""


@dataclass(frozen=True)
class DataSettings:
    """The kinds of the values; which keys there are depends on the source."""

    name: str | None
    source: str
    path: str | None
    file_name: str | None
    url: str | None
    sha256: str | None
    about: str | None
    rows: int
    seed: int
    time_column: str | None
    targets: list[Any] | None
    past_covariates: list[Any]
    calendar: list[Any] | None
    frequency: str | None
    duplicates: str
    missing: str
    missing_values: list[Any]
    split: dict[str, Any]


def check_data(config: Mapping[str, Any]) -> None:
    """Refuse keys that the source does not have, keys that are missing, and values of another kind.

    Raises
    ------
    InputError
        Naming the key, the value and what it should be.
    """
    source = config.get("source")
    if source not in OF_SOURCE:
        raise InputError(f"data.source={source}: choose {' or '.join(OF_SOURCE)}")
    of_others = {key for other, keys in OF_SOURCE.items() if other != source for key in keys}
    own = [key for key in DataSettings.__annotations__ if key not in of_others]
    for key in config:
        if key not in own:
            raise InputError(f"data.{key}: no option of data.source={source}: its options are {', '.join(own)}")
    check_whole(config, own, "data.")
    kinds = get_type_hints(DataSettings)
    for key, value in config.items():
        _check_kind(value, kinds[key], f"data.{key}")
    if config["name"] is None and config.get("path") is None:
        raise InputError("data.name=null: give it a name; only that of your own file, data.path, is seen from it")
    if config["name"] is not None:
        check_name(config["name"])
    if config["targets"] == []:
        raise InputError("data.targets=[]: name a column to forecast, or null for all that are not past covariates")
    policies = Policies.of(config)
    if source == "synthetic":
        check_least(config["rows"], 1, "data.rows")
        check_seed(config["seed"], "data.seed")
        for key in ("time_column", "frequency"):
            if config[key] is not None:
                raise InputError(f"data.{key}={config[key]}: the simulation has its own: leave it null")
        for key, value in policies.facts().items():
            if value != "error":
                raise InputError(f"data.{key}={value}: the simulation lacks and doubles nothing: leave it at error")
    if sorted(config["split"]) != ["test", "train", "validation"]:
        raise InputError(f"data.split={config['split']}: must give train, validation and test")


def check_name(name: str) -> None:
    """Refuse a name of the data that no folder can have, or that steers a terminal."""
    if not is_plain(name):
        raise InputError(f"data.name={name!r}: has control characters: choose another")
    if not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"data.name={name[:20]}…: has {len(name)} letters: give 1 to {LONGEST_NAME}")


def check_whole(config: Mapping[str, Any], keys: Iterable[str], prefix: str) -> None:
    """Refuse a configuration that lacks one of `keys`.

    Raises
    ------
    InputError
        Naming it.
    """
    for key in keys:
        if key not in config:
            raise InputError(f"{prefix}{key}: is missing: every run needs it")


def check_seed(value: int, key: str) -> None:
    """Refuse a seed that not every generator takes.

    Raises
    ------
    InputError
        Naming the bounds.
    """
    check_least(value, 0, key)
    if value > LARGEST_SEED:
        raise InputError(f"{key}={value}: must be at most {LARGEST_SEED}")


def _check_kind(value: Any, hint: Any, key: str) -> None:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    plain = tuple(get_origin(kind) or kind for kind in kinds)
    if isinstance(value, plain) and not isinstance(value, bool):
        return
    if list in plain:
        of_what = "numbers" if key.endswith("_values") else "names"
        raise InputError(f"{key}={value}: must be a list of {of_what}, {key}=[{value}]")
    names = " or ".join("null" if kind is NoneType else kind.__name__ for kind in plain)
    raise InputError(f"{key}={value}: must be {names}")


def described_data(data: Mapping[str, Any], folder: Path, cure: Callable[[str], str]) -> dict[str, Any]:
    """Return the `data` group of a run folder, such that nothing but a file of the user's is read for it.

    A file is taken where it lies in the data folder (`data/` or FORECAST_DATA_DIR) or in the run folder. The address
    is that of `conf/data` where the group is one of its presets, and none otherwise: the folder's own is not used.

    Parameters
    ----------
    folder
        The run folder.
    cure
        Gives the command by which the user names a file.
    """
    if data.get("source") != "file":
        return dict(data)
    if data["path"] is not None:
        if not lies_within(Path(str(data["path"])), folder):
            raise InputError(_elsewhere(str(data["path"]), folder, cure))
        return {**data, "url": None}
    if data["file_name"] is not None and not _is_plain(str(data["file_name"])):
        raise InputError(_elsewhere(str(data["file_name"]), folder, cure))
    return {**data, "url": _address(data)}


def lies_within(path: Path, folder: Path) -> bool:
    """Say whether a file lies in the data folder or in the run folder, wherever its links lead."""
    if ".." not in path.parts and any(path.absolute().parent == place.absolute() for place in data_folders()):
        return True  # the user's own folder, and so the user's own link
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a name that is no name, a link to itself
        return False
    return any(real.is_relative_to(place.resolve()) for place in (*data_folders(), folder))


def resume_words(folder: Path, data: Mapping[str, Any]) -> str:
    """Return the words of the command line, quoted, that go on with a run: its folder, and its file where needed."""
    words = [_word("resume", str(folder))]
    if data.get("source") == "file" and data["path"] is not None and not lies_within(Path(data["path"]), folder):
        words.append(_word("data.path", str(data["path"])))
    return " ".join(words)


def resume_command(folder: Path, path: str) -> str:
    """Return the command that goes on with a run on the user's own file."""
    return f"python train.py {_word('resume', str(folder))} {_word('data.path', path)}"


def _elsewhere(name: str, folder: Path, cure: Callable[[str], str]) -> str:
    places = " or ".join(str(place) for place in data_folders())
    return (
        f"{folder}: names the data file {name!r}, which is in neither {places} nor the run folder. A folder does not "
        f"choose what is read elsewhere. If the file is yours: {cure(name)}"
    )


def _word(key: str, value: str) -> str:
    """Return `key=value` as the shell hands it to Hydra."""
    return shlex.quote(value_word(key, value))


LONGEST_FILE_NAME = 250
"""Bytes of a file's name that every usual system takes, an ending of the program's own included."""


def _is_plain(name: str) -> bool:
    return (
        PurePath(name).name == name
        and name not in ("", ".", "..")
        and not {"\\", "\0"} & set(name)
        and len(name.encode(errors="replace")) <= LONGEST_FILE_NAME
    )


def _address(data: Mapping[str, Any]) -> str | None:
    """Return the address that `conf/data` has for exactly this file of this name and content; None for any other."""
    for preset in map(load_choice, choice_files("data")):
        same = all(preset.get(key) == data.get(key) for key in ("name", "file_name", "sha256"))
        if same and preset.get("sha256") is not None:
            url = preset.get("url")
            return None if url is None else str(url)
    return None
