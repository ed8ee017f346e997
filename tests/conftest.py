"""What several tests share: one small finished run, and the real data where they lie beside the project."""

import gc
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, settings

from forecast.common.processes import SIGNALS
from tests.support.small import ROOT, hourly, quick, write

LIGHTNING = [
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated",
]
"""Warnings of third parties that a training gives and that are not ours to mend, as pytest's filters."""


settings.register_profile(
    "suite",
    derandomize=True,  # the same examples each time: a failure is a change's, not a draw's
    deadline=None,  # two cores share the suite
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


MANY_OBJECTS = 50_000
"""Of them a collection takes a hundredth of a second; with all that a training imports it would take a fifth."""


@dataclass(frozen=True)
class TinyRun:
    """A finished run on a CSV file: where it is, what it was made of, what it gave; `words` beside those of `quick`."""

    path: Path
    source: Path
    table: pd.DataFrame
    config: dict[str, Any]
    result: dict[str, Any]
    words: list[str] = field(default_factory=list)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let Lightning's warnings pass where a run may be made; begin with the longest tests; leave records to `-m`."""
    if "record" not in config.option.markexpr:  # any other -m would put an option in pyproject.toml out of force
        by_hand = [item for item in items if item.get_closest_marker("record")]
        config.hook.pytest_deselected(items=by_hand)
        items[:] = [item for item in items if item not in by_hand]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # no process is left with one in the end
    for item in items:
        for text in LIGHTNING:
            item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Compute in one thread: with models this small, threads mostly wait for one another."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def imports_are_no_garbage() -> None:
    """Leave what has been imported out of later collections: each run makes one before it measures its memory."""
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


@pytest.fixture
def signals_and_threads() -> Iterator[None]:
    """Undo what a tool that is called in the tests' own process changes in it."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    threads = torch.get_num_threads()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    torch.set_num_threads(threads)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a run's pictures blank: for tests that look at none."""
    leave_blank(monkeypatch)


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Leave a run's pictures blank, two fifths of the time of a small one."""
    from forecast.training import outcome
    from forecast.training import train as training
    from forecast.training.callbacks import figures

    class Blank:
        def __init__(self, **_: Any) -> None:
            pass

        def pixels(self, _: Any) -> np.ndarray:
            return np.zeros((2, 2, 3), dtype=np.uint8)

    patch.setattr(figures, "ForecastPanels", Blank)
    patch.setattr(training, "log_figures", lambda _, fit, *__: fit)
    patch.setattr(outcome, "draw_forecast", lambda path, *_: path.write_bytes(b""))


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile as a training does, but let torch run what it has captured: no half a minute, no C++ compiler."""
    from forecast.model import compiling

    monkeypatch.setattr(compiling, "compiler_for", lambda _: {"backend": "eager"})


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """Train once on 700 hours: targets load and oil at levels far from 0 and from each other, covariate air."""
    from forecast.training.train import train

    folder = tmp_path_factory.mktemp("tiny")
    table = hourly()
    source = write(folder / "hours.csv", table)
    learnt = ["model.linear_path=zero", "training.max_steps=40", "optimizer.lr=0.01"]
    words = ["data=csv", f"data.path={source}", "data.past_covariates=[air]", *learnt]
    config = quick(folder / "outputs", *words)
    run, result = train(config)
    return TinyRun(run.path, source, table, config, result, words)


@pytest.fixture(scope="session")
def second_run(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once more, from another seed alone, and give the folder."""
    from forecast.training.train import train

    run, _ = train({**tiny_run.config, "seed": 2, "output_dir": str(tmp_path_factory.mktemp("second"))})
    return run.path


@pytest.fixture(scope="session")
def etth1_path() -> Path:
    """Return the real ETTh1.csv beside the project."""
    path = ROOT.parent / "shared" / "data" / "ETTh1.csv"
    if not path.is_file():
        pytest.skip("ETTh1.csv is not beside the project")
    return path
