"""Event files: one per start, each step once, one table row per run."""

import errno
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from forecast.training.tensorboard.logger import Board, make_loggers
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.boards import curve, events, hparams_tab, images, last_scalars
from tests.support.interruptions import next_second
from tests.support.pictures import drawing
from tests.support.small import quick

BOARD = {"_target_": "forecast.training.tensorboard.logger.Board"}


def started(folder: Path, steps: range, level: float, purge_step: int = 0) -> Board:
    """Return the logger of a run that stopped after `steps`."""
    (board,) = make_loggers(BOARD, str(folder), purge_step)
    assert isinstance(board, Board)
    board.begin_session({"seed": 1, "attention": {"name": "full"}})
    for step in steps:
        board.log_metrics({"train/loss": level + step, "epoch": 0}, step)
        if step % 5 == 4:
            board.log_metrics({"val/mse": level}, step)
    board.save()
    return board


def test_the_logger_of_a_run_writes_one_event_file_only(tiny_run: TinyRun) -> None:
    assert len(list(tiny_run.path.glob("events.out*"))) == 1
    assert not (tiny_run.path / "hparams.yaml").exists()
    assert "epoch" not in events(tiny_run.path).Tags()["scalars"]


@pytest.mark.parametrize(
    "target", ["forecast.training.tensorboard.logger.Board", "lightning.pytorch.loggers.TensorBoardLogger"]
)
def test_a_curve_of_a_resumed_run_has_each_step_once(tmp_path: Path, target: str) -> None:
    places = {} if target == BOARD["_target_"] else {"name": "", "version": ""}
    for steps, level, purge_step in ((range(13), 100.0, 0), (range(10, 20), 0.0, 10)):
        if purge_step:
            next_second()  # files are read in the order of the seconds in their names
        logger: Any = make_loggers({"_target_": target, **places}, str(tmp_path), purge_step)[0]
        for step in steps:
            logger.log_metrics({"train/loss": level + step}, step)
        logger.experiment.close()
    wanted = {step: (100.0 if step < 10 else 0.0) + step for step in range(20)}
    assert curve(tmp_path, "train/loss") == wanted


def test_a_restarted_run_hides_the_earlier_points_of_its_folder(tmp_path: Path) -> None:
    started(tmp_path, range(13), 100.0).experiment.close()
    next_second()  # files are read in the order of the seconds in their names
    started(tmp_path, range(5), 0.0).experiment.close()
    assert curve(tmp_path, "train/loss") == {step: float(step) for step in range(5)}


def test_a_resumed_run_is_one_table_row_with_its_last_numbers(tmp_path: Path) -> None:
    killed = started(tmp_path / "run", range(13), 100.0)
    killed.experiment.close()
    ((values, metrics),) = hparams_tab(tmp_path).values()
    assert metrics["val/mse"] == 100.0
    board = started(tmp_path / "run", range(10, 20), 1.0, purge_step=10)
    board.log_metrics({"test/mse": 0.25}, 20)
    board.end_session()
    ((values, metrics),) = hparams_tab(tmp_path).values()
    assert values == {"seed": 1.0, "attention.name": "full"}
    assert metrics == {"train/loss": 20.0, "val/mse": 1.0, "test/mse": 0.25}
    assert len(list((tmp_path / "run").iterdir())) == 2


@pytest.mark.exhaustive
def test_the_runs_of_a_folder_form_one_table(tmp_path: Path) -> None:
    short = ["training.max_steps=2", "training.batch_size=8"]
    results = {}
    for words in (["attention=probsparse"], ["attention=mean"], ["attention=full", "context_length=60"]):
        with drawing("log_figures"):
            run, result = train(quick(tmp_path, *words, *short))
        results[run.path.name] = (run.path, result)
    table = hparams_tab(tmp_path / "synthetic")
    own = "probe/found"  # of probsparse alone: the table has the columns of one run
    assert set(table) == set(results)
    for name, (values, metrics) in table.items():
        path, result = results[name]
        assert values["attention.name"] == result["config"]["attention"]["name"]
        assert values["training.progress"] is False
        assert values["data.frequency"] == "null"
        assert metrics["test/mse"] == pytest.approx(result["test"]["scaled"]["mse"], rel=1e-6)
        assert metrics["test_baseline/seasonal_naive_mae"] > 0
        assert metrics["speed/flops_per_window"] == result["speed"]["flops_per_window"]
        assert metrics["model/parameters"] == result["model"]["parameters"]
        listed = {tag: value for tag, value in last_scalars(path).items() if not tag.startswith(own) or tag in metrics}
        assert metrics == pytest.approx(listed, rel=1e-6)
    by_name = {values["attention.name"]: values for values, _ in table.values()}
    assert by_name["probsparse"]["attention.factor"] == 5.0
    assert "attention.factor" not in by_name["mean"]
    first, *others = ({name for name in metrics if not name.startswith(own)} for _, metrics in table.values())
    assert all(other == first for other in others)
    tags = [events(path).Tags()["images"] for path, _ in results.values()]
    places = ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]
    errors = ["2_errors/test_by_horizon_step", "2_errors/validation_by_hour_of_day"]
    intervals = ["3_intervals/reliability", "3_intervals/coverage_by_horizon_step"]
    maps = [f"attention/{place}" for place in dict.fromkeys([places[0], *places[-3:]])]
    assert (
        sorted(tags[0])
        == sorted(tags[1])
        == sorted(tags[2])
        == sorted(["1_forecasts/validation", *errors, *intervals, *maps, "probe/heads"])
    )


def test_the_result_has_the_curve_of_the_validations(tiny_run: TinyRun) -> None:
    rows = tiny_run.result["validations"]
    points = curve(tiny_run.path, "val/mse")
    assert [row["step"] - 1 for row in rows] == list(points)
    assert [row["mse"] for row in rows] == pytest.approx(list(points.values()), rel=1e-6)
    assert rows[-1]["step"] == tiny_run.result["model"]["steps"]
    seconds = [row["seconds"] for row in rows]
    assert 0 <= seconds[0] < seconds[-1] < tiny_run.result["speed"]["fit_seconds"]
    assert seconds == sorted(seconds)


@pytest.mark.slow
def test_the_curve_begins_with_the_scored_start(tmp_path: Path) -> None:
    _, result = train(quick(tmp_path, "training.max_steps=2"))
    start = result["validations"][0]
    assert (start["step"], start["seconds"]) == (0, 0.0)
    assert start["mse"] == pytest.approx(result["linear_path"]["validation"]["scaled"]["mse"], rel=0.2)


def test_the_summary_has_command_data_and_scores(tiny_run: TinyRun) -> None:
    (entry,) = events(tiny_run.path).Tensors("1_summary")
    text = entry.tensor_proto.string_val[0].decode()
    assert tiny_run.result["command"] in text
    assert "700 rows (frequency h), 2 targets" in text
    assert f"| model | {tiny_run.result['test']['scaled']['mse']:.4f} |" in text
    assert text.count("| seasonal naive (24 h) |") == 1
    assert " FLOPs a window" in text


def test_the_error_by_step_is_one_picture_at_the_last_step(tiny_run: TinyRun) -> None:
    assert list(images(tiny_run.path, "2_errors/test_by_horizon_step")) == [tiny_run.result["model"]["steps"]]


def test_the_clock_measures_every_method(tmp_path: Path) -> None:
    import numpy as np

    board = Board(str(tmp_path))
    for work in (
        lambda: board.log_metrics({"a": 1.0}, 0),
        lambda: board.add_image("picture", np.zeros((20, 30, 3), np.uint8), 0),
        lambda: board.add_text("text", "words", 0),
        lambda: board.begin_session({"seed": 1}),
        board.save,
        lambda: board.finalize("success"),
        board.end_session,
    ):
        before = board.clock.seconds
        work()
        assert board.clock.seconds > before


def test_colors_of_a_picture_survive_the_encoding(tmp_path: Path) -> None:
    import numpy as np

    pixels = np.full((10, 20, 3), 255, np.uint8)
    pixels[:5, :10] = (255, 127, 14)
    board = Board(str(tmp_path))
    board.add_image("picture", pixels, 3)
    board.end_session()
    (image,) = images(tmp_path, "picture").values()
    assert np.abs(np.asarray(image).astype(int) - pixels).max() < 8


def test_a_full_disk_raises_once_and_the_writer_thread_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    board = started(tmp_path, range(2), 1.0)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(RecordWriter, "write", Mock(side_effect=full))
    printed = Mock()
    monkeypatch.setattr(threading, "excepthook", printed)  # would print the traceback
    Board(str(tmp_path))

    def log() -> None:
        for step in range(100):
            board.log_metrics({"train/loss": 1.0}, step)
            board.save()

    with pytest.raises(OSError, match="No space left"):
        log()
    printed.assert_not_called()
    assert capfd.readouterr().err == ""


def test_a_disk_error_while_logging_is_raised_as_an_os_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = started(tmp_path, range(2), 1.0)
    monkeypatch.setattr(board.experiment, "add_scalar", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output error"):
        board.log_metrics({"train/loss": 1.0}, 3)
    monkeypatch.setattr(board.experiment, "add_scalar", Mock(side_effect=TypeError("no number")))
    with pytest.raises(ValueError, match="you tried to log"):
        board.log_metrics({"train/loss": 1.0}, 3)


def test_other_threads_still_print_their_tracebacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = Mock()
    monkeypatch.setattr(threading, "excepthook", printed)
    Board(str(tmp_path))
    other = threading.Thread(target=Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    other.start()
    other.join()
    printed.assert_called_once()
