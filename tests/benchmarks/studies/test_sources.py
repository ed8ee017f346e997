from pathlib import Path

import pytest

from benchmarks.studies import sources
from forecast.attention._costs import Head
from forecast.attention._parsing import parse
from tests.support.small import ROOT, read_rows

RECORD = ROOT / "benchmarks" / "records" / "attention" / "sources"


@pytest.mark.parametrize("word", sources.FORMS)
@pytest.mark.parametrize("head", [Head(300, 300, 16, 16), Head(50, 700, 8, 24)])
def test_the_parts_add_up_to_what_the_mechanism_declares(word: str, head: Head) -> None:
    variant = parse(word)
    declared = variant.kind.operations(head, **variant.arguments)
    assert sum(part.operations for part in sources.parts_of(variant, head)) == declared


def test_the_largest_tensors_grow_as_the_declared_memory_does() -> None:
    for word in sources.FORMS:
        variant = parse(word)
        short, long = (sources.largest_tensor(variant, Head(n, n, 64, 64))[1] for n in (2**12, 2**16))
        cost = variant.memory_cost(causal=False)
        assert cost is not None
        assert long / short == pytest.approx(cost.between(2**12, 2**16), rel=0.1), word


def test_the_command_writes_both_tables_with_every_form_of_the_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forecast.benchmark.machine.SIDE", {"cpu": 64, "cuda": 64})
    monkeypatch.setattr("forecast.benchmark.machine.COPIED", {"cpu": 2**12, "cuda": 2**12})
    words = ["--length", "64", "--d-model", "16", "--repetitions", "2", "--device", "cpu", "--threads", "1"]
    assert sources.main([*words, "--output", str(tmp_path)]) == 0
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    for form in ("1 head of 16", "2 heads of 32, vectorised", "2 heads of 32, loop over heads"):
        assert f"| full | {form} | " in text
    assert [line.split(" | ")[0] for line in text.splitlines() if " O(" in line] == [
        "| full explicit", "| full fused", "| probsparse", "| linear",
    ]  # fmt: skip
    assert {row["repetitions"] for row in read_rows(tmp_path / "cases.csv")} == {"2"}
    assert "Complexity of one head of 64 at 64 tokens" in capsys.readouterr().out


def test_the_record_has_the_tables_of_the_command_at_full_size() -> None:
    rows = read_rows(RECORD / "cases.csv")
    assert {(row["length"], row["d_model"], row["repetitions"]) for row in rows} == {("16384", "512", "50")}
    text = (RECORD / "tables.md").read_text(encoding="utf-8")
    assert sources.complexity_table(16_384).to_markdown() in text
    numeric = [{key: _number(value) for key, value in row.items()} for row in rows]
    assert sources.timing_table(numeric).to_markdown() in text


def _number(text: str) -> object:
    if text in ("True", "False", ""):
        return {"True": True, "False": False, "": None}[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
