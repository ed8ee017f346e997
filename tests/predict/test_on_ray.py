"""Forecasts of a folder by the workers of Ray."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.predict.blocks import Blocks
from forecast.predict.forecast import Question
from forecast.predict.on_ray import _workers
from tests.conftest import TinyRun
from tests.support.panels import stores
from tests.support.small import ROOT


def test_a_cluster_with_too_few_free_cpus_is_refused_in_one_line() -> None:
    assert _workers(6, None, "auto") == 4
    assert _workers(6, 4, "auto") == 4
    for free, wanted in ((6, 5), (2, None)):
        with pytest.raises(InputError, match=f"{free} CPUs are free, {wanted or 1} workers need"):
            _workers(free, wanted, "auto")


class Slow(Blocks):
    """Blocks that take half a second each."""

    def write(self, number: int) -> None:
        time.sleep(0.5)
        super().write(number)


def main(run: str, source: str, output: str, engine: str) -> None:
    """Forecast one series a block."""
    Slow(run, source, output, Question(), batch=1).forecast(engine, 2 if engine == "ray" else None, None)


def workers_of_ray() -> list[int]:
    """Return the processes of Ray that forecast blocks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::" in path.read_bytes() and b"MapBatches" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.exhaustive
def test_a_killed_worker_and_a_killed_driver_lose_and_double_nothing(panel_run: TinyRun, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    stores().to_parquet(source / "a.parquet", index=False)
    main(str(panel_run.path), str(source), str(tmp_path / "local"), "local")
    program = "import sys; from tests.predict.test_on_ray import main; main(*sys.argv[1:])"
    on_ray = [sys.executable, "-c", program, str(panel_run.path), str(source), str(output), "ray"]
    for victim in ("driver", "worker", None):
        driver = subprocess.Popen(on_ray, start_new_session=True, cwd=ROOT)
        before = len(list(output.glob("part-*")))
        while victim is not None and len(list(output.glob("part-*"))) < before + 2 and driver.poll() is None:
            time.sleep(0.05)
        if victim == "driver":
            os.killpg(driver.pid, signal.SIGKILL)
        elif victim == "worker":
            os.kill(workers_of_ray()[0], signal.SIGKILL)
        assert driver.wait(600) == (-signal.SIGKILL if victim == "driver" else 0)
    names = sorted(path.name for path in output.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "local").iterdir())
    for name in names:
        assert (output / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
