"""Sizes of the program stay within what a reader holds in mind."""

import ast
from functools import cache

from benchmarks.counts import LONGEST, ROOT, WORD, count, functions


@cache
def counts() -> dict[str, int]:
    """Return the sizes, which take two seconds: once, and not while tests are collected."""
    return count(ROOT)


def test_no_function_is_too_long_and_few_modules_write_a_part_of_the_data_contract() -> None:
    assert counts()[f"functions above {LONGEST} lines"] == 0
    assert counts()[f"modules that name {WORD}"] <= 8


def test_the_rooms_of_tables_and_data_are_small_and_no_import_goes_in_a_circle() -> None:
    assert max(counts()["files of data"], counts()["files of tables"]) <= 20
    assert counts()["modules in a circle"] == 0
    assert counts()["rooms"] <= 19


def test_a_docstring_and_self_do_not_count() -> None:
    source = 'class A:\n    def f(self, a, *, b):\n        """One.\n\n        Two.\n        """\n        return a\n'
    assert list(functions(ast.parse(source))) == [(2, 2)]
