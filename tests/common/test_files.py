import hashlib
import json
import math
import os
import stat
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.common.files import check_place, read_json, replacing, sha256, write_json


def write_half(path: Path, error: BaseException) -> None:
    with replacing(path) as file:
        file.write(b"half of the n")
        raise error


def test_a_link_is_replaced_and_what_it_leads_to_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    path = tmp_path / "result.json"
    path.symlink_to("elsewhere")
    with replacing(path) as file:
        file.write(b"ours")
    assert not path.is_symlink()
    assert path.read_bytes() == b"ours"
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"


def test_a_file_is_replaced_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_while_writing_leaves_only_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_half(path, error())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_a_new_file_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"):
        write_half(tmp_path / "new", ValueError("stop"))
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_replaced_leaves_no_temporary(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"), replacing(folder) as file:
        file.write(b"new")
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permission_bits_are_the_same_as_with_open(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "ours") as file:
            file.write(b"x")
        (tmp_path / "opens").write_bytes(b"x")
    finally:
        assert os.umask(before) == umask  # asking for the umask left it as it was
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "opens").stat().st_mode
    (tmp_path / "ours").chmod(0o600)
    with replacing(tmp_path / "ours") as file:
        file.write(b"y")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["plain.csv", "a b [1]=ü.csv", "ü" * 120 + ".csv", ".hidden"])
def test_names_of_any_kind_and_length_are_written(tmp_path: Path, name: str) -> None:
    with replacing(tmp_path / name) as file:
        file.write(b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_json_is_read_back_unchanged_with_null_for_non_finite_numbers(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    content = {"name": "Öl °C", "rows": [1, 2.5, None], "scores": {"mse": math.nan, "mae": [math.inf, -math.inf]}}
    write_json(path, {**content, "pair": (1, 2)})
    assert json.loads(path.read_text(encoding="utf-8")) == {
        **content,
        "scores": {"mse": None, "mae": [None, None]},
        "pair": [1, 2],
    }
    assert "Öl °C" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\uDFFF": 1}'])
def test_a_lone_surrogate_is_refused(text: str, tmp_path: Path) -> None:
    """A lone surrogate cannot be encoded; a valid character beyond 16 bits has both surrogates."""
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError, match="the file is damaged"):
        read_json(path)
    path.write_text(r'{"a": "\ud83d\ude00 \u00e9"}')
    assert read_json(path) == {"a": "\N{GRINNING FACE} é"}


def test_values_that_json_cannot_hold_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_sha256_matches_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_a_pipe_and_a_device_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="is a pipe or a device, which a file would replace"):
            check_place(path)
    check_place(tmp_path / "plan.json")
