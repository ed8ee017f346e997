import shutil
from pathlib import Path

import pytest

from forecast import attention
from forecast.attention import _parsing as arguments
from forecast.attention._parsing import attention_arguments
from forecast.common.conf_files import configuration_folder
from forecast.common.errors import InputError
from tests.support.small import ROOT, compose


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of conf/ that counts as the configuration."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    monkeypatch.setattr(arguments, "configuration_folder", lambda: tmp_path / "conf")
    return tmp_path / "conf"


def test_in_a_checkout_the_configuration_is_next_to_the_package() -> None:
    assert configuration_folder() == ROOT / "conf"


@pytest.mark.slow
def test_the_arguments_equal_those_of_a_training() -> None:
    names = attention.available()
    assert attention_arguments(names) == {name: compose(f"attention={name}")["attention"] for name in names}


def test_the_order_follows_the_names() -> None:
    assert list(attention_arguments(["mean", "full"])) == ["mean", "full"]


def test_an_argument_may_refer_to_the_root(folder: Path) -> None:
    (folder / "attention" / "yours.yaml").write_text("name: yours\nreach: ${horizon}\n")
    assert attention_arguments(["yours"]) == {"yours": {"name": "yours", "reach": compose()["horizon"]}}


def test_a_mechanism_without_a_file_is_refused_with_the_content_to_write(folder: Path) -> None:
    with pytest.raises(InputError, match=r"attention/yours\.yaml: no such file: create it with `name: yours`"):
        attention_arguments(["yours"])


def test_a_file_that_does_not_compose_is_refused_in_one_line(folder: Path) -> None:
    (folder / "attention" / "yours.yaml").write_text("defaults: [nothing]\nname: yours\n")
    with pytest.raises(InputError, match=r"attention/nothing"):
        attention_arguments(["yours"])


def test_a_missing_value_is_named(folder: Path) -> None:
    (folder / "attention" / "yours.yaml").write_text("name: yours\nreach: ???\n")
    with pytest.raises(InputError, match=r"mechanisms\.yours\.reach is missing"):
        attention_arguments(["yours"])


@pytest.mark.parametrize("content", ["name: full\n", "reach: 3\n"])
def test_a_file_that_names_another_mechanism_is_refused(folder: Path, content: str) -> None:
    (folder / "attention" / "yours.yaml").write_text(content)
    with pytest.raises(InputError, match=r"yours\.yaml: must contain `name: yours`"):
        attention_arguments(["yours"])


def test_a_file_that_sets_an_argument_of_the_layer_is_refused(folder: Path) -> None:
    (folder / "attention" / "yours.yaml").write_text("name: yours\ncausal: true\n")
    with pytest.raises(InputError, match=r"attention\.causal: the model sets it"):
        attention_arguments(["yours"])
