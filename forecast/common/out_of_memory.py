"""Out of memory: how it is known, whichever library notices, and what a training can make smaller."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from forecast.common.errors import NotEnoughMemory, first_line
from forecast.common.nested import look_up

SAID = (
    *("can't allocate memory", "Cannot allocate memory", "not enough memory", "out of memory", "bad_alloc"),
    *("Failed to allocate", "can't start new thread"),
)
"""What libraries say in an error that is of no kind of its own; the CPU's allocator and CUDA's are among them."""

SMALLER = (
    *("training.batch_size", "training.evaluation_batch_size", "context_length", "horizon", "model.d_model"),
    *("model.d_ff", "model.encoder_layers", "model.decoder_layers"),
)
"""Options of a training that memory grows with, those that cost the forecast least before the others."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Say whether the machine, or a limit of this process, had no memory left; any other error is a fault."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(words in str(error) for words in SAID)


@contextmanager
def naming_what_to_make_smaller(config: Mapping[str, Any]) -> Iterator[None]:
    """Raise `NotEnoughMemory` in the place of what a library raises, with the options of a training to change.

    Raises
    ------
    NotEnoughMemory
        In one line.
    """
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, NotEnoughMemory) or not ran_out_of_memory(error):
            raise
        raise NotEnoughMemory(f"not enough memory ({first_line(error)}): {_cure(config)}") from None


def _cure(config: Mapping[str, Any]) -> str:
    options = [f"{key}={value}" for key in SMALLER if (value := look_up(config, key)) is not None]
    told = f"make one of these smaller: {', '.join(options)}"
    if (length := look_up(config, "model.patch_length")) is not None:
        told += f"; or model.patch_length={length} larger"
    if not look_up(config, "training.activation_checkpointing"):
        told += "; or give training.activation_checkpointing=true"
    return told
