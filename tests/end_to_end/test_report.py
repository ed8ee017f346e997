"""`python -m forecast.report`: files, contents and errors."""

import csv
import json
import re
from pathlib import Path

import pytest

from forecast.report import content
from forecast.report.__main__ import main
from tests.report.made import errors, no_pictures, result_of, write_run
from tests.support.small import read_rows, rewrite, snapshot

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the pictures."""
    monkeypatch.setattr(content, "draw_pictures", no_pictures)


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Return a folder with a run of `full` and a run of `linear`."""
    root = tmp_path / "runs"
    for place, (name, train) in enumerate((("full", 100.0), ("linear", 300.0))):
        series = errors(0.4, place)
        write_run(root / name, result_of(name, mse=float(series.mean()), train=train), series)
    return root


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


FILES = {"report.html", "report.md", "report.csv"} | {
    f"report-error-{cost}.png" for cost in ("train", "inference", "memory")
}


@pytest.mark.usefixtures("plain")
def test_the_report_of_one_folder_is_written_into_it(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", str(pair)]) == 0
    assert written(pair) == FILES
    out = capsys.readouterr().out.splitlines()
    faster = "On etth1, horizon 96, at look-back 512, `linear` trains 3 times faster than `full` (A processor,"
    assert out[0].startswith(faster)
    assert out[-1] == f"report: {pair / 'report.html'}"


def test_the_same_runs_give_identical_files(pair: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert main(["--runs", str(pair), "--output", str(tmp_path / name), "--quiet"]) == 0
    one, two = (list(snapshot(tmp_path / name).values()) for name in ("one", "two"))
    assert one == two


def test_all_files_have_the_same_scores_and_commands(pair: Path) -> None:
    main(["--runs", str(pair), "--quiet"])
    rows = read_rows(pair / "report.csv")
    text, page = ((pair / f"report.{end}").read_text(encoding="utf-8") for end in ("md", "html"))
    models = {row["mechanism"]: row for row in rows if row["row"] == "model"}
    assert {row["row"] for row in rows} == {"model", "last_value", "seasonal_naive", "linear"}
    for name, row in models.items():
        result = json.loads((pair / name / "result.json").read_text())
        assert float(row["test_mse"]) == result["test"]["scaled"]["mse"]
        assert row["commands"] == result["command"]
        for document in (text, page):
            assert f"{float(row['test_mse']):.4f}" in document
            assert result["command"] in document
    assert (models["linear"]["against_full"], models["full"]["against_full"]) == ("no difference shown", "")
    assert float(models["linear"]["against_full_low"]) < 0 < float(models["linear"]["against_full_high"])
    assert (models["linear"]["not_dominated_train"], models["linear"]["train_cost"]) == ("True", str(1000 / 300))
    for name in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text):
        assert (pair / name).is_file()


@pytest.mark.usefixtures("plain")
def test_additional_scores_of_a_result_become_columns(pair: Path) -> None:
    for folder in (pair / "full", pair / "linear"):
        result = json.loads((folder / "result.json").read_text())
        for scores in (result, *result["baselines"].values()):
            scores["test"]["scaled"] |= {"rmse": 0.6}
            scores["test"]["original"] |= {"rmse": 60.0, "mase": 1.25, "odd": 7.5}
        rewrite(folder / "result.json", result)
    main(["--runs", str(pair), "--quiet"])
    row, *_ = read_rows(pair / "report.csv")
    assert (row["test_rmse"], row["test_rmse_original"], row["test_mase"], row["test_odd"]) == (
        "0.6",
        "60.0",
        "1.25",
        "7.5",
    )
    (heading,) = [
        line
        for line in (pair / "report.md").read_text().splitlines()
        if line.startswith("| mechanism | look-back | skill, %")
    ]
    assert "| RMSE |" in heading
    assert "| MASE |" in heading
    assert "| odd |" in heading


@pytest.mark.usefixtures("plain")
def test_two_data_sets_have_separate_sections_and_pictures(pair: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "other", result_of(config={"data.name": "etth2"}))
    assert main(["--runs", str(pair), str(tmp_path / "other"), "--output", str(tmp_path / "out")]) == 0
    names = written(tmp_path / "out")
    assert {"report-1-error-train.png", "report-2-error-train.png"} <= names
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<h2>") == 2
    rows = list(csv.DictReader((tmp_path / "out" / "report.csv").read_text().splitlines()))
    assert {row["data"] for row in rows} == {"etth1, horizon 96", "etth2, horizon 96"}


@pytest.mark.usefixtures("plain")
def test_a_new_report_removes_the_pictures_of_the_old_one(pair: Path) -> None:
    (pair / "report-7-error-train.png").write_bytes(b"old")
    (pair / "report.md").write_text("![of the old report](report-7-error-train.png)\n")
    (pair / "mine.png").write_bytes(b"mine")
    assert main(["--runs", str(pair), "--quiet"]) == 0
    assert written(pair) == FILES | {"mine.png"}


@pytest.mark.usefixtures("plain")
def test_the_report_lists_excluded_runs(pair: Path) -> None:
    (pair / "linear" / "manifest.json").unlink()
    assert main(["--runs", str(pair), "--quiet"]) == 0
    text = (pair / "report.md").read_text(encoding="utf-8")
    assert "| linear | unfinished |" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--runs", "absent"], "absent: no such folder"),
        (["--runs", "empty"], "empty: no finished run there: train some, or name them by --runs"),
        (["--runs", "runs", "empty"], "--runs: 2 folders: choose where the report goes with --output"),
        (["--runs", "runs", "--output", "file"], "file: not a folder: choose another --output"),
        (["--runs", "runs", "--output", "file/below"], "file/below: not a folder: choose another --output"),
    ],
)
@pytest.mark.usefixtures("plain")
def test_an_impossible_report_is_refused_in_one_line(
    pair: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(pair.parent)
    Path("empty").mkdir()
    Path("file").write_text("mine")
    before = snapshot(pair.parent)
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert snapshot(pair.parent) == before
