"""The look-backs at which memory is measured, and that they foretell others, on real steps."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.windows import Windows
from forecast.plan import memory, worker
from forecast.plan.footprint import Footprint
from forecast.runs.settings import Settings
from forecast.training.prepare import Preparation, prepare
from forecast.training.steps import Peer
from tests.support.small import quick


def made_of(folder: Path, *words: str, model: str = "patch_informer") -> Preparation:
    return prepare(Settings.parse(quick(folder, *words, model=model)))


def lengths(made: Preparation) -> list[int]:
    return [level.context_length for level in memory.measure_levels(made)]


def test_a_look_back_of_few_tokens_is_multiplied_and_one_of_many_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lengths(made_of(tmp_path)) == [48, 96, 192]  # 4, 8 and 16 patches
    made = made_of(tmp_path, "context_length=80", model="informer")
    assert lengths(made) == [80, 160, 320]
    monkeypatch.setattr(memory, "FEW_TOKENS", 80)
    monkeypatch.setattr(memory, "FEW_HORIZONS", 5)
    assert lengths(made) == [20, 40, 80]


def test_longer_look_backs_have_batches_of_as_many_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole patches make twice the look-back of 50 steps 96, which is no twofold."""
    made = made_of(tmp_path, "context_length=50", "training.batch_size=16", "training.evaluation_batch_size=8")
    seen: list[tuple[int, int]] = []
    build = memory.peer_of

    def recorded(made: Preparation, windows: Windows, batch: int) -> Peer:
        seen.append((windows.context_length, batch))
        return build(made, windows, batch)

    monkeypatch.setattr(memory, "peer_of", recorded)
    memory.measure_levels(made)
    assert {(96, 8), (96, 4), (192, 4), (192, 2)} == {each for each in seen if each[0] > 50 and each[1] > 1}


def test_where_batches_shrink_shorter_look_backs_are_measured(tmp_path: Path) -> None:
    made = made_of(tmp_path, "training.batch_size=16")
    assert [level.context_length for level in memory.measure_levels(made, 8)] == [12, 24, 48]


def test_a_look_back_of_few_horizons_is_multiplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FEW_TOKENS", 1)
    made = made_of(tmp_path, "context_length=84", "horizon=11")
    assert lengths(made) == [84, 168, 336]
    monkeypatch.setattr(memory, "FEW_HORIZONS", 7)
    assert lengths(made) == [12, 36, 84]


def test_what_the_model_or_the_table_refuses_is_replaced_by_another(tmp_path: Path) -> None:
    start = ("context_length=260", "model.start_length=100")
    assert lengths(made_of(tmp_path, *start, model="informer")) == [130, 260, 520]
    assert lengths(made_of(tmp_path, *start, "data.rows=560", model="informer")) == [130, 195, 260]
    assert lengths(made_of(tmp_path, "context_length=300")) == [72, 144, 300]  # 600 is more than there is
    with pytest.raises(InputError):
        memory.measure_levels(replace(made_of(tmp_path), architecture=_refused(made_of(tmp_path))))


def _refused(made: Preparation) -> object:
    return replace(made.architecture, options={**made.architecture.options, "patch_length": 49, "stride": 48})


@pytest.mark.parametrize(
    ("words", "model", "length"),
    [
        (("training.batch_size=32",), "patch_informer", 384),
        (("context_length=64", "attention=full", "attention.implementation=explicit"), "informer", 192),
    ],
)
def test_a_longer_look_back_takes_the_predicted_memory(
    tmp_path: Path, words: tuple[str, ...], model: str, length: int
) -> None:
    made = made_of(tmp_path, *words, model=model)
    predicted = _predicted(made, length, 32, 16)
    windows = replace(made.data.parts["train"], context_length=length)
    real = memory._level(made, windows, 1)
    assert predicted == pytest.approx(real.transient(32, 16), rel=0.15)


def _predicted(made: Preparation, length: int, batch: int, evaluation_batch: int) -> float:
    """Return the bytes of the larger pass at a look-back, from what is measured near the configuration's own."""
    levels = [replace(level, held=0.0) for level in memory.measure_levels(made)]
    look_back = made.data.parts["train"].context_length
    return Footprint(look_back, 0.0, 1.0, levels).peak(length, batch, evaluation_batch)


@pytest.mark.parametrize("attention", ["mean", "full"])
def test_a_look_back_far_beyond_is_predicted_where_the_decoder_takes_most_of_a_short_one(
    tmp_path: Path, attention: str
) -> None:
    """Of look-backs that are not far above the decoder's 144 tokens, memory seems to grow with the square: 12 times."""
    words = ("horizon=96", "context_length=336", "model.start_length=48", "data.rows=9000", f"attention={attention}")
    made = made_of(tmp_path, *words, "training.batch_size=8", "training.evaluation_batch_size=64", model="informer")
    real = memory._level(made, replace(made.data.parts["train"], context_length=2688), 1)
    assert 0.9 < _predicted(made, 2688, 1, 64) / real.transient(1, 64) < 2
    assert 0.9 < _predicted(made, 2688, 8, 1) / real.transient(8, 1) < 2


def test_the_longest_look_back_ends_where_the_first_window_has_to_begin(tmp_path: Path) -> None:
    assert worker._longest(made_of(tmp_path)) == 477
    assert worker._longest(made_of(tmp_path, "training.first_origin=100")) == 100


def test_no_look_back_reaches_beyond_the_table_where_gaps_keep_windows_out(tmp_path: Path) -> None:
    """Twice the look-back would fit behind the first windows if they followed one another."""
    made = made_of(tmp_path, "context_length=240")
    windows = made.data.parts["train"]
    made.data.parts["train"] = replace(windows, starts=torch.cat([windows.starts[:1], windows.starts[-15:]]))
    assert lengths(made) == [60, 120, 240]


def test_a_batch_that_is_evaluated_holds_no_more_windows_than_there_are(tmp_path: Path) -> None:
    made = made_of(tmp_path)
    assert memory.evaluation_batch(made) == max(len(made.data.parts[part]) for part in ("validation", "test"))
    assert memory.evaluation_batch(made_of(tmp_path, "training.evaluation_batch_size=7")) == 7


def test_a_table_in_a_file_is_measured_too(tmp_path: Path) -> None:
    assert lengths(made_of(tmp_path, "training.data_placement=mapped")) == [48, 96, 192]
