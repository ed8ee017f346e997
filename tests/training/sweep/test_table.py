"""The table of a sweep, from folders that hold only results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from forecast.common.timing import Load
from forecast.runs.read import read_jobs, summarise
from forecast.training.sweep.table import report, sweep_table
from tests.support.small import rewrite, seal

CONFIG: dict[str, Any] = {
    "data": {},
    "model": {"name": "informer"},
    "horizon": 96,
    "training": {},
    "sweep": {"name": "s"},
}
TEST_MSE = {1: 0.30, 2: 0.36, 3: 0.33}


def scores(mse: float) -> dict[str, Any]:
    original = {"mse": 100 * mse, "mae": 5 * mse, "mase": 2 * mse}
    part = {"scaled": {"mse": mse, "mae": mse / 2}, "original": original}
    return {"validation": part, "test": part}


def job(sweep: Path, name: str, mse: float, *, seed: int = 1, linear: float = 0.4, **changes: Any) -> Path:
    """Write the folder of a finished job; `changes` are added to its configuration."""
    folder = sweep / f"attention-{name}_seed-{seed}"
    folder.mkdir(parents=True)
    words = [f"attention={name}", f"seed={seed}"]
    result = {
        "config": {**CONFIG, "attention": {"name": name}, "seed": seed, **changes},
        "data": {"name": "hours", "targets": ["load"], "sha256": "0123456789"},
        "status": "finished",
        "seed": seed,
        "model": {"parameters": 1234567, "steps": 10, "best_step": 0},
        "baselines": {"last_value": scores(0.9), "seasonal_naive": scores(0.5), "linear": scores(linear)},
        "speed": {
            "train_windows_per_s": 1000.0 + seed,
            "step_ms_p50": 12.34,
            "fit_seconds": 90.0,
            "peak_memory_mib": 5,
        },
        **scores(mse),
    }
    result["test"] = {**result["test"], "skill": 1 - mse / 0.5}
    for file, content in (("result", result), ("config", result["config"])):
        (folder / f"{file}.json").write_text(json.dumps(content))
    seal(folder)
    (folder / "job.json").write_text(json.dumps({"overrides": words, "configuration": words[:1]}))
    return folder


def unfinished(sweep: Path, name: str, error: str | None) -> None:
    folder = sweep / name
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"overrides": [name], "configuration": [name]}))
    if error:
        (folder / "failed.json").write_text(json.dumps({"error": error}))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return a sweep of a mechanism over three seeds and another with one."""
    for seed, mse in TEST_MSE.items():
        job(tmp_path, "full", mse, seed=seed)
    job(tmp_path, "linear", 0.35)
    return tmp_path


def rows_of(sweep: Path) -> dict[str, dict[str, Any]]:
    return {row["configuration"]: row for row in summarise(read_jobs(sweep)).to_dict("records")}


def printed(sweep: Path) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        jobs = read_jobs(sweep)
        console.print(sweep_table(summarise(jobs), jobs, "s"))
    return capture.get()


def test_mean_and_standard_deviation_over_seeds_match_numpy(sweep: Path) -> None:
    row, values = rows_of(sweep)["attention=full"], list(TEST_MSE.values())
    assert row["n"] == 3
    assert row["test_mse"] == pytest.approx(np.mean(values))
    assert row["test_mse_sd"] == pytest.approx(np.std(values, ddof=1))
    assert row["test_mae_sd"] == pytest.approx(np.std(values, ddof=1) / 2)
    assert row["test_mse_original"] == pytest.approx(100 * np.mean(values))
    assert row["test_mase"] == pytest.approx(2 * np.mean(values))
    assert np.isnan(row["test_smape"])  # an older result does not have it
    assert row["skill"] == pytest.approx(1 - np.mean(values) / 0.5)
    assert row["train_windows_per_s"] == pytest.approx(1002)


def test_one_seed_has_no_standard_deviation(sweep: Path) -> None:
    row = rows_of(sweep)["attention=linear"]
    assert (row["n"], row["test_mse"]) == (1, 0.35)
    assert np.isnan(row["test_mse_sd"])
    (line,) = [line for line in printed(sweep).splitlines() if "attention=linear" in line]
    assert "0.3500  " in line
    assert "±" not in line


def test_a_baseline_that_all_jobs_share_has_one_row(sweep: Path) -> None:
    rows = rows_of(sweep)
    assert list(rows)[2:] == ["last value", "seasonal naive", "linear (ridge)"]
    assert (rows["linear (ridge)"]["test_mse"], rows["last value"]["validation_mse"]) == (0.4, 0.9)
    assert rows["linear (ridge)"]["test_mase"] == 0.8
    assert rows["last value"]["skill"] == pytest.approx(1 - 0.9 / 0.5)


def test_a_baseline_that_differs_has_a_row_per_score(sweep: Path) -> None:
    job(sweep, "mean", 0.5, linear=0.45)
    rows = rows_of(sweep)
    assert rows["linear (ridge) attention=mean"]["test_mse"] == 0.45
    assert rows["linear (ridge)"]["test_mse"] == 0.4  # of full and linear, which share no word
    assert [name for name in rows if name.startswith("last value")] == ["last value"]


def test_a_series_without_a_season_has_no_seasonal_naive_row(tmp_path: Path) -> None:
    folder = job(tmp_path, "full", 0.3)
    result = json.loads((folder / "result.json").read_text())
    result["baselines"]["seasonal_naive"] = None
    del result["test"]["skill"]
    rewrite(folder / "result.json", result)
    rows = rows_of(tmp_path)
    assert list(rows) == ["attention=full", "last value", "linear (ridge)"]
    assert pd.isna(rows["attention=full"]["skill"])
    assert "0.3000" in printed(tmp_path)


def test_different_constants_under_the_same_overrides_are_not_averaged(tmp_path: Path) -> None:
    job(tmp_path, "full", 0.3, seed=1, horizon=12)
    job(tmp_path, "full", 0.4, seed=2, horizon=24)
    assert [(words, row["n"]) for words, row in rows_of(tmp_path).items() if row["row"] == "model"] == [
        ("attention=full (horizon=12)", 1),
        ("attention=full (horizon=24)", 1),
    ]


def test_runs_on_a_changed_data_file_are_not_averaged(tmp_path: Path) -> None:
    job(tmp_path, "full", 0.3, seed=1)
    path = job(tmp_path, "full", 0.9, seed=2) / "result.json"
    result = json.loads(path.read_text())
    rewrite(path, {**result, "data": {**result["data"], "sha256": "abcdef0123"}})
    models = [words for words, row in rows_of(tmp_path).items() if row["row"] == "model"]
    assert models == ["attention=full (sha256=01234567)", "attention=full (sha256=abcdef01)"]


def test_square_brackets_are_printed_unchanged(tmp_path: Path) -> None:
    for name in ("load", "oil"):
        folder = job(tmp_path, name, 0.3)
        words = [f"data.targets=[{name}]"]
        (folder / "job.json").write_text(json.dumps({"overrides": words, "configuration": words}))
    assert "data.targets=[load]" in printed(tmp_path)


def test_jobs_without_a_result_are_rows_with_their_error(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished(sweep, "horizon-9000", "horizon 9000 is too long")
    unfinished(sweep, "horizon-5", None)
    report(sweep)
    out = capsys.readouterr().out
    assert "4 of 6 jobs finished" in out
    assert "failed: horizon-9000: horizon 9000 is too long" in out
    assert "unfinished: horizon-5\n" in out
    rows = pd.read_csv(sweep / "sweep.csv").set_index("configuration")
    assert rows.loc["horizon-9000", "error"] == "horizon 9000 is too long"
    assert list(rows.index[-2:]) == ["horizon-5", "horizon-9000"]


def test_a_failure_in_the_folder_of_a_finished_run_is_shown_beside_its_score(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"error": "holds another run", "overrides": ["attention=linear", "lr=1"]}
    (sweep / "attention-linear_seed-1" / "failed.json").write_text(json.dumps(failed))
    rows = rows_of(sweep)
    assert (rows["attention=linear"]["test_mse"], rows["attention=linear"]["n"]) == (0.35, 1)
    assert rows["attention=linear lr=1"]["status"] == "failed"
    report(sweep)
    assert "failed: attention-linear_seed-1: holds another run" in capsys.readouterr().out


def test_a_repeated_configuration_and_seed_is_counted_once(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = (sweep / "attention-full_seed-2").rename(sweep / "seed-2")
    job(sweep, "full", TEST_MSE[2], seed=2, training={"progress": False, "checkpoint_minutes": 3})
    (again / "job.json").write_text(json.dumps({"overrides": ["seed=2"], "configuration": []}))
    rows = rows_of(sweep)
    assert rows["attention=full"]["n"] == 3
    assert rows["attention=full"]["test_mse"] == pytest.approx(0.33)
    report(sweep)
    out = capsys.readouterr().out
    assert "4 of 4 jobs finished" in out
    assert "repeat: seed-2: same configuration and seed as attention-full_seed-2" in out


def test_seeds_requested_with_fewer_overrides_belong_to_the_same_row(sweep: Path) -> None:
    folder = sweep / "attention-full_seed-1"
    (folder / "job.json").write_text(json.dumps({"overrides": ["seed=1"], "configuration": []}))
    assert rows_of(sweep)["attention=full"]["n"] == 3


def test_different_budgets_are_different_rows(tmp_path: Path) -> None:
    for seed in (1, 2):
        job(tmp_path, "full", 0.3, seed=seed, training={"max_steps": seed})
    rows = summarise(read_jobs(tmp_path))
    assert list(rows.loc[rows["row"] == "model", "n"]) == [1, 1]


@pytest.mark.parametrize("key", ["device", "precision"])
def test_runs_on_different_devices_or_precisions_are_not_averaged(sweep: Path, key: str) -> None:
    for seed in TEST_MSE:
        path = sweep / f"attention-full_seed-{seed}" / "result.json"
        result = json.loads(path.read_text())
        rewrite(path, {**result, key: "one" if seed == 1 else "other"})
    rows = rows_of(sweep)
    assert [rows[f"attention=full ({key}={value})"]["n"] for value in ("one", "other")] == [1, 2]
    assert rows[f"attention=full ({key}=one)"]["test_mse"] == TEST_MSE[1]
    assert rows["attention=linear"]["n"] == 1


def test_the_files_have_every_column_and_the_numbers_of_the_table(sweep: Path) -> None:
    report(sweep)
    rows, jobs = (pd.read_csv(sweep / f"{name}.csv", dtype={"parameters": str}) for name in ("sweep", "jobs"))
    assert set(rows) >= {
        "configuration",
        "n",
        "test_mse",
        "test_mse_sd",
        "test_mase",
        "test_rmse_original",
        "step_ms_p95",
        "flops_per_window",
        "best_step",
    }
    assert set(jobs) >= {"job", "overrides", "seed", "test_mse", "train_windows_per_s", "status", "folder"}
    assert not {"of", "words", "settings", "forecasts", "baselines"} & set(jobs)
    assert list(jobs["job"]) == [f"attention-full_seed-{seed}" for seed in (1, 2, 3)] + ["attention-linear_seed-1"]
    assert rows["test_mse"][0] == pytest.approx(0.33)
    assert jobs["test_mse"][1] == 0.36
    assert jobs["overrides"][1] == "attention=full seed=2"
    assert set(jobs["parameters"]) == {"1234567"}
    assert not list(sweep.glob(".*"))


def test_a_figure_from_a_busy_machine_is_marked_in_the_table_and_flagged_in_the_file(sweep: Path) -> None:
    path = sweep / "attention-linear_seed-1" / "result.json"
    result = json.loads(path.read_text())
    result["speed"] |= {**Load(20, 25, 13, 15).figures("train"), "inference_windows_per_s": 9.5}
    rewrite(path, result)
    (marked,) = (line.split() for line in printed(sweep).splitlines() if "1,001" in line)
    (other,) = (line.split() for line in printed(sweep).splitlines() if "1,002" in line)
    assert {"1,001!", "12.3!", "9.5"} <= set(marked)
    assert {"1,002", "12.3"} <= set(other)
    report(sweep)
    rows = pd.read_csv(sweep / "sweep.csv").set_index("configuration")
    assert rows["train_disturbed"]["attention=linear"] == 1
    assert rows["train_other_cpu_seconds"]["attention=linear"] == 15
    assert np.isnan(rows["train_disturbed"]["attention=full"])


def test_the_table_fits_a_line_of_120_and_a_long_configuration_is_folded(sweep: Path) -> None:
    job(sweep, "taylor_of_a_very_long_name_that_has_to_be_folded_somewhere", 0.5)
    lines = printed(sweep).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 120
    assert "0.3300 ± 0.0300" in "".join(lines)
    assert "attention=full" in "".join(lines)


def test_the_title_says_which_windows_are_scored(sweep: Path) -> None:
    assert "scored" not in printed(sweep)
    for path in sweep.glob("*/result.json"):
        result = json.loads(path.read_text())
        result["data"] |= {"windows": {"test": 557}, "evaluation_stride": 5}
        rewrite(path, result)
    assert "4 of 4 jobs finished, 1 of 5 validation and test windows scored" in printed(sweep)
    report(sweep)
    rows = pd.read_csv(sweep / "jobs.csv")
    assert set(zip(rows["test_windows"], rows["evaluation_stride"], strict=True)) == {(557, 5)}


def test_jobs_are_in_numerical_order(tmp_path: Path) -> None:
    for seed in (10, 9, 100):
        job(tmp_path, "full", 0.3, seed=seed)
    assert list(read_jobs(tmp_path)["seed"]) == [9, 10, 100]


def test_a_folder_without_jobs_prints_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(tmp_path / "absent")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        *((file, "{", f"{file} is not readable: the folder") for file in ("result.json", "job.json", "config.json")),
        ("failed.json", "[]", "failed.json is not written by this program: the folder"),
        ("result.json", "{}", "its files are not written by this program: the folder"),
        ("job.json", '{"overrides": []}', "its files are not written by this program: the folder"),
        ("failed.json", '{"job": "mean"}', "its files are not written by this program: the folder"),
    ],
)
def test_a_damaged_folder_is_named_and_the_others_are_counted(sweep: Path, file: str, content: str, said: str) -> None:
    folder = job(sweep, "mean", 0.5)
    (folder / file).write_text(content)
    seal(folder)
    jobs = read_jobs(sweep)
    (row,) = jobs[jobs["status"] == "damaged"].to_dict("records")
    assert (row["job"], row["error"]) == ("attention-mean_seed-1", f"{said} is damaged")
    assert "4 of 5 jobs finished" in printed(sweep)
    report(sweep)
    assert len(pd.read_csv(sweep / "jobs.csv")) == 5


def test_scores_of_the_validation_split_are_named_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        folder = job(tmp_path, "full", 0.3, seed=seed)
        result = json.loads((folder / "result.json").read_text())
        result["data"]["scored_split"] = "validation"
        rewrite(folder / "result.json", result)
        seal(folder)
    report(tmp_path)
    printed = capsys.readouterr().out
    assert "test MSE" not in printed
    assert "val. MSE" in printed
    assert "no test split: these windows selected the weights" in " ".join(printed.split())
    for name in ("sweep.csv", "jobs.csv"):
        assert pd.read_csv(tmp_path / name)["scored_split"].dropna().eq("validation").all()


def test_the_table_of_a_search_has_the_best_validation_score_first_and_no_test_score(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(sweep, "mean", 0.2)
    unfinished(sweep, "attention=taylor", "not so")
    report(sweep, search=True)
    printed = capsys.readouterr().out
    assert "test M" not in printed
    assert "skill" not in printed
    assert printed.index("attention=mean") < printed.index("attention=full") < printed.index("attention=linear")
    assert "seasonal naive" not in printed
    for file in ("jobs.csv", "sweep.csv"):
        table = pd.read_csv(sweep / file)
        assert table["validation_mse"].dropna().is_monotonic_increasing
        assert not [column for column in table if column.startswith("test") or column.startswith("skill")]
