import torch

from benchmarks.models import Task
from tests.benchmark.made import CPU

TASK = Task(context_length=5, horizon=3, batch=2, channels=4)


def test_windows_are_reproducible_and_split_at_the_end_of_the_look_back() -> None:
    drawn, again = TASK.draw(CPU), TASK.draw(CPU)
    assert torch.equal(drawn.values, again.values)
    assert torch.equal(drawn.known, again.known)
    assert (drawn.past.shape, drawn.future.shape) == ((2, 5, 4), (2, 3, 4))
    assert (drawn.past_known.shape[:2], drawn.future_known.shape[:2]) == ((2, 5), (2, 3))
    assert torch.equal(torch.cat([drawn.values[:, :1], drawn.past, drawn.future], 1), drawn.values)
    assert torch.equal(torch.cat([drawn.known[:, :1], drawn.past_known, drawn.future_known], 1), drawn.known)
    assert drawn.known.abs().max() <= 1


def test_the_label_has_both_lengths() -> None:
    assert Task(1024, 96, 1, 1).label == "1,024 → 96"
