"""What a measured number means nothing without: machine, threads, versions, date, command."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from forecast.runs.results import commit, device_name


def facts_of(
    device: torch.device, dtype: str, arguments: Sequence[str], module: str = "forecast.benchmark"
) -> dict[str, Any]:
    """Return the columns that every row of a run of `python -m module` ends with."""
    return {
        "machine": device_name(device),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "dtype": dtype,
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "command": shlex.join(["python", "-m", module, *arguments]),
    }
