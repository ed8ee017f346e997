from dataclasses import dataclass

import pytest

from forecast.common.errors import InputError
from forecast.common.settings import check_options


@dataclass
class Options:
    whole: int
    share: float
    either: int | None
    flag: bool
    word: str | bool


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("whole", 3),
        ("share", 0.5),
        ("share", 1),
        ("either", None),
        ("either", 2),
        ("flag", False),
        ("word", "ridge"),
        ("word", False),
    ],
)
def test_a_value_of_the_declared_kind_passes(key: str, value: object) -> None:
    check_options(Options, {key: value}, "group")


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("whole", 3.0, "int"),
        ("whole", 2**70, "at most 9,007,199,254,740,992"),
        ("either", -(2**70), "at most 9,007,199,254,740,992"),
        ("whole", True, "int"),
        ("whole", "3", "int"),
        ("whole", None, "int"),
        ("share", "0.5", "float"),
        ("share", True, "float"),
        ("either", 2.5, "int or null"),
        ("flag", 1, "bool"),
        ("flag", None, "bool"),
        ("word", 1, "str or bool"),
        ("word", [], "str or bool"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_key_value_and_kind(key: str, value: object, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        check_options(Options, {key: value}, "group")
    assert str(caught.value) == f"group.{key}={value}: must be {kind}"


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"group\.colour: no such option: choose from either, flag, share"):
        check_options(Options, {"whole": 1, "colour": 1}, "group")
