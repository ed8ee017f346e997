"""Which tests run, and shared fixtures: one small finished run, and the real data if they are available.

Slow imports are within the fixtures: the process that hands out the tests has no use for them.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pandas as pd

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes that tests start: threads mostly wait there, too

if not Path("/dev/nvidia0").exists():  # read when triton is imported, which torch.compile may do first
    os.environ.setdefault("TRITON_INTERPRET", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts a background job: tests of Ctrl-C would fail
    signal.signal(signal.SIGINT, signal.default_int_handler)

LIGHTNING = [
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated",
]
"""Warnings of third-party code during training, as pytest filters."""


settings.register_profile(
    "suite",
    derandomize=True,  # the same examples each time, so that a failure is due to a change
    deadline=None,  # the suite runs in parallel on two cores
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


TESTS = Path(__file__).parent

LATER_FOLDERS = ("benchmarks", "end_to_end")
"""Folders that run with `--all`, or if the command line names them."""

BY_HAND = ("record", "exhaustive")
"""Markers of tests that run only if `-m` names them."""

MANY_OBJECTS = 50_000
"""Objects for which garbage collection takes 0.01 s; with all imports of a training it takes 0.2 s."""


@dataclass(frozen=True)
class TinyRun:
    """A finished run on a CSV file: folder, data, configuration and result; `words` extend the overrides of `quick`."""

    path: Path
    source: Path
    table: pd.DataFrame
    config: dict[str, Any]
    result: dict[str, Any]
    words: list[str] = field(default_factory=list)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all` and `--affected`."""
    group = parser.getgroup("forecast")
    group.addoption("--all", action="store_true", help="also what is slow, tests/end_to_end and tests/benchmarks")
    text = "only what the changes since COMMIT affect (default: HEAD, so what is not committed)"
    group.addoption("--affected", nargs="?", const="HEAD", metavar="COMMIT", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Decide what runs, in each worker too."""
    option = config.option
    option.all |= config.args_source is pytest.Config.ArgsSource.ARGS and not option.affected  # paths were named
    option.affected_tests = None
    if option.affected:
        from tests.support.affected import affected_tests, changed_files

        try:
            option.affected_tests = affected_tests(changed_files(option.affected))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line that names the affected tests."""
    if not config.option.affected:
        return None
    tests = config.option.affected_tests
    return f"affected since {config.option.affected}: {'all tests' if tests is None else ' '.join(tests) or 'no test'}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore folders of a later tier, and files that a change does not affect."""
    name = collection_path.relative_to(TESTS).as_posix() if collection_path.is_relative_to(TESTS) else ""
    selected = config.option.affected_tests
    if selected is None:
        return True if name in LATER_FOLDERS and not config.option.all else None
    if collection_path.is_dir():
        return None
    folders = tuple(one for one in selected if one.endswith("/"))
    return None if name in selected or name.startswith(folders) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Ignore Lightning's warnings, deselect the tests of a later tier, and order the others for two workers."""
    left_out = [name for name in BY_HAND if name not in config.option.markexpr]  # -m would override pyproject.toml
    if not config.option.all and "slow" not in config.option.markexpr:
        left_out.append("slow")
    deselected = {item for item in items if any(map(item.get_closest_marker, left_out))}
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = in_halves([item for item in items if item not in deselected])
    for item in items:
        for text in LIGHTNING:
            item.add_marker(pytest.mark.filterwarnings(text))


SLOW_TESTS = 20
"""Tests that take as long as one that is marked slow."""


def in_halves(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in two halves of similar time, each with its slow folders first and a folder in one half alone.

    Each of two workers begins with a half, and takes tests from the end of the other's when its own are done. So few
    fixtures are made twice, and neither worker ends with a slow test.
    """
    folders: dict[Path, list[pytest.Item]] = {}
    for item in items:
        folders.setdefault(item.path.parent, []).append(item)
    slow = {item for item in items if item.get_closest_marker("slow") is not None}
    files = {item.path for item in slow}

    def weight(tests: list[pytest.Item]) -> int:
        return sum(SLOW_TESTS if item in slow else 1 for item in tests)

    halves: tuple[list[pytest.Item], list[pytest.Item]] = ([], [])
    for tests in sorted(folders.values(), key=weight, reverse=True):
        min(halves, key=weight).extend(tests)
    density = {folder: weight(tests) / len(tests) for folder, tests in folders.items()}
    for half in halves:
        half.sort(key=lambda item: (-density[item.path.parent], item.path.parent, item.path not in files))
    return [item for half in sorted(halves, key=len, reverse=True) for item in half]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the tests of a GPU where there is none."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA GPU")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Succeed where a change affects no test."""
    if session.config.option.affected_tests == [] and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Compute in one thread: with such small models, threads mostly wait."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def imports_are_no_garbage() -> None:
    """Exclude imported objects from later garbage collections, which each run does before it measures memory."""
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


@pytest.fixture
def signals_and_threads() -> Iterator[None]:
    """Restore the signal handlers and threads that a tool changes in the test process."""
    import torch

    from forecast.common.processes import SIGNALS

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    threads = torch.get_num_threads()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Do not wait until files are on the disk, which takes a tenth of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_collection_before_a_training() -> Iterator[None]:
    """Do not free memory before a training measures its peak, which takes 0.05 s in a process of so many objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forecast.training.callbacks.speed.reset_peak_memory", lambda _: None)
        patch.setattr("forecast.training.sweep.job.reset_peak_memory", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def compositions_share_their_parts() -> Iterator[None]:
    """Keep the parts of compositions that are equal each time, which take most of the time of composing."""
    from tests.support.composing import parts_kept

    with parts_kept():
        yield


@pytest.fixture(scope="session", autouse=True)
def blank_pictures() -> Iterator[None]:
    """Leave the pictures of runs and forecasts blank, unless a test or fixture uses `drawn`."""
    from tests.support.pictures import blank

    with blank():
        yield


@pytest.fixture(scope="module")
def drawn() -> Iterator[None]:
    """Draw the pictures of runs and forecasts until the module ends."""
    from tests.support.pictures import drawing

    with drawing():
        yield


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile with the eager backend, which saves half a minute and needs no C++ compiler."""
    from forecast.model import compiling

    monkeypatch.setattr(compiling, "compiler_for", lambda _: {"backend": "eager"})


@pytest.fixture(scope="session")
def tiny_run() -> TinyRun:
    """Train once on 700 hours: targets load and oil at very different levels, covariate air."""
    from forecast.training.train import train
    from tests.support.kept import kept_run
    from tests.support.pictures import drawing
    from tests.support.small import hourly, quick, write

    table = hourly()

    def words(folder: Path) -> list[str]:
        learning = ["model.linear_path=zero", "training.max_steps=40", "optimizer.lr=0.01"]
        return ["data=csv", f"data.path={folder / 'hours.csv'}", "data.past_covariates=[air]", *learning]

    def make(folder: Path) -> None:
        write(folder / "hours.csv", table)
        with drawing():
            train(quick(folder / "outputs", *words(folder)))

    run, result = kept_run("tiny", make)
    folder = run.path.parents[2]
    config = quick(folder / "outputs", *words(folder))
    return TinyRun(run.path, folder / "hours.csv", table, config, result, words(folder))


@pytest.fixture(scope="session")
def panel_run() -> TinyRun:
    """Train once on the long table of ten stores, with known columns that the forecast depends on."""
    from forecast.training.train import train
    from tests.support.kept import kept_run
    from tests.support.panels import stores
    from tests.support.pictures import drawing
    from tests.support.small import quick, write

    def words(folder: Path) -> list[str]:
        roles = ["data.id_columns=[store]", "data.targets=[sales]", "data.known_covariates=[promo,kind]"]
        learning = ["model.linear_path=zero", "training.max_steps=30", "optimizer.lr=0.01"]
        return ["data=csv", f"data.path={folder / 'stores.csv'}", *roles, *learning, "training.evaluation_windows=100"]

    def make(folder: Path) -> None:
        write(folder / "stores.csv", stores())
        with drawing():
            train(quick(folder / "outputs", *words(folder)))

    run, result = kept_run("panel", make)
    folder = run.path.parents[2]
    return TinyRun(
        run.path, folder / "stores.csv", stores(), quick(folder / "outputs", *words(folder)), result, words(folder)
    )


@pytest.fixture
def copied(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """Return a copy of the run that a test may change."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


@pytest.fixture(scope="session")
def graphs() -> dict[Any, Any]:
    """Return the graphs that `graph_once` keeps."""
    return {}


@pytest.fixture(scope="module")
def graph_once(graphs: dict[Any, Any]) -> Iterator[None]:
    """Capture the graph of each exported model once, which takes three seconds: several tests export `tiny_run`."""
    from forecast.export import formats

    original = formats.capture

    def capture(model: Any, architecture: Any, *, masked: bool) -> Any:
        tensors = [tensor.numpy().tobytes() for tensor in model.state_dict().values()]
        key = (repr(architecture), masked, *tensors)
        if key not in graphs:
            graphs[key] = original(model, architecture, masked=masked)
        return graphs[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "capture", capture)
        yield


@pytest.fixture(scope="session")
def second_run(tiny_run: TinyRun) -> Path:
    """Train again with another seed only, and return the folder."""
    from forecast.training.train import train
    from tests.support.kept import kept_run

    def make(folder: Path) -> None:
        train({**tiny_run.config, "seed": 2, "output_dir": str(folder / "outputs")})

    return kept_run("second", make)[0].path


@pytest.fixture(scope="session")
def etth1_path() -> Path:
    """Return the real ETTh1.csv beside the project."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data" / "ETTh1.csv"
    if not path.is_file():
        pytest.skip("ETTh1.csv is not available")
    return path
