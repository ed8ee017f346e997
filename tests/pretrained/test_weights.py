"""The weights of the package: small, those of their card, and trained on generated series alone."""

import json
import shutil
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.pretrained.weights import CARD, FOLDER, WEIGHTS, open_pretrained


def test_the_weights_take_at_most_two_megabytes() -> None:
    assert (FOLDER / WEIGHTS).stat().st_size <= 2_000_000


def test_the_card_counts_each_stage_and_what_it_was_trained_on() -> None:
    card = open_pretrained().card
    assert "generated series" in card["trained_on"]
    for stage in card["stages"]:
        assert stage["command"].startswith("python train.py experiment=pretrain")
        assert {"commit", "seed", "steps", "machine", "hours"} <= set(stage)


@pytest.mark.parametrize("damage", ["byte", "missing"])
def test_other_weights_than_those_of_the_card_are_refused(damage: str, tmp_path: Path) -> None:
    copy = tmp_path / "weights"
    shutil.copytree(FOLDER, copy)
    if damage == "missing":
        (copy / WEIGHTS).unlink()
    else:
        content = bytearray((copy / WEIGHTS).read_bytes())
        content[-1] ^= 1
        (copy / WEIGHTS).write_bytes(bytes(content))
    with pytest.raises(InputError, match="install the program again"):
        open_pretrained(copy)


def test_a_card_with_other_sizes_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "weights"
    shutil.copytree(FOLDER, copy)
    card = json.loads((copy / CARD).read_text())
    card["architecture"]["options"]["d_model"] = 64
    (copy / CARD).write_text(json.dumps(card))
    with pytest.raises(InputError, match="install the program again"):
        open_pretrained(copy)
