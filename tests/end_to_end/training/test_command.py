"""Errors, output and exit codes of a training."""

import math
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.runs.settings import SET_ELSEWHERE
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.support.small import HORIZON, QUICK, ROOT, SMALL, changed, quick, snapshot

WRONG: list[dict[str, Any]] = [
    {"horizon": "abc"}, {"horizon": 0}, {"horizon": 5000}, {"context_length": 1.5}, {"context_length": True},
    {"context_length": 5000}, {"seed": -1}, {"seed": "x"}, {"seed": 2**32}, {"loss": "foo"}, {"loss": 5},
    {"output_dir": 5}, {"foo": 1}, {"callbacks": None}, {"logger": 5}, {"decoder_attention": 5},
    {"model__name": "foo"}, {"model__d_model": 0}, {"model__d_model": "x"}, {"model__dropout": 2},
    {"model__dropout": 0.999999},
    {"model__dropout": math.nan}, {"model__num_heads": 3}, {"model__patch_length": 1000}, {"model__channels": "foo"},
    {"model__linear_path": "foo"}, {"model__linear_path": True}, {"model__head_dim": "x"}, {"model__foo": 1},
    {"training__max_steps": 0}, {"training__max_steps": 1.5}, {"training__max_epochs": -1},
    {"training__max_epochs": math.nan}, {"training__max_epochs": math.inf}, {"training__batch_size": "x"},
    {"training__batch_size": 0}, {"training__evaluation_batch_size": 0}, {"training__precision": "fp8"},
    {"training__precision": 16}, {"training__max_time": "soon"}, {"training__max_time": 5},
    {"training__max_time": "00:00:00:00"}, {"training__max_grad_norm": 0}, {"training__progress": 5},
    {"training__validations_per_epoch": 0}, {"training__validations_per_epoch": math.nan}, {"training__foo": 1},
    {"optimizer__lr": "abc"}, {"optimizer__lr": -1}, {"optimizer__lr": math.nan}, {"optimizer__foo": 1},
    {"scheduler__warmup_fraction": 2}, {"scheduler__warmup_fraction": 1.0}, {"scheduler__warmup_fraction": "x"},
    {"scheduler__foo": 1}, {"scheduler___target_": "os.makedirs"}, {"optimizer___target_": "os.makedirs"},
    {"data__rows": "abc"}, {"data__rows": 0}, {"data__rows": 5}, {"data__rows": 1.5}, {"data__seed": "x"},
    {"data__seed": -1}, {"data__name": 5}, {"data__source": "foo"}, {"data__path": "x.csv"}, {"data__split": 5},
    {"data__split__train": 0.9}, {"data__split__train": "x"}, {"data__split__foo": 1}, {"data__targets": "load"},
    {"data__targets": ["nope"]}, {"data__targets": []}, {"data__past_covariates": "load"},
    {"data__past_covariates": ["nope"], "data__targets": None}, {"data__known_covariates": ["x"]},
    {"data__calendar": "hour_of_day"}, {"data__calendar": ["tide"]}, {"data__calendar": ["minute_of_hour"]},
    {"data__calendar": ["hour_of_day", "hour_of_day"]},
    {"data__frequency": "h"},
    {"data__time_column": "date"}, {"attention__name": "os.system"}, {"attention__name": "../base"},
    {"attention__name": "base"}, {"attention__foo": 1}, {"attention__implementation": "foo"},
    {"trainer__devices": 0}, {"trainer__devices": "auto"}, {"trainer__devices": "x"}, {"trainer__accelerator": "tpu"},
    {"trainer__num_nodes": 2}, {"trainer__num_nodes": 0}, {"trainer__strategy": "fsdp"},
    {"training__batch_size": 17, "trainer__devices": 2},
    {"trainer__log_every_n_steps": "x"}, {"trainer__log_every_n_steps": 0}, {"trainer__foo": 1},
    {"trainer__limit_val_batches": 2}, {"trainer__limit_train_batches": 2}, {"trainer__accumulate_grad_batches": 2},
    {"trainer__fast_dev_run": True}, {"trainer__num_sanity_val_steps": 2}, {"trainer__benchmark": "x"},
    *({f"trainer__{key}": 1} for key in SET_ELSEWHERE),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a configuration, composed once because composing is slow."""
    return quick(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("values", WRONG, ids=lambda values: ",".join(f"{k}={v}" for k, v in values.items()))
def test_a_wrong_value_is_refused_by_name_in_one_line(
    plain: dict[str, Any], values: dict[str, Any], tmp_path: Path
) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")}, **values)
    with pytest.raises(InputError) as caught:
        train(wrong)
    name, *_ = values
    group, *keys = name.split("__")
    assert (keys[0] if keys and keys[0] != "name" else group) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "key", ["horizon", "data", "callbacks", "scheduler", "training__progress", "trainer__devices", "data__split__test"]
)
def test_a_missing_key_is_named(plain: dict[str, Any], key: str, tmp_path: Path) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")})
    *groups, last = key.split("__")
    node = wrong
    for group in groups:
        node = node[group]
    del node[last]
    with pytest.raises(InputError, match=last):
        train(wrong)
    assert list(tmp_path.iterdir()) == []


def test_the_cosine_schedule_refuses_negative_warm_up_steps(plain: dict[str, Any], tmp_path: Path) -> None:
    scheduler = {"_target_": "forecast.training.schedule.cosine", "warmup_steps": -1, "final_factor": 0.0}
    with pytest.raises(InputError, match="warmup_steps=-1"):
        train({**plain, "scheduler": scheduler, "output_dir": str(tmp_path / "outputs")})
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_callback_is_refused_before_a_folder_is_made(plain: dict[str, Any], tmp_path: Path) -> None:
    wrong = changed({**plain, "output_dir": str(tmp_path / "outputs")}, callbacks__early_stopping__patience="x")
    with pytest.raises(InputError, match="patience"):
        train(wrong)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_is_a_file_is_refused(plain: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    for folder in ("taken", "taken/deeper"):
        with pytest.raises(InputError, match="taken is a file"):
            train({**plain, "output_dir": str(tmp_path / folder)})
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention=nope"], "full"),
        (["foo=1"], "foo"),
        (["attention.factor=9"], "factor"),
        (["horizon="], "horizon"),
        (["data=csv"], "data.path"),
        (["data=csv", "data.path=my file [1].csv"], "'data.path=\"my file [1].csv\"'"),
        (["data=csv", 'data.path="my file [1].csv"'], "my file [1].csv: no such file"),
        (["horizon=abc"], "horizon=abc"),
        (["+trainer.precision=16"], "training.precision"),
    ],
)
def test_an_error_is_one_line_with_exit_code_2(command: Any, words: list[str], message: str, tmp_path: Path) -> None:
    code, out, error = command("data.rows=700" if "data=csv" not in words else "seed=1", *words)
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert list(tmp_path.iterdir()) == []


def test_the_printed_forecast_command_works(command: Any, tmp_path: Path) -> None:
    code, out, error = command("data.rows=700", *SMALL["patch_informer"], *QUICK, "output_dir='my runs'")
    assert (code, error) == (0, "")
    for row in ("model", "its linear path alone", "last value", "seasonal naive", "linear (ridge)"):
        assert row in out
    assert "all 129 test windows" in out
    (line,) = [line for line in out.splitlines() if line.startswith("Next:")]
    words = shlex.split(line)[4:]
    from forecast.predict.__main__ import main

    assert main(words) == 0
    assert len(pd.read_csv(tmp_path / "forecast.csv")) == HORIZON


def test_a_training_without_logger_and_callbacks_can_be_resumed(command: Any, tmp_path: Path) -> None:
    words = ["logger=null", "callbacks=null", "attention@decoder_attention=null", "output_dir=runs"]
    code, out, error = command("data.rows=700", *SMALL["patch_informer"], *QUICK, *words)
    assert (code, error) == (0, "")
    assert "TensorBoard" not in out
    (run,) = (tmp_path / "runs" / "synthetic").iterdir()
    assert not list(run.glob("events*"))
    assert "already finished" in command(f"resume={run}")[1]


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_training_has_the_exit_code_of_the_signal(
    command: Any, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def interrupt(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(ForecastTask, "training_step", interrupt)
    assert command("data.rows=700", *SMALL["patch_informer"], *QUICK)[0] == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_the_step_and_prints_how_to_resume(
    command: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    original = ForecastTask.training_step
    words = ("data.rows=700", *SMALL["patch_informer"], *QUICK)

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 5:
            signal.raise_signal(number)
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    ended, _, errors = command(*words)
    assert ended == code
    assert errors.startswith("stopped: interrupted at step 6 of 12, which is saved: resume with resume=")
    assert errors.count("\n") == 1
    monkeypatch.setattr(ForecastTask, "training_step", original)
    ended, output, _ = command(errors.split()[-1])
    assert ended == 0
    assert "resuming after step 6" in output


@pytest.mark.slow
def test_an_error_of_a_child_process_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "attention=nope"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert snapshot(tmp_path) == {}
