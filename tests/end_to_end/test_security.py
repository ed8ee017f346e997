"""Each promise of SECURITY.md names tests, and these tests exist."""

import ast
import re

import pytest

from tests.support.small import ROOT

PROMISES = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What is not promised")[0]
ITEMS = re.findall(r"^- (.*?)(?=^- |^#|\Z)", PROMISES, re.MULTILINE | re.DOTALL)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PROMISES)))


def test_every_promise_names_a_test() -> None:
    assert len(ITEMS) > 10
    assert [item for item in ITEMS if "::test_" not in item] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
