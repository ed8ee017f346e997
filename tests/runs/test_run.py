"""Run folders: the files of a killed process."""

from pathlib import Path

from forecast.common.files import folder_lock
from forecast.runs.run import CONFIG, Run, clear_never_begun


def started(parent: Path, name: str, *files: str) -> Path:
    folder = parent / name
    folder.mkdir()
    for file in files:
        (folder / file).write_text("half")
    return folder


def test_only_a_folder_with_an_incomplete_first_file_is_removed(tmp_path: Path) -> None:
    half = started(tmp_path, "2026-01-01_00-00-00_aaaaaa", f".{CONFIG}.x.tmp")
    in_use = started(tmp_path, "2026-01-01_00-00-00_bbbbbb", f".{CONFIG}.y.tmp")
    others = [
        started(tmp_path, "2026-01-01_00-00-00_cccccc"),
        started(tmp_path, "2026-01-01_00-00-00_dddddd", f".{CONFIG}.z.tmp", CONFIG),
        started(tmp_path, "2026-01-01_00-00-00_eeeeee", f".{CONFIG}.z.tmp", "notes.txt"),
        started(tmp_path, "2026-01-01_00-00-00_ffffff", ".notes.tmp"),
    ]
    (tmp_path / "link").symlink_to(others[-1])
    (tmp_path / "a file").write_text("of the user")
    with folder_lock(in_use):
        clear_never_begun(tmp_path)
    assert not half.exists()
    assert in_use.exists()
    assert all(folder.exists() for folder in others)
    clear_never_begun(tmp_path)
    assert not in_use.exists()


def test_temporary_files_that_another_process_may_be_writing_stay(tmp_path: Path) -> None:
    names = (".failed.json.x.tmp", ".left.json.x.tmp", ".job.json.x.tmp", ".traceback.txt.x.tmp", ".result.json.x.tmp")
    folder = started(tmp_path, "2026-01-01_00-00-00_aaaaaa", *names)
    Run(folder).clear_temporary()
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[:-1])
