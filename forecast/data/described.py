"""What a run folder says of its data: a description, by which no file is read elsewhere and nothing is fetched."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.common.errors import InputError
from forecast.common.folders import configuration_folder
from forecast.data.download import data_folders
from forecast.data.flaws import value_word


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

    Raises
    ------
    InputError
        If the file lies elsewhere, or its name is no plain one.
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


def _is_plain(name: str) -> bool:
    return PurePath(name).name == name and name not in ("", ".", "..") and "\\" not in name and "\0" not in name


def _address(data: Mapping[str, Any]) -> str | None:
    """Return the address that `conf/data` has for exactly this file of this name and content; None for any other."""
    for file in sorted((configuration_folder() / "data").glob("*.yaml")):
        preset = OmegaConf.load(file)
        assert isinstance(preset, DictConfig)
        same = all(preset.get(key) == data.get(key) for key in ("name", "file_name", "sha256"))
        if same and preset.get("sha256") is not None:
            url = preset.get("url")
            return None if url is None else str(url)
    return None
