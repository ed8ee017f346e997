"""Memory is measured at several look-backs, which predict others, with real steps."""

from dataclasses import replace
from math import isfinite
from pathlib import Path

import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.windows import Windows
from forecast.plan import memory, worker
from forecast.plan.footprint import Footprint
from forecast.runs.settings import Settings
from forecast.training.prepare import Preparation
from forecast.training.steps import Peer, training_step
from tests.support.prepared import prepare
from tests.support.small import quick


def made_of(folder: Path, *words: str, model: str = "patch_informer") -> Preparation:
    return prepare(Settings.parse(quick(folder, *words, model=model)))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build each model, but run no pass, for tests of the look-backs alone."""
    monkeypatch.setattr(memory, "peak_bytes", lambda *_: 1)


def lengths(made: Preparation) -> list[int]:
    return [level.context_length for level in memory.measure_levels(made)]


def test_a_short_look_back_is_multiplied_and_a_long_one_divided(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lengths(made_of(tmp_path)) == [48, 96, 192]  # 4, 8 and 16 patches
    made = made_of(tmp_path, "context_length=80", model="informer")
    assert lengths(made) == [80, 160, 320]
    monkeypatch.setattr(memory, "FEW_TOKENS", 80)
    monkeypatch.setattr(memory, "FEW_HORIZONS", 5)
    assert lengths(made) == [20, 40, 80]


def test_longer_look_backs_have_batches_of_equal_tokens(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whole patches, twice the look-back of 50 is 96 steps, less than a factor of 2."""
    made = made_of(tmp_path, "context_length=50", "training.batch_size=16", "training.evaluation_batch_size=8")
    seen: list[tuple[int, int]] = []
    build = memory.peer_of

    def recorded(made: Preparation, windows: Windows, batch: int) -> Peer:
        seen.append((windows.context_length, batch))
        return build(made, windows, batch)

    monkeypatch.setattr(memory, "peer_of", recorded)
    memory.measure_levels(made)
    assert {(96, 8), (96, 4), (192, 4), (192, 2)} == {sizes for sizes in seen if sizes[0] > 50 and sizes[1] > 1}


def test_shrunken_batches_are_measured_at_shorter_look_backs(tmp_path: Path, unmeasured: None) -> None:
    made = made_of(tmp_path, "training.batch_size=16")
    assert [level.context_length for level in memory.measure_levels(made, 8)] == [12, 24, 48]


def test_a_look_back_of_few_horizons_is_multiplied(
    tmp_path: Path, unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "FEW_TOKENS", 1)
    made = made_of(tmp_path, "context_length=84", "horizon=11")
    assert lengths(made) == [84, 168, 336]
    monkeypatch.setattr(memory, "FEW_HORIZONS", 7)
    assert lengths(made) == [12, 36, 84]


@pytest.mark.slow
def test_a_look_back_that_the_model_or_the_table_refuses_is_replaced(tmp_path: Path, unmeasured: None) -> None:
    start = ("context_length=260", "model.start_length=100")
    assert lengths(made_of(tmp_path, *start, model="informer")) == [130, 260, 520]
    assert lengths(made_of(tmp_path, *start, "data.rows=560", model="informer")) == [130, 195, 260]
    assert lengths(made_of(tmp_path, "context_length=300")) == [72, 144, 300]  # the table is too short for 600
    with pytest.raises(InputError):
        memory.measure_levels(replace(made_of(tmp_path), architecture=_refused(made_of(tmp_path))))


def _refused(made: Preparation) -> object:
    return replace(made.architecture, options={**made.architecture.options, "patch_length": 49, "stride": 48})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "model", "length"),
    [
        (("training.batch_size=32",), "patch_informer", 384),
        pytest.param(
            ("context_length=64", "attention=full", "attention.implementation=explicit"),
            "informer",
            192,
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_the_memory_of_a_longer_look_back_is_predicted(
    tmp_path: Path, words: tuple[str, ...], model: str, length: int
) -> None:
    made = made_of(tmp_path, *words, model=model)
    predicted = _measured(made).peak(length, 32, 16)
    windows = replace(made.data.parts["train"], context_length=length)
    real = memory._level(made, windows, 1)
    assert predicted == pytest.approx(real.transient(32, 16), rel=0.15)


def _measured(made: Preparation) -> Footprint:
    """Return what predicts the bytes of the larger pass at a look-back, from measurements near the configured one."""
    levels = [replace(level, held=0.0) for level in memory.measure_levels(made)]
    return Footprint(made.data.parts["train"].context_length, 0.0, 1.0, levels)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["mean", pytest.param("full", marks=pytest.mark.exhaustive)])
def test_a_much_longer_look_back_is_predicted_although_the_decoder_dominates_short_ones(
    tmp_path: Path, attention: str
) -> None:
    """Look-backs near the decoder's 144 tokens would suggest quadratic growth, a prediction 12 times too large."""
    words = ("horizon=96", "context_length=336", "model.start_length=48", "data.rows=9000", f"attention={attention}")
    made = made_of(tmp_path, *words, "training.batch_size=8", "training.evaluation_batch_size=64", model="informer")
    real = memory._level(made, replace(made.data.parts["train"], context_length=2688), 1)
    footprint = _measured(made)
    assert 0.9 < footprint.peak(2688, 1, 64) / real.transient(1, 64) < 2
    assert 0.9 < footprint.peak(2688, 8, 1) / real.transient(8, 1) < 2


def test_the_longest_look_back_leaves_a_training_window(tmp_path: Path) -> None:
    assert worker._longest(made_of(tmp_path)) == 477
    assert worker._longest(made_of(tmp_path, "training.first_origin=100")) == 100


def test_no_look_back_exceeds_the_table_if_windows_have_gaps(tmp_path: Path, unmeasured: None) -> None:
    """Twice the look-back would fit if the windows were contiguous."""
    made = made_of(tmp_path, "context_length=240")
    windows = made.data.parts["train"]
    made.data.parts["train"] = replace(windows, starts=torch.cat([windows.starts[:1], windows.starts[-15:]]))
    assert lengths(made) == [60, 120, 240]


def test_an_evaluation_batch_has_at_most_all_windows(tmp_path: Path) -> None:
    made = made_of(tmp_path)
    assert memory.evaluation_batch(made) == max(len(made.data.parts[part]) for part in ("validation", "test"))
    assert memory.evaluation_batch(made_of(tmp_path, "training.evaluation_batch_size=7")) == 7


@pytest.mark.slow
def test_a_memory_mapped_table_is_measured_too(tmp_path: Path) -> None:
    assert lengths(made_of(tmp_path, "training.data_placement=mapped")) == [48, 96, 192]


@pytest.mark.parametrize("words", [(), ("loss=quantile",), ("loss=quantile", "model.linear_path=zero")])
def test_a_step_has_the_loss_of_a_training(tmp_path: Path, words: tuple[str, ...]) -> None:
    made = made_of(tmp_path, *words)
    windows = made.data.parts["train"]
    peer = memory.peer_of(made, windows, 4)
    peer.model.load_state_dict(made.network.state_dict())
    made.task.train(mode=False)
    peer.model.train(mode=False)
    batch = windows.batch(torch.arange(4))
    assert peer.loss().item() == pytest.approx(made.task.training_loss(batch).item())
    assert isfinite(float(training_step(peer, "fp32")()))  # type: ignore[arg-type]
