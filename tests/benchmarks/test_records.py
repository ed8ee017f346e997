"""The index of records, benchmarks/README.md."""

import re

from tests.support.small import ROOT

FOLDER = ROOT / "benchmarks" / "records"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]


def test_every_record_is_in_the_index_once_and_every_entry_exists() -> None:
    entries = [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[0])]
    matched = {name: [path for path in FOLDER.glob(name) if path.is_file()] for name in entries}
    assert [name for name, paths in matched.items() if not paths] == []
    listed = sorted(path for paths in matched.values() for path in paths)
    assert listed == sorted(path for path in FOLDER.rglob("*") if path.is_file())
    assert len(entries) == len(matched)


def test_every_entry_has_content_command_date_and_machine() -> None:
    assert ROWS
    for record, shows, made_by, when, machine in ROWS:
        assert shows, record
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", when), record
        assert machine, record
        for module in re.findall(r"python -m ([\w.]+)", made_by):
            place = ROOT / module.replace(".", "/")
            assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), record


def test_records_are_only_in_their_folder() -> None:
    kinds = {path.suffix for path in (ROOT / "benchmarks").rglob("*") if path.is_file() and FOLDER not in path.parents}
    assert kinds - {".pyc"} == {".py", ".md"}


def test_a_cell_is_one_line() -> None:
    def words(cell: str) -> int:
        return len(re.sub(r"`[^`]*`", "code", cell).split())

    for record, shows, made_by, _, machine in ROWS:
        assert words(shows) <= 22, record
        assert words(made_by) <= 20, record
        assert words(machine) <= 16, record
