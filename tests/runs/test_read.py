import json
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.common.files import flatten, sha256
from forecast.report.groups import groups_of
from forecast.runs.read import NEEDED, read_runs
from tests.conftest import TinyRun
from tests.report.made import result_of, write_run


def names(*roots: Path) -> list[str]:
    return [run.name for run in read_runs(roots).runs]


def test_a_synthetic_result_has_only_keys_of_a_real_one(tiny_run: TinyRun) -> None:
    def keys(result: dict) -> set[str]:
        kept = {**result, "config": None, "linear_path": None}
        return {key for key in flatten(kept) if not key.startswith("baselines.seasonal_naive.")}

    real = json.loads((tiny_run.path / "result.json").read_text())
    assert keys(result_of()) <= keys(real)
    assert set(NEEDED) <= set(flatten(real)) | {"baselines.last_value"}
    (run,) = read_runs([tiny_run.path]).runs
    assert (run.name, run.result["test"]) == (tiny_run.path.name, real["test"])


def test_each_file_of_a_run_is_hashed_once(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr("forecast.runs.integrity.sha256", counted)
    read_runs([tiny_run.path])
    assert "model.safetensors" in hashed
    assert len(hashed) == len(set(hashed))


def test_runs_at_any_depth_are_named_relative_to_their_root(tmp_path: Path) -> None:
    write_run(tmp_path / "sweeps" / "s" / "seed-10", result_of(seed=10))
    write_run(tmp_path / "sweeps" / "s" / "seed-9", result_of(seed=9))
    write_run(tmp_path / "etth1" / "one", result_of(seed=1))
    assert names(tmp_path) == ["etth1/one", "sweeps/s/seed-9", "sweeps/s/seed-10"]
    assert names(tmp_path / "etth1" / "one") == ["one"]
    assert names(tmp_path / "etth1", tmp_path) == [
        str(tmp_path / name) for name in ("etth1/one", "sweeps/s/seed-9", "sweeps/s/seed-10")
    ]


def test_an_unfinished_failed_damaged_or_repeated_run_is_left_out_by_name(tmp_path: Path) -> None:
    write_run(tmp_path / "good", result_of())
    write_run(tmp_path / "same", result_of())
    (write_run(tmp_path / "begun", result_of(seed=2)) / "manifest.json").unlink()
    (write_run(tmp_path / "torn", result_of(seed=3)) / "result.json").write_text('{"seed": 3,')
    old = result_of(seed=4)
    del old["model"]["steps"]
    write_run(tmp_path / "old", old)
    failed = tmp_path / "failed"
    failed.mkdir()
    (failed / "failed.json").write_text(json.dumps({"error": "horizon 9000 is too long"}))
    report = read_runs([tmp_path])
    assert [run.name for run in report.runs] == ["good"]
    left_out = dict(report.left_out)
    assert left_out["begun"] == "unfinished"
    assert left_out["failed"] == "failed: horizon 9000 is too long"
    assert left_out["same"] == "repeat: same configuration and seed as good, not counted"
    assert left_out["torn"] == "result.json is not readable: the folder is damaged"
    assert left_out["old"].startswith("result.json has no model.steps")


def test_equal_runs_in_two_sweeps_count_once(tmp_path: Path) -> None:
    for sweep in ("a", "b"):
        write_run(tmp_path / sweep / "seed-1", result_of())
    report = read_runs([tmp_path])
    assert [run.name for run in report.runs] == ["a/seed-1"]
    assert dict(report.left_out).keys() == {"b/seed-1"}


def test_a_folder_without_finished_runs_is_refused_in_one_line(tmp_path: Path) -> None:
    (write_run(tmp_path / "begun", result_of()) / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"no finished run there \(begun: unfinished\)"):
        read_runs([tmp_path])
    with pytest.raises(InputError, match="absent: no such folder"):
        read_runs([tmp_path / "absent"])


def test_other_data_another_horizon_or_a_changed_file_makes_another_section(tmp_path: Path) -> None:
    write_run(tmp_path / "1", result_of(seed=1))
    write_run(tmp_path / "2", result_of("linear"))
    write_run(tmp_path / "3", result_of(config={"horizon": 24}))
    write_run(tmp_path / "4", result_of(config={"data.name": "etth2"}))
    changed = result_of()
    changed["data"]["sha256"] = "another"
    write_run(tmp_path / "5", changed)
    groups = groups_of(read_runs([tmp_path]).runs)
    assert groups[0].title == "etth1, horizon 96 (sha256 f18d)"
    assert [run.name for each in groups[0].settings for run in each.runs] == ["1", "2"]
    assert {each.title for each in groups[1:]} == {
        *("etth1, horizon 24", "etth2, horizon 96", "etth1, horizon 96 (sha256 another)")
    }
