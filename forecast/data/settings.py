"""The `data` group of the configuration, checked before anything is read or simulated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from forecast.common.checks import check_least
from forecast.common.errors import InputError
from forecast.common.naming import LONGEST_NAME
from forecast.common.printable import is_plain
from forecast.data.policies import Policies

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
    known_covariates: list[Any]
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
    """Refuse a name of the data that no folder can have, or that steers a terminal.

    Raises
    ------
    InputError
        Saying which.
    """
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
