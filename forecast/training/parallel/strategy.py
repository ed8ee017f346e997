"""Lightning's DDP over a process group that exists before the trainer."""

from inspect import signature
from typing import Any

import lightning
from lightning.fabric.plugins import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

from forecast.common.group import Group

_PARAMETERS = signature(DistributedDataParallel.__init__).parameters
SYNC_BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in _PARAMETERS)
"""DDP's option for broadcasting buffers before each forward pass; torch 2.13 renamed it."""


class Environment(ClusterEnvironment):
    """Rank and world size of this process; the process group already exists, so the address is empty."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.place = group.place

    creates_processes_externally = True
    main_address, main_port = "", 0

    @staticmethod
    def detect() -> bool:
        """Return False: this environment is passed explicitly."""
        return False

    def world_size(self) -> int:
        """Return the number of processes."""
        return self.place.size

    def set_world_size(self, size: int) -> None:
        """Do nothing."""

    def global_rank(self) -> int:
        """Return the rank of this process."""
        return self.place.rank

    def set_global_rank(self, rank: int) -> None:
        """Do nothing."""

    def local_rank(self) -> int:
        """Return the rank of this process on its machine."""
        return self.place.local_rank

    def node_rank(self) -> int:
        """Return the rank of this machine."""
        return self.place.rank // self.place.local_size


class Processes(DDPStrategy):
    """DDP that starts no processes, so that it also works in notebooks and tests."""

    def _configure_launcher(self) -> None:
        self._launcher = None


def spread(group: Group) -> dict[str, Any]:
    """Return the trainer options for training on all processes of `group`.

    A static graph finds unused parameters (`mean` has no queries and keys) in the first step. Buffers are not
    broadcast: the batch norm statistics already cover all processes.
    """
    local_size = group.place.local_size
    options = {"devices": local_size, "num_nodes": group.size // local_size}
    if group.size == 1:
        return {**options, "plugins": [LightningEnvironment()]}  # else Lightning reads and checks SLURM's variables
    how: dict[str, Any] = {"static_graph": True, SYNC_BUFFERS: False}
    strategy = Processes(cluster_environment=Environment(group), **how)
    return {**options, "strategy": strategy, "use_distributed_sampler": False}


def leave_signals_alone(trainer: lightning.Trainer) -> None:
    """Turn off Lightning's signal handling: this program stops all processes at the same step.

    Under SLURM, Lightning handles SIGUSR1, saves its own checkpoint and requeues the job. With several processes,
    Lightning 2.6 asks process 0 at each step, which makes a GPU wait. Its signal handler communicates, which can
    interrupt the communication of the other processes.
    """
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
