"""The loggers of a run, TensorBoard above all: curves, the entry in the HParams table, and the final scores."""

import inspect
import io
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.loggers.logger import DummyLogger
from omegaconf import OmegaConf

from forecast.common.errors import InputError, first_line
from forecast.common.files import flatten, gone
from forecast.common.tables import inert
from forecast.common.targets import TARGET, check_target, loggers_of, make
from forecast.common.timing import Stopwatch
from forecast.evaluation.metrics import RELATIVE
from forecast.runs.summary import scored_split, summary

SHOWN = (
    ("attention.name", "attention", "string"),
    ("context_length", "look-back", "number"),
    ("words", "options", "string"),
)
"""Columns of the HParams table besides the metrics: name, heading and type."""

COMPARED = {
    "test/mse": "test MSE",
    "test/mae": "test MAE",
    "speed/train_windows_per_s": "training, windows/s",
    "speed/inference_windows_per_s": "inference, windows/s",
    "speed/peak_memory_mib": "peak memory, MiB",
}
"""Scalars in the first metric columns of the HParams table, and their headings."""

Value = bool | int | float | str


def table_values(config: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values of a nested configuration by dotted name, with lists as text and None as "null"."""
    values = {name: "null" if value is None else value for name, value in flatten(config).items()}
    return {name: value if isinstance(value, Value) else str(value) for name, value in values.items()}


def session_start(config: Mapping[str, Any]) -> Any:
    """Return the summary with the configuration of a new run."""
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
    for name, value in table_values(config).items():
        if isinstance(value, bool):
            info.hparams[name].bool_value = value
        elif isinstance(value, str):
            info.hparams[name].string_value = value
        else:
            info.hparams[name].number_value = value
    return _summary(metadata.SESSION_START_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_start_info=info))


def table_columns(scalars: Iterable[str], split: str = "test") -> Any:
    """Return the summary with the columns of the table: `SHOWN`, `COMPARED`, then the other `scalars` in order.

    `split` is the split of the scores under `test/`, which the headings name.

    Without it TensorBoard shows five hyperparameters first, and no metric fits on a page of 1,300 pixels.
    """
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    kinds = {"string": api_pb2.DATA_TYPE_STRING, "number": api_pb2.DATA_TYPE_FLOAT64}
    columns = [api_pb2.HParamInfo(name=name, display_name=text, type=kinds[kind]) for name, text, kind in SHOWN]
    tags = sorted(scalars, key=[*COMPARED, *scalars].index)
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=_heading(tag, split)) for tag in tags]
    experiment = api_pb2.Experiment(hparam_infos=columns, metric_infos=metrics)
    return _summary(metadata.EXPERIMENT_TAG, plugin_data_pb2.HParamsPluginData(experiment=experiment))


def _heading(tag: str, split: str) -> str:
    """Return the heading of a scalar; one of the test split that holds scores of another split names that."""
    heading = COMPARED.get(tag, tag)
    is_test = tag.startswith(("test/", "test_baseline/"))
    return heading.replace("test", split, 1) if is_test else heading


def session_end() -> Any:
    """Return the summary that marks a run as finished."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=time.time())
    return _summary(metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=info))


def _summary(tag: str, content: Any) -> Any:
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import metadata

    about = metadata.create_summary_metadata(content)
    value = summary_pb2.Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)
    return summary_pb2.Summary(value=[value])


FLUSH_SECONDS = 10
"""Maximum seconds until a point is written to the file."""


class _HideWriterErrors:
    """Thread hook without tracebacks of the event writer's OSError, since the next write raises the same error."""

    def __init__(self, previous: Callable[[threading.ExceptHookArgs], Any]) -> None:
        self.previous = previous

    def __call__(self, raised: threading.ExceptHookArgs) -> None:
        is_writer = type(raised.thread).__module__ == "tensorboard.summary.writer.event_file_writer"
        if not (is_writer and isinstance(raised.exc_value, OSError)):
            self.previous(raised)


class Board(TensorBoardLogger):
    """Writes scalars, figures, text and hyperparameters of one run into its folder.

    Parameters
    ----------
    save_dir
        The run folder; no subfolder is made.
    purge_step
        The number of steps before a run resumes. TensorBoard hides points of later steps in earlier files, so that
        each curve has each step once. A new run passes 0, since TensorBoard's slower reader ignores the first value.

    Attributes
    ----------
    clock
        The time spent in the logger. Callbacks that draw for TensorBoard run it too.
    """

    def __init__(self, save_dir: str, purge_step: int = 0) -> None:
        super().__init__(
            save_dir, name="", version="", default_hp_metric=False, purge_step=purge_step, flush_secs=FLUSH_SECONDS
        )
        if not isinstance(threading.excepthook, _HideWriterErrors):
            threading.excepthook = _HideWriterErrors(threading.excepthook)
        self.clock = Stopwatch()
        self._scalars: dict[str, None] = {}  # in order of arrival

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add a point to the curve of each scalar, without Lightning's `epoch`, since a run has only one."""
        with self.clock:
            self._check_folder()
            values = {name: value for name, value in metrics.items() if name != "epoch"}
            self._scalars |= dict.fromkeys(values)
            try:
                super().log_metrics(values, step)
            except ValueError as error:  # Lightning raises it for all causes, a full disk included
                if isinstance(error.__cause__, OSError):
                    raise error.__cause__ from None
                raise

    def add_image(self, tag: str, pixels: np.ndarray, step: int) -> None:
        """Add a picture, shape (height, width, 3), uint8."""
        with self.clock:
            self.experiment.file_writer.add_summary(image_summary(tag, pixels), step)

    def add_text(self, tag: str, markdown: str, step: int) -> None:
        """Add a text. Its tag differs from those of pictures: TensorBoard keeps one kind of data per tag."""
        with self.clock:
            self.experiment.file_writer.add_summary(text_summary(tag, markdown), step)

    def add_histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Add the distribution of numbers of any shape without NaN."""
        with self.clock:
            self.experiment.add_histogram(tag, values, step)

    def begin_session(self, config: Mapping[str, Any]) -> None:
        """Add the run with its configuration to the HParams table.

        The table uses the first entry of a folder, so a resumed run keeps its row. Its metrics are the last points of
        all scalars.
        """
        self._add(session_start(config))

    def end_session(self, split: str = "test") -> None:
        """Mark the run as finished in the table, add its columns with scores of `split`, and close the file."""
        self._add(table_columns(self._scalars, split))
        self._add(session_end())
        with self.clock:
            self.experiment.close()

    def save(self) -> None:
        """Flush the file. Lightning's own `save` would also write an empty `hparams.yaml`."""
        with self.clock:
            self._check_folder()
            self.experiment.flush()

    def finalize(self, status: str) -> None:
        """Flush the file; after a successful fit it stays open for the test scores."""
        if self._experiment is None or self._is_gone():
            return
        self.save()
        if status != "success":
            self.experiment.close()

    def _check_folder(self) -> None:
        """Raise an error if the folder was removed: the writer thread would end with a traceback."""
        if self._experiment is not None and self._is_gone():
            raise gone(Path(self.log_dir))

    def _is_gone(self) -> bool:
        return not Path(self.log_dir).is_dir()

    def _add(self, summary: Any) -> None:
        with self.clock:
            self.experiment.file_writer.add_summary(summary, 0)


def image_summary(tag: str, pixels: np.ndarray) -> Any:
    """Return the summary of a picture; faster than `SummaryWriter.add_image`."""
    from matplotlib.image import imsave
    from tensorboard.compat.proto import summary_pb2

    file = io.BytesIO()
    imsave(file, pixels, format="png", pil_kwargs={"compress_level": 6})
    height, width, _ = pixels.shape
    image = summary_pb2.Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=file.getvalue())
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, image=image)])


def text_summary(tag: str, markdown: str) -> Any:
    """Return the summary of a text under its own tag; `SummaryWriter.add_text` would append `/text_summary`."""
    from torch.utils.tensorboard.summary import text

    summary = text(tag, markdown)
    summary.value[0].tag = tag
    return summary


def final_scalars(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a `result.json` by tag.

    `test/…` and `val_best/…` are the model's test and validation scores, on z-scores unless the name says relative or
    original units. `test_baseline/…` are the scores of the other rows. `speed/…` are the speed figures.
    """
    return {name: float(value) for name, value in _named(result) if value is not None and math.isfinite(value)}


def _named(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for part, name in (("test", "test"), ("validation", "val_best")):
        for score, value in result[part]["scaled"].items():
            yield f"{name}/{score}", value
        for score, value in result[part]["original"].items():
            yield f"{name}/{score}" if score in RELATIVE else f"{name}/{score}_original", value
        for score, value in (result[part].get("intervals") or {}).items():
            if not isinstance(value, Mapping):
                yield f"{name}/{score}", value
        yield f"{name}/skill", result[part].get("skill")
    for row, scores in {"linear_path": result["linear_path"], **result["baselines"]}.items():
        if scores is not None:
            for score in ("mse", "mae"):
                yield f"test_baseline/{row}_{score}", scores["test"]["scaled"][score]
            for score in RELATIVE:
                yield f"test_baseline/{row}_{score}", scores["test"]["original"].get(score)
            yield f"test_baseline/{row}_sql", (scores["test"].get("intervals") or {}).get("sql")
    for name, value in result["speed"].items():
        yield f"speed/{name}", value
    for name, value in result["model"].items():
        yield f"model/{name}", value


OURS = {"save_dir", "purge_step", "kwargs"}
"""Arguments of a logger that this program sets from `output_dir` and `resume`."""

REQUIREMENT = re.compile(r"Requirement '([\w.-]+)|No module named '([\w-]+)")
"""Messages of Lightning and Python for a logger whose package is missing."""


def check_logger(config: Mapping[str, Any]) -> None:
    """Refuse a `logger` group that would fail later, or that sets an argument of `OURS`; an empty one is no logger."""
    for where, node in loggers_of(config).items():
        check_target(node, where, Logger)
        kind = resolve_name(str(node[TARGET]))
        known = set(inspect.signature(kind).parameters) - OURS
        for key in set(node) - known - {TARGET}:
            raise InputError(f"{where}.{key}: not an option of {kind.__name__}, or set by output_dir")


def make_loggers(config: Mapping[str, Any], folder: str, purge_step: int = 0) -> list[Logger]:
    """Return the loggers, which write into `folder`, or one that does nothing; only TensorBoard's take `purge_step`."""
    loggers = [_make_one(where, node, folder, purge_step) for where, node in loggers_of(config).items()]
    return loggers or [DummyLogger()]


def _make_one(where: str, node: Mapping[str, Any], folder: str, purge_step: int) -> Logger:
    kind = resolve_name(str(node[TARGET]))
    more = {"purge_step": purge_step} if issubclass(kind, TensorBoardLogger) else {}
    try:
        logger: Logger = make(node, where, save_dir=folder, **more)
        if not isinstance(logger, Board):
            getattr(logger, "experiment", None)  # opens its store, which may refuse
    except Exception as error:  # a logger is another package, whose exceptions have no common class
        if (missing := REQUIREMENT.search(str(error))) is not None:
            text = f"needs a package that is not installed: pip install {missing[1] or missing[2]}"
            raise InputError(f"{where}: {node[TARGET]}: {text}") from None
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: {node[TARGET]}: {first_line(error)}") from None
    return logger


def board_of(loggers: Iterable[Logger]) -> Board | None:
    """Return the TensorBoard logger of this program among the loggers; None without one."""
    return next((each for each in loggers if isinstance(each, Board)), None)


def log_start(loggers: Iterable[Logger], config: Mapping[str, Any]) -> None:
    """Log the options before the first step: for TensorBoard as a run of the HParams table."""
    for logger in loggers:
        if isinstance(logger, Board):
            logger.begin_session({**config, "words": " ".join(sys.argv[1:]) or "none"})
        else:
            logger.log_hyperparams(table_values(config))


def log_end(loggers: Iterable[Logger], result: Mapping[str, Any]) -> None:
    """Log all scores and speed figures of a finished run at its last step; for TensorBoard also a summary."""
    step = result["model"]["steps"]
    for logger in loggers:
        logger.log_metrics(final_scalars(result), step=step)
        if not isinstance(logger, Board):
            logger.finalize("success")
            continue
        logger.add_text("1_summary", summary(result), step)
        lines = map(inert, OmegaConf.to_yaml(result["config"]).splitlines())
        logger.add_text("2_configuration", "\n".join(["```yaml", *lines, "```"]), step)
        logger.end_session(scored_split(result))
