import math
from pathlib import Path

import pytest
import torch

from benchmarks.studies import scaling
from tests.support.small import ROOT

PAGE = ROOT / "docs" / "explanation" / "attention.md"


def test_the_table_of_the_page_is_that_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "page.md"
    copy.write_text(text, encoding="utf-8")
    assert scaling.main(["--write", str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == text, f"run: python -m benchmarks.studies.scaling --write {PAGE.name}"
    assert scaling.main([]) == 0
    assert capsys.readouterr().out.strip() in text


def test_the_gradient_is_the_norm_of_the_softmax_s_derivative() -> None:
    scores = 3 * torch.randn(4, 7, dtype=torch.float64)
    derivatives = [torch.autograd.functional.jacobian(lambda row: row.softmax(0), row) for row in scores]
    expected = torch.stack([torch.linalg.matrix_norm(each) for each in derivatives])
    torch.testing.assert_close(scaling.gradient_norm(scores.softmax(-1)), expected)


def test_equal_scores_and_one_large_score_are_the_two_ends() -> None:
    equal, single = (scaling.saturation(scores) for scores in (torch.zeros(3, 8), 1e3 * torch.eye(3, 8)))
    assert (equal.largest, round(equal.entropy, 6), equal.vanished) == (0.125, 1, 0)
    assert (single.largest, single.entropy, single.gradient, single.vanished) == (1, 0, 0, 1)


def test_the_division_keeps_what_the_page_says_it_keeps() -> None:
    plain, scaled = [], []
    for width in scaling.WIDTHS:
        query, key = scaling.draw(width)
        plain.append(scaling.saturation(query @ key.T))
        scaled.append(scaling.saturation(query @ key.T / math.sqrt(width)))
    for width, without, divided in zip(scaling.WIDTHS, plain, scaled, strict=True):
        assert without.variance == pytest.approx(width, rel=0.1)
        assert divided.variance == pytest.approx(1, rel=0.1)
        assert divided.vanished == 0
    assert sorted(row.largest for row in plain) == [row.largest for row in plain]
    assert max(row.largest for row in scaled) < 0.06
    assert plain[-1].vanished > 0.5 > plain[1].vanished
    assert plain[-1].gradient < scaled[-1].gradient < plain[1].gradient
