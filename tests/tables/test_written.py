"""Tables as people have them: each file is read rightly or refused with words that lead to its right reading."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from tests.support.written import GROUPS, Written, corpus, files_of, hostile
from tests.support.written.judge import RIGHT, WRONG, judge, read
from tests.support.written.not_yet import NOT_YET

LEAST_FILES, LEAST_SPELLINGS = 240, 3

MOST_SECONDS = 1.0
"""Processor time for a hostile mebibyte."""


@pytest.mark.parametrize("third", [0, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (1, 2))])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.__name__))
def test_files_are_read_rightly_or_refused_with_the_right_words(
    group: Callable[[], Iterator[Written]], third: int, tmp_path: Path
) -> None:
    judged = {item.id: judge(item, tmp_path) for item in list(files_of(group))[third::3]}

    assert {name: result for name, result in judged.items() if result.answer == WRONG} == {}
    wanted = {name: result for name, result in judged.items() if name not in NOT_YET}
    assert {name: result for name, result in wanted.items() if result.answer != RIGHT} == {}
    assert [name for name in judged.keys() - wanted.keys() if judged[name].answer == RIGHT] == []  # shorten NOT_YET


def test_the_corpus_has_three_spellings_of_each_kind() -> None:
    kinds = Counter(item.kind for item in corpus())

    assert sum(kinds.values()) >= LEAST_FILES
    assert min(kinds.values()) >= LEAST_SPELLINGS
    assert len({item.id for item in corpus()}) == len(corpus())
    assert {item.id for item in corpus()} >= NOT_YET


def test_a_hostile_mebibyte_is_refused_in_one_line_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "hostile.csv"
    for name, content in hostile().items():
        path.write_bytes(content)
        begin = time.process_time()
        with pytest.raises(InputError) as refusal:
            read(path, {})
        assert time.process_time() - begin < MOST_SECONDS, name
        assert len(str(refusal.value).splitlines()) == 1, name
