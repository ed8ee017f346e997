"""Communication between the processes of one training."""

import os
import socket
from functools import reduce
from operator import add
from typing import Any, TypeVar

import torch
import torch.distributed as distributed
from torch import Tensor

from forecast.common.place import Place

Content = TypeVar("Content")

ON_THIS_MACHINE = "file://"
"""Prefix of the rendezvous address of processes that this program started."""


class Group:
    """The processes that train one model; without a `place`, a single process that exchanges nothing.

    All processes must call the same methods in the same order. Python values are pickled, only between the processes
    of one run.
    """

    def __init__(self, place: Place | None = None) -> None:
        self.place = Place() if place is None else place
        self.notified = False
        self._connected = False

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self.place.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.place.size

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints."""
        return self.place.rank == 0

    def share(self, count: int) -> range:
        """Return this process's share of `count` positions; in order of rank the shares cover each position once."""
        return range(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def connect(self) -> None:
        """Join the other processes once; values and sums use gloo, gradients on GPUs NCCL."""
        if self.size == 1 or self._connected:
            return
        self._threads = torch.get_num_threads()
        self._set_environment()
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, init_method=self.place.meeting, rank=self.rank, world_size=self.size)
        self._connected = True

    def close(self) -> None:
        """Leave the group."""
        if self._connected:
            self._connected = False
            distributed.destroy_process_group()
            torch.set_num_threads(self._threads)

    def hand_out(self, content: Content | None = None) -> Content:
        """Send the leading process's value to all processes and return it."""
        self.connect()
        self.notified = True
        box = [content]
        if self.size > 1:
            distributed.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[return-value]  # the leading process passes a value

    def gather(self, content: Content) -> list[Content]:
        """Return the values of all processes, by rank, in every process."""
        gathered: list[Any] = [content] * self.size
        if self.size > 1:
            distributed.all_gather_object(gathered, content)
        return gathered

    def collect(self, content: Content) -> list[Content] | None:
        """Return the values of all processes, by rank, in the leading process; None in the others."""
        if self.size == 1:
            return [content]
        collected: list[Any] | None = [None] * self.size if self.leads else None
        distributed.gather_object(content, collected, dst=0)
        return collected

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, added in order of rank, so that all get the same number."""
        if self.size == 1:
            return tensor
        ours = tensor.detach().cpu().contiguous()
        tensors = [torch.empty_like(ours) for _ in range(self.size)]
        distributed.all_gather(tensors, ours)
        return reduce(add, tensors).to(tensor.device)

    def summed(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes without leaving the device and without a gradient."""
        if self.size == 1:
            return tensor
        copy = tensor.detach().clone()
        distributed.all_reduce(copy)
        return copy

    def largest(self, number: int) -> int:
        """Return the maximum over all processes."""
        if self.size == 1:
            return number
        tensor = torch.tensor(number)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)
        return int(tensor)

    def _set_environment(self) -> None:
        """On one machine, use only the loopback interface, and share the cores among this program's processes."""
        names = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
        if names and self.place.local_size == self.size:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", names[0])
        if self.place.meeting.startswith(ON_THIS_MACHINE) and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, self._threads // self.place.local_size))


ALONE = Group()
