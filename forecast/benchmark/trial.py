"""One training step at one look-back: whether it fits, in this process or, on a CPU, in one of its own.

As a program it reads an `Ask` as JSON from its argument, and prints what came of it as JSON.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from forecast.attention._mechanisms import Variant
from forecast.benchmark.ours import Preset, build_ours, our_peer
from forecast.benchmark.search import MEMORY, REFUSED, Trial
from forecast.benchmark.task import Task
from forecast.common.errors import InputError
from forecast.common.memory import peak_memory_mib, reset_peak_memory
from forecast.common.out_of_memory import ran_out_of_memory
from forecast.common.timing import seconds_of
from forecast.training.steps import prepare_optimizer, training_step


@dataclass(frozen=True)
class Ask:
    """What a trial needs, as plain values; `memory_bytes` may not be passed by the process or on the device."""

    preset: Preset
    variant: Variant
    task: Task
    precision: str
    device: str
    memory_bytes: int

    def to_json(self) -> str:
        """Give it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Ask":
        """Give what `to_json` was made of."""
        plain: Mapping[str, Any] = json.loads(text)
        parts = {"preset": Preset(**plain["preset"]), "variant": Variant(**plain["variant"])}
        return cls(**{**plain, **parts, "task": Task(**plain["task"])})


def try_here(ask: Ask) -> Trial:
    """Make a step in this process; a device that has not enough memory is a trial that failed.

    The optimizer's state is there before the step, as it is in every step but a run's first.
    """
    device, look_back = torch.device(ask.device), ask.task.context_length
    reset_peak_memory(device)
    try:
        peak, seconds = _step(ask, device)
    except InputError as refused:
        return Trial(look_back, why=f"{REFUSED}: {refused}")
    except MemoryError:
        return Trial(look_back, why=f"{MEMORY}: the process had no more")
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
        return Trial(look_back, why=f"{MEMORY}: the device has not enough")
    if peak > ask.memory_bytes:
        return Trial(look_back, peak, seconds, why=f"{MEMORY}: took {peak / 2**30:,.2f} GiB")
    return Trial(look_back, peak, seconds)


def limit_cuda(memory_bytes: int, device: torch.device) -> None:
    """Let torch's allocator have no more of the GPU than so many bytes."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), device)


def confine(memory_bytes: int) -> None:
    """Let this process allocate no more than so many bytes from here on, its threads and libraries at work already."""
    side = torch.ones(256, 256)
    side @ side  # threads and libraries come with the first product, which cannot fail for want of memory
    limit_process(memory_bytes)


def limit_process(memory_bytes: int) -> None:
    """Let this process allocate no more than so many bytes, where the system can see to it.

    What is allocated and not yet used counts too; files that are mapped, such as libraries, do not.
    """
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, most))


def _step(ask: Ask, device: torch.device) -> tuple[int, float]:
    """Give the peak in bytes and the seconds of the step."""
    peer = our_peer(build_ours(ask.preset, ask.variant, ask.task), ask.task.draw(device))
    prepare_optimizer(peer)
    seconds = seconds_of(training_step(peer, ask.precision), device)
    return int(peak_memory_mib(device) * 2**20), seconds


def main(argument: str) -> None:
    """Make the trial in this process, within the memory that it may take, and print it."""
    ask = Ask.from_json(argument)
    confine(ask.memory_bytes)
    print(json.dumps(asdict(try_here(ask))))


if __name__ == "__main__":
    main(sys.argv[1])
