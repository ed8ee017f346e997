"""The look-backs at which memory is measured, and that they foretell others, on real steps."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from forecast.errors import InputError
from forecast.planning import probe, worker
from forecast.planning.footprint import Footprint
from forecast.preparation import Preparation, prepare
from tests.small import quick


def made_of(folder: Path, *words: str, model: str = "patch_informer") -> Preparation:
    return prepare(quick(folder, *words, model=model))


def lengths(made: Preparation) -> list[int]:
    return [level.context_length for level in probe.measure_levels(made)]


def test_a_look_back_of_few_tokens_is_multiplied_and_one_of_many_divided(tmp_path: Path) -> None:
    assert lengths(made_of(tmp_path)) == [48, 96, 192]  # 4, 8 and 16 patches
    assert lengths(made_of(tmp_path, "context_length=260", model="informer")) == [65, 130, 260]


def test_what_the_model_or_the_table_refuses_is_replaced_by_another(tmp_path: Path) -> None:
    start = ("context_length=260", "model.start_length=100")
    assert lengths(made_of(tmp_path, *start, model="informer")) == [130, 195, 260]
    assert lengths(made_of(tmp_path, "context_length=300")) == [72, 144, 300]  # 600 is more than there is
    with pytest.raises(InputError):
        probe.measure_levels(replace(made_of(tmp_path), architecture=_refused(made_of(tmp_path))))


def _refused(made: Preparation) -> object:
    return replace(made.architecture, options={**made.architecture.options, "patch_length": 49, "stride": 48})


@pytest.mark.parametrize(
    ("words", "model", "length"),
    [
        (("training.batch_size=32",), "patch_informer", 384),
        (("context_length=64", "attention=full", "attention.implementation=explicit"), "informer", 192),
    ],
)
def test_a_longer_look_back_takes_what_was_foretold(
    tmp_path: Path, words: tuple[str, ...], model: str, length: int
) -> None:
    made = made_of(tmp_path, *words, model=model)
    foretold = Footprint(0, 0.0, 1.0, probe.measure_levels(made)).level(length)
    windows = replace(made.data.parts["train"], context_length=length)
    real = probe._level(made, windows, 1)
    assert foretold.transient(32, 16) == pytest.approx(real.transient(32, 16), rel=0.15)


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
    assert probe.evaluation_batch(made) == max(len(made.data.parts[part]) for part in ("validation", "test"))
    assert probe.evaluation_batch(made_of(tmp_path, "training.evaluation_batch_size=7")) == 7


def test_a_table_in_a_file_is_measured_too(tmp_path: Path) -> None:
    assert lengths(made_of(tmp_path, "training.data_placement=mapped")) == [48, 96, 192]
