"""The comments of `conf/` are those that the options declare."""

import pytest

from benchmarks.comments import FILES, commented
from forecast.common.conf_files import configuration_folder


@pytest.mark.parametrize("name", FILES)
def test_the_comments_of_a_base_file_are_the_meanings_of_its_options(name: str) -> None:
    text = (configuration_folder() / name).read_text(encoding="utf-8")
    assert commented(text, FILES[name]) == text
    assert max(map(len, text.splitlines())) <= 120


def test_an_option_of_a_group_gets_its_own_comment_and_other_lines_stay() -> None:
    options = {**FILES["config.yaml"]}
    text = "# top\nseed: 1\nsweep:  # of sweeps\n  name: null\nother: 2  # as it is\n"
    lines = commented(text, options).splitlines()
    assert lines[1] == f"seed: 1  # {options['seed'].comment}"
    assert lines[3] == f"  name: null  # {options['sweep.name'].comment}"
    assert [lines[0], lines[2], lines[4]] == ["# top", "sweep:  # of sweeps", "other: 2  # as it is"]


@pytest.mark.parametrize("name", FILES)
def test_the_meaning_of_an_option_names_its_choices(name: str) -> None:
    for key, option in FILES[name].items():
        assert all(choice in option.about for choice in option.choices), key
