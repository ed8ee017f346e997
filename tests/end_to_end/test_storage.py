"""A run with a memory-mapped table: the same numbers, one printed line, no files left."""

import resource
from pathlib import Path

import pytest

from forecast.common.cli import explain
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import changed, quick

SCORED = ("validation", "test", "linear_path", "baselines", "model", "linear_fit")


def test_a_mapped_table_gives_identical_scores(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = changed({**tiny_run.config, "output_dir": str(tmp_path)}, training__data_placement="mapped")
    run, result = train(config)
    assert {key: result[key] for key in SCORED} == {key: tiny_run.result[key] for key in SCORED}
    for name in ("model.safetensors", "calibration.safetensors", "forecast.csv", "errors.parquet"):
        assert (run.path / name).read_bytes() == (tiny_run.path / name).read_bytes()
    printed = capsys.readouterr().out.splitlines()
    assert (
        sum(line.startswith("hours: table of 0.0 MiB in a memory-mapped file, as requested; cpu") for line in printed)
        == 1
    )
    placement = result["data"]["placement"]
    assert (placement["where"], placement["wanted"]) == ("mapped", "mapped")
    assert placement["table_bytes"] == 700 * (3 + 4) * 4
    assert tiny_run.result["data"]["placement"]["where"] == "device"
    assert 0 < result["speed"]["data_wait_share"] < 1
    left = {path.name for path in run.path.iterdir() if not path.name.startswith("events")}
    assert left == {path.name for path in tiny_run.path.iterdir() if not path.name.startswith("events")}
    assert [path.name for path in tmp_path.iterdir()] == ["hours"]


def test_a_full_disk_for_a_mapped_table_has_exit_code_4_and_leaves_no_folder(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="the memory-mapped table takes") as ended:
            train(quick(tmp_path / "outputs", "training.data_placement=mapped"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    known = explain(ended.value)
    assert known is not None
    assert known[1] == 4
    assert list(tmp_path.iterdir()) == []
