"""Which tests run: the tiers, the tests that a change affects, and the runs that are kept."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.support import kept as kept_runs
from tests.support.affected import END_TO_END, PROSE, TESTS_OF_FILES, affected_tests, changed_files
from tests.support.kept import kept, sources_of
from tests.support.small import ROOT

TESTS = ROOT / "tests"


def of(*files: str) -> set[str]:
    tests = affected_tests(files)
    assert tests is not None
    return set(tests)


def test_every_rule_names_tests_that_exist() -> None:
    named = [f"end_to_end/{name}" for names in END_TO_END.values() for name in names]
    named += [name for names in TESTS_OF_FILES.values() for name in names] + PROSE
    assert [name for name in named if not (TESTS / name).exists()] == []


def test_a_change_in_the_report_trains_nothing() -> None:
    selected = of("forecast/report/tables.py")
    assert {"report/test_page.py", "report/test_answer.py"} <= selected
    assert not [name for name in selected if name.startswith(("end_to_end/", "quickstart/", "model/", "data/"))]


def test_a_change_in_a_mechanism_runs_its_tests_and_the_contract() -> None:
    selected = of("forecast/attention/probsparse.py")
    assert "attention/test_probsparse.py" in selected
    assert {"attention/test_contract.py", "check/test_check.py"} <= selected
    assert not [name for name in selected if name.startswith(("end_to_end/", "report/", "predict/"))]


def test_a_change_in_the_data_runs_users_leaks_and_the_quick_start() -> None:
    selected = of("forecast/data/windows.py")
    wanted = {"data/test_windows.py", "data/test_datamodule.py", "end_to_end/test_leaks.py", "quickstart/"}
    assert wanted <= selected
    assert "end_to_end/resume/" not in selected
    assert "attention/test_contract.py" not in selected


def test_a_change_in_a_helper_runs_the_tests_that_use_it() -> None:
    assert "report/test_page.py" in of("tests/support/browser.py")
    assert of("tests/end_to_end/test_leaks.py") == {"end_to_end/test_leaks.py"}
    assert of("tests/report/conftest.py") == {"report/"}


@pytest.mark.parametrize("file", ["pyproject.toml", "tests/conftest.py", "forecast/attention/new.txt"])
def test_a_file_that_no_rule_knows_affects_everything(file: str) -> None:
    assert affected_tests(["forecast/report/tables.py", file]) is None


@pytest.mark.slow
def test_prose_and_configuration_have_their_tests() -> None:
    assert of("README.md") == set(PROSE)
    assert {"attention/", "check/"} <= of("conf/attention/full.yaml")
    assert "test_conf.py" in of("conf/model/informer.yaml")
    assert of(".ci/run") == set()


def test_committed_changed_and_new_files_are_found(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    for name in ("same", "committed", "changed"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "committed").write_text("2")
    git("commit", "--quiet", "-am", "second")
    (tmp_path / "changed").write_text("2")
    (tmp_path / "new").write_text("1")
    assert changed_files("HEAD", tmp_path) == ["changed", "new"]
    assert changed_files("HEAD~1", tmp_path) == ["changed", "committed", "new"]
    with pytest.raises(ValueError, match="--affected=nowhere: "):
        changed_files("nowhere", tmp_path)


def ignored(name: str, *, all_tiers: bool = False, affected: list[str] | None = None) -> bool:
    config: Any = SimpleNamespace(option=SimpleNamespace(all=all_tiers, affected_tests=affected))
    return bool(conftest.pytest_ignore_collect(TESTS / name, config))


def test_the_default_run_leaves_out_the_later_folders() -> None:
    assert [name for name in ("data", "end_to_end", "benchmarks", "benchmark", "quickstart") if ignored(name)] == [
        "end_to_end",
        "benchmarks",
    ]
    assert not ignored("end_to_end", all_tiers=True)


def test_only_affected_files_are_collected() -> None:
    affected = ["report/test_page.py", "quickstart/"]
    assert not ignored("report/test_page.py", affected=affected)
    assert not ignored("quickstart/test_first_day.py", affected=affected)
    assert ignored("report/test_answer.py", affected=affected)
    assert ignored("report/test_page.py", affected=[])


def test_a_kept_run_depends_on_training_and_configuration_not_on_the_report() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources_of("forecast.training.train")}
    assert {"forecast/training/train.py", "forecast/model/informer.py", "forecast/data/windows.py"} <= names
    assert {"forecast/attention/probsparse.py", "forecast/__init__.py", "conf/config.yaml"} <= names
    assert not [name for name in names if name.startswith(("forecast/report/", "forecast/plan/", "forecast/export/"))]


def test_a_folder_is_filled_once_until_its_digest_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[str] = []
    monkeypatch.setattr(kept_runs, "STORE", tmp_path / "runs")

    def make(folder: Path) -> None:
        filled.append(folder.name)

    for digest in "abbcdda":
        monkeypatch.setattr(kept_runs, "_digest", lambda *_, digest=digest: digest)
        assert kept("tiny", make).is_dir()
    assert filled == ["tiny.a", "tiny.b", "tiny.c", "tiny.d", "tiny.a"]  # four digests: the oldest was removed


def test_a_folder_whose_filling_failed_is_filled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_runs, "STORE", tmp_path / "runs")

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        kept("tiny", fail)
    assert not (kept("tiny", lambda _: None) / "half").exists()
