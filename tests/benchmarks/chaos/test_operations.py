"""A command can be stopped at any operation that changes a file."""

import mmap
import os
import sys
from pathlib import Path

import pytest

from benchmarks.chaos.operations import COUNTER, Operations


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_an_operation_is_counted_before_it_happens(tmp_path: Path) -> None:
    counter = mmap.mmap(-1, COUNTER.size)
    child = os.fork()
    if not child:
        try:
            stop = Operations(tmp_path, 3, lambda *_: os._exit(7), counter=counter)
            sys.addaudithook(stop)
            for name in "abcd":
                (tmp_path / name).write_text(name)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert COUNTER.unpack(counter[:]) == (3,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
