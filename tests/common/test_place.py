import pytest

from forecast.common.errors import InputError
from forecast.common.place import Place, find_place, started_place

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "node[3-4]",
    "SLURM_JOB_ID": "71234",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}


def test_torchrun_sets_the_rank_of_a_process() -> None:
    assert started_place(TORCHRUN) == Place(5, 8, 1, 4, meeting="env://")


def test_srun_sets_the_rank_of_a_process_and_all_meet_on_the_first_machine() -> None:
    assert started_place(SRUN) == Place(5, 8, 1, 4, meeting="tcp://node3:16234")
    assert started_place({**SRUN, "MASTER_ADDR": "a", "MASTER_PORT": "7"}) == Place(5, 8, 1, 4, meeting="tcp://a:7")


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "71234", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"},  # a batch script, without srun
        {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NUM_NODES": "1"},  # srun --pty bash, or a job of submitit
        {**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
    ],
)
def test_a_process_without_a_launcher_is_single(environment: dict[str, str]) -> None:
    assert started_place(environment) is None


def test_the_leading_process_of_one_machine_starts_the_others_itself() -> None:
    assert find_place(None, 3, 1) == Place(rank=0, size=3, local_rank=0, local_size=3)
    assert find_place(None, 1, 1) == Place()


def test_several_machines_need_a_launcher() -> None:
    with pytest.raises(InputError, match=r"trainer.num_nodes=2: .* torchrun or srun"):
        find_place(None, 4, 2)


@pytest.mark.parametrize(("local_size", "nodes"), [(1, 1), (8, 1), (4, 1), (2, 4), (4, 3)])
def test_started_and_requested_processes_must_agree(local_size: int, nodes: int) -> None:
    started = started_place(TORCHRUN)
    with pytest.raises(InputError, match=rf"trainer.devices={local_size}, trainer.num_nodes={nodes}: 8 processes"):
        find_place(started, local_size, nodes)
    assert find_place(started, 4, 2) == started
