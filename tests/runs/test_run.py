"""A run folder: what is made, and what a killed process leaves."""

from pathlib import Path

from forecast.common.files import folder_lock
from forecast.runs.run import CONFIG, clear_never_begun


def begun(parent: Path, name: str, *files: str) -> Path:
    folder = parent / name
    folder.mkdir()
    for file in files:
        (folder / file).write_text("half")
    return folder


def test_a_folder_whose_first_file_was_never_whole_goes_and_every_other_stays(tmp_path: Path) -> None:
    half = begun(tmp_path, "2026-01-01_00-00-00_aaaaaa", f".{CONFIG}.x.tmp")
    at_work = begun(tmp_path, "2026-01-01_00-00-00_bbbbbb", f".{CONFIG}.y.tmp")
    stay = [
        begun(tmp_path, "2026-01-01_00-00-00_cccccc"),
        begun(tmp_path, "2026-01-01_00-00-00_dddddd", f".{CONFIG}.z.tmp", CONFIG),
        begun(tmp_path, "2026-01-01_00-00-00_eeeeee", f".{CONFIG}.z.tmp", "notes.txt"),
        begun(tmp_path, "2026-01-01_00-00-00_ffffff", ".notes.tmp"),
    ]
    (tmp_path / "link").symlink_to(stay[-1])
    (tmp_path / "a file").write_text("of somebody")
    with folder_lock(at_work):
        clear_never_begun(tmp_path)
    assert not half.exists()
    assert at_work.exists()
    assert all(folder.exists() for folder in stay)
    clear_never_begun(tmp_path)
    assert not at_work.exists()
