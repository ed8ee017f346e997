"""The rank of a training process: a single one, or one started by torchrun, srun or this program."""

from collections.abc import Mapping
from dataclasses import dataclass

from forecast.common.errors import InputError


@dataclass(frozen=True)
class Place:
    """The rank of a process among those that train one model.

    `rank` counts from 0 among all `size` processes; only rank 0 writes and prints. `local_rank` of `local_size` is the
    same on one machine, and the index of its GPU. `meeting` is the rendezvous address for `torch.distributed`.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    meeting: str = ""


def started_place(environment: Mapping[str, str]) -> Place | None:
    """Return the place that torchrun or srun gave this process, None if neither started several processes.

    Sources: docs.pytorch.org/docs/stable/elastic/run.html, slurm.schedmd.com/srun.html, "output environment variables".
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        place = _of_torchrun(environment)
    elif "SLURM_STEP_ID" in environment:  # set by srun only; an allocation without srun has one process
        place = _of_srun(environment)
    else:
        return None
    return place if place.size > 1 else None


def find_place(started: Place | None, local_size: int, nodes: int) -> Place:
    """Return the place of the leading process of `local_size` on each of `nodes` machines."""
    if started is None:
        if nodes > 1:
            raise InputError(
                f"trainer.num_nodes={nodes}: several machines need torchrun or srun: "
                "start the run with one of them, or set trainer.num_nodes=1"
            )
        return Place(size=local_size, local_size=local_size)
    if (started.local_size, started.size) != (local_size, local_size * nodes):
        raise InputError(
            f"trainer.devices={local_size}, trainer.num_nodes={nodes}: {started.size} processes were started, "
            f"{started.local_size} on each machine: make the two agree, as with trainer=ddp"
        )
    return started


def _of_torchrun(environment: Mapping[str, str]) -> Place:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    rank, size, local_rank, local_size = (int(environment[name]) for name in names)
    return Place(rank, size, local_rank, local_size, meeting="env://")


def _of_srun(environment: Mapping[str, str]) -> Place:
    size = int(environment.get("SLURM_STEP_NUM_TASKS", "1"))
    local_size = size // int(environment.get("SLURM_STEP_NUM_NODES", "1"))
    rank, local_rank = (int(environment.get(name, "0")) for name in ("SLURM_PROCID", "SLURM_LOCALID"))
    return Place(rank, size, local_rank, local_size, meeting=_srun_address(environment) if size > 1 else "")


def _srun_address(environment: Mapping[str, str]) -> str:
    """Return host and port as Lightning does: the first machine, and a port derived from the job ID."""
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

    nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
    host = environment.get("MASTER_ADDR") or SLURMEnvironment.resolve_root_node_address(nodes)
    port = environment.get("MASTER_PORT") or str(15000 + int(environment["SLURM_JOB_ID"][-4:]))
    return f"tcp://{host}:{port}"
