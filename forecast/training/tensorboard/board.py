"""TensorBoard's logger as this program uses it: one event file in the run folder, and a clock on its work."""

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.loggers import TensorBoardLogger
from PIL import Image

from forecast.common.files import gone
from forecast.common.stopwatch import Stopwatch
from forecast.training.tensorboard.hparams import session_end, session_start, table_columns

FLUSH_SECONDS = 10
"""Longest time that a point takes from the run to the file, for whoever looks on."""


class _LeftToTheNextWrite:
    """Keeps the thread that writes the event file from printing a traceback: the next write raises the same error."""

    def __init__(self, otherwise: Callable[[threading.ExceptHookArgs], Any]) -> None:
        self.otherwise = otherwise

    def __call__(self, raised: threading.ExceptHookArgs) -> None:
        writes = type(raised.thread).__module__ == "tensorboard.summary.writer.event_file_writer"
        if not (writes and isinstance(raised.exc_value, OSError)):
            self.otherwise(raised)


class Board(TensorBoardLogger):
    """Writes scalars, figures, text and hyper-parameters of one run into its folder.

    Parameters
    ----------
    save_dir
        The run folder, nothing below it.
    purge_step
        For a run that goes on after this many steps: what the folder's earlier files say of later ones is
        hidden, so that each curve has each step once. 0 for a new run, whose file has to say so too: the
        first mark of a start that TensorBoard's slower reader finds hides nothing.

    Attributes
    ----------
    clock
        The time spent here. The callbacks that draw for the board run it too.
    """

    def __init__(self, save_dir: str, purge_step: int = 0) -> None:
        super().__init__(
            save_dir, name="", version="", default_hp_metric=False, purge_step=purge_step, flush_secs=FLUSH_SECONDS
        )
        if not isinstance(threading.excepthook, _LeftToTheNextWrite):
            threading.excepthook = _LeftToTheNextWrite(threading.excepthook)
        self.clock = Stopwatch()
        self._scalars: dict[str, None] = {}  # in the order in which they came

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add a point to each scalar's curve; not Lightning's `epoch`, as a run has only one."""
        with self.clock:
            self._check_folder()
            kept = {name: value for name, value in metrics.items() if name != "epoch"}
            self._scalars |= dict.fromkeys(kept)
            super().log_metrics(kept, step)

    def add_image(self, tag: str, pixels: np.ndarray, step: int) -> None:
        """Add a picture, shape (height, width, 3), uint8; at most 64 colours of it are kept."""
        with self.clock:
            self.experiment.file_writer.add_summary(image_summary(tag, pixels), step)

    def add_text(self, tag: str, markdown: str, step: int) -> None:
        """Add a text."""
        with self.clock:
            self.experiment.add_text(tag, markdown, step)

    def add_histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Add the distribution of some numbers, any shape; none of them NaN."""
        with self.clock:
            self.experiment.add_histogram(tag, values, step)

    def begin_session(self, config: Mapping[str, Any]) -> None:
        """Enter the run with its configuration into the table of the HParams tab.

        The table takes the first entry of a folder, so a run that goes on keeps its line; the metrics beside
        it are the last points of all scalars.
        """
        self._add(session_start(config))

    def end_session(self, first: Sequence[str] = ()) -> None:
        """Mark the run as finished there, the scalars named `first` before its others, and close the file."""
        self._add(table_columns([*dict.fromkeys([*first, *self._scalars])]))
        self._add(session_end())
        with self.clock:
            self.experiment.close()

    def save(self) -> None:
        """Bring everything to the file; Lightning's own also leaves an empty `hparams.yaml`."""
        with self.clock:
            self._check_folder()
            self.experiment.flush()

    def finalize(self, status: str) -> None:
        """Bring everything to the file, which stays open after a fit: the test scores are yet to come."""
        if self._experiment is None or self._is_gone():
            return
        self.save()
        if status != "success":
            self.experiment.close()

    def _check_folder(self) -> None:
        """Refuse to write where the folder was removed: the writer's own thread would end with a traceback."""
        if self._experiment is not None and self._is_gone():
            raise gone(Path(self.log_dir))

    def _is_gone(self) -> bool:
        return not Path(self.log_dir).is_dir()

    def _add(self, summary: Any) -> None:
        with self.clock:
            self.experiment.file_writer.add_summary(summary, 0)


def image_summary(tag: str, pixels: np.ndarray) -> Any:
    """Give the entry of a picture; a third of the time and the bytes of `SummaryWriter.add_image`."""
    from tensorboard.compat.proto import summary_pb2

    file = io.BytesIO()
    drawing = Image.fromarray(np.ascontiguousarray(pixels))
    drawing.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(file, "PNG", compress_level=3)
    height, width, _ = pixels.shape
    image = summary_pb2.Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=file.getvalue())
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, image=image)])
