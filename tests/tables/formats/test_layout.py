"""The layout of a text file."""

from typing import Any

import pytest

from forecast.tables.formats.layout import Records, find_delimiter


@pytest.mark.parametrize(
    ("text", "delimiter", "read"),
    [
        ("date,load\n2020-01-01,1.5\n2020-01-02,2.5\n", ",", [","]),
        ("date;load\n2020-01-01;1,5\n2020-01-02;2,5\n", ";", [",", ";"]),
    ],
)
def test_a_text_is_cut_only_at_the_marks_that_it_has(
    text: str, delimiter: str, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, original = [], Records.at_start

    def at_start(text: str, mark: str, whole: bool) -> Any:
        tried.append(mark)
        return original(text, mark, whole)

    monkeypatch.setattr(Records, "at_start", at_start)
    assert find_delimiter(text, whole=True)[0] == delimiter
    assert tried == read
