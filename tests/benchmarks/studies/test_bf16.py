from pathlib import Path

import pytest

from benchmarks.studies import bf16
from forecast.attention import available
from tests.support.small import ROOT, read_rows

RECORD = ROOT / "benchmarks" / "records" / "attention" / "bf16-cpu.csv"
WORDS = ["--mechanisms", "probsparse", "--length", "40", "--heads", "1", "--head-dim", "8", "--pairs", "3"]
LIMIT = 1.05
"""Most processor time of bf16 over float32: the spread above 1."""


def test_both_versions_and_precisions_are_timed_and_their_float32_bytes_compared(
    tmp_path: Path, signals_and_threads: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bf16.main([*WORDS, "--against", str(ROOT), "--output", str(tmp_path / "rows.csv")]) == 0
    rows = read_rows(tmp_path / "rows.csv")
    assert [(row["passes"], row["same_fp32_bytes"]) for row in rows] == [("forward", "True"), ("both", "True")]
    for row in rows:
        assert {f"{precision}_{label}_cpu_ms" for precision in bf16.PRECISIONS for label in ("now", "before")} <= {*row}
        assert float(row["bf16_over_fp32_now"]) > 0
    assert capsys.readouterr().out.count("probsparse") == 2


def test_the_record_has_every_mechanism_with_equal_float32_bytes() -> None:
    rows = read_rows(RECORD)
    assert {row["mechanism"] for row in rows} == set(available())
    assert {row["same_fp32_bytes"] for row in rows} == {"True"}
    page = (ROOT / "docs" / "explanation" / "attention.md").read_text(encoding="utf-8")
    for name, threads in {(row["mechanism"], row["threads"]) for row in rows}:
        both = [row for row in rows if (row["mechanism"], row["threads"]) == (name, threads)]
        assert [row["passes"] for row in both] == ["forward", "both"]
        cells = [f"{float(row[f'bf16_over_fp32_{label}']):.2f}" for row in both for label in ("before", "now")]
        assert f"| `{name}` | {threads} | {' | '.join(cells)} |" in page
    assert all(float(row["bf16_over_fp32_now"]) <= LIMIT for row in rows)
