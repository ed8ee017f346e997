"""Blocks of series on the workers of a Ray cluster, a local one or one that runs."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from forecast.common.errors import InputError

BESIDE = 2
"""Logical CPUs that Ray needs besides those of the workers; with fewer it waits for ever."""

OBJECTS = 2**27
"""Bytes of the store of a local cluster; only numbers of blocks pass through it."""


def run_on_ray(write: Callable[[int], None], numbers: Sequence[int], workers: int | None, address: str | None) -> None:
    """Write blocks on Ray, with a model in each worker; Ray replaces a killed one, and its block is written again.

    `workers` None: one for each CPU. `address` is that of a running cluster, whose machines share the folders; None
    starts a cluster on this machine.
    """
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_BACKEND_LOG_LEVEL", "fatal")):
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError:
        raise InputError("--engine ray: Ray is not installed: pip install 'forecast[ray]'") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            cpus = (os.cpu_count() or 1) if workers is None else workers
            ray.init(
                num_cpus=cpus + BESIDE,
                object_store_memory=OBJECTS,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
            cpus = _workers(ray.available_resources().get("CPU", 0), workers, address)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        data = ray.data.from_items([int(number) for number in numbers], override_num_blocks=len(numbers))
        data.map_batches(
            _Worker, fn_constructor_args=(write,), batch_size=1, concurrency=min(cpus, len(numbers))
        ).count()
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise _cause(error, address) from None
    finally:
        ray.shutdown()


def _workers(free: float, workers: int | None, address: str) -> int:
    """Return the number of workers; raise InputError where a cluster has too few free CPUs for them."""
    wanted = max(1, int(free) - BESIDE) if workers is None else workers
    if wanted + BESIDE > free:
        raise InputError(
            f"--address {address}: {free:g} CPUs are free, {wanted} workers need {wanted + BESIDE} ({BESIDE} for Ray "
            "itself): give fewer --workers, or wait until other jobs end"
        )
    return wanted


class _Worker:
    """A worker, which keeps its model between blocks."""

    def __init__(self, write: Callable[[int], None]) -> None:
        self._write = write

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for number in batch["item"].tolist():
            self._write(number)
        return batch


def _cause(error: Exception, address: str | None) -> Exception:
    """Return the user's mistake behind an error of a worker or of the address, or the error itself."""
    if isinstance(error, ConnectionError):
        return InputError(f"--address {address}: no Ray cluster answers there: start one with ray start --head")
    seen: list[BaseException] = []
    end: BaseException | None = error
    while end is not None and end not in seen:
        if isinstance(end, InputError):
            return InputError(str(end.args[0]))
        seen.append(end)
        end = getattr(end, "cause", None) or end.__cause__
    return error
