"""The command: tables, lines, files and exit codes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from forecast.attention import available
from forecast.attention.base import Attention
from forecast.attention.mean import MeanAttention
from forecast.check.__main__ import main
from forecast.check.suite import CHECKS
from forecast.check.tables import BEGIN, END
from tests.attention.reference import REFERENCES
from tests.check.broken import DropsOutInEvaluation, SumsInHalf
from tests.check.test_suite import replace_mean
from tests.support.small import ROOT


@pytest.mark.slow
def test_every_mechanism_passes_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert set(re.findall(r"^checks pass for (\w+) against its own map", printed, re.MULTILINE)).isdisjoint(REFERENCES)
    (passed,) = re.findall("^all promised checks pass for (.*)$", printed, re.MULTILINE)
    assert set(REFERENCES) <= set(passed.split(", ")) <= set(available())
    for check in CHECKS:
        assert f"│ {check.name} " in printed
    for name in available():
        assert f"│ {name} " in printed
    assert "✗ outside" in printed
    assert printed.count("✗") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("short_checks")
def test_output_is_repeatable_and_random_states_do_not_change(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert main(["probsparse", "--length", "20"]) == 0
    first = capsys.readouterr().out
    assert "length 20" in first
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert main(["probsparse", "--length", "20"]) == 0
    assert capsys.readouterr().out == first


@pytest.mark.usefixtures("short_checks")
def test_a_mechanism_that_draws_in_evaluation_does_not_change_the_random_state(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_mean(monkeypatch, DropsOutInEvaluation)
    before = torch.get_rng_state()
    assert main(["mean", "--quiet"]) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_a_failure_names_mechanism_check_value_and_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, SumsInHalf)
    assert main(["mean", "--length", "16"]) == 1
    printed = capsys.readouterr().out
    assert "✗ inf │" in printed
    assert printed.rstrip().splitlines()[-1] == (
        "fail: attention=mean: long sums, half: inf is not within 7.8e-03 (promised: Sum over 2,400 positions in more "
        "than half precision, for bfloat16 and float16.)"
    )


class Raises(MeanAttention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *more: Tensor | None) -> Tensor:
        if value.shape[2] == 1:
            raise RuntimeError("a sequence of one\nis none")
        return super().attend(query, key, value, mask, *more)


@pytest.mark.usefixtures("short_checks")
def test_a_mechanism_that_raises_fails_that_check_and_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, Raises)
    assert main(["full", "mean"]) == 1
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("fail:")]
    raised = Raises.attend.__code__.co_firstlineno + 2
    assert lines == [
        "fail: attention=mean: masked = cut; cross lengths; B = H = L = 1: RuntimeError: a sequence of one, "
        f"test_check.py line {raised}"
    ]
    assert printed.count("✗ error") == 3


class Misspelt(MeanAttention):
    def attend(self, *inputs: Tensor | None) -> Tensor:
        return valeu  # type: ignore[name-defined] # noqa: F821


def test_the_same_error_in_many_checks_is_one_line_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, Misspelt)
    assert main(["mean", "--quiet"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("fail: attention=mean: map; output, float32; gradient, float32 and ")
    place = f"test_check.py line {Misspelt.attend.__code__.co_firstlineno + 1}"
    assert line.endswith(f" more checks: NameError: name 'valeu' is not defined, {place}")


def test_names_are_checked_once_each_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", "full", "mean", "--markdown"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| `mean`", "| `full`"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["softmax"], f"attention=softmax does not exist: choose from {', '.join(available())}"),
        (["full", "base"], "attention=base does not exist"),
        (["--length", "15"], "--length 15: must be at least 16"),
        (["--write", "none.md"], "none.md: no such file"),
        (["--markdown", "--length", "160"], "--length and --device have no effect with --markdown or --write"),
        (["--markdown", "--device", "cpu"], "--length and --device have no effect with --markdown or --write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", "--device", "cuda"]) == 2
    assert "torch finds no CUDA device" in capsys.readouterr().err


@pytest.mark.gpu
def test_every_mechanism_passes_on_cuda() -> None:
    assert main(["--device", "cuda"]) == 0


@pytest.mark.parametrize("word", ["--markdown", "--quiet"])
def test_a_class_without_costs_is_refused_before_any_check(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Secretive(Attention):
        attend = MeanAttention.attend
        attention_weights = MeanAttention.attention_weights

    replace_mean(monkeypatch, Secretive)
    monkeypatch.setattr("forecast.check.suite.examine", None)
    assert main(["mean", word]) == 2
    assert (
        "attention=mean: Secretive declares no time_cost, such as Cost(length=2, width=1) for O(L² E)"
        in capsys.readouterr().err
    )


def test_the_table_is_written_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter · ü\n", encoding="utf-8")
    assert main(["mean", "--write", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n| `attention=` | time |")
    assert text.endswith(f"| yes |\n{END}\nafter · ü\n")
    assert "\n| `mean` | O(L E) | O(E), causal O(L E) | strict | yes | no | yes | yes |\n" in text
    assert "old" not in text
    assert main(["mean", "--write", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["none", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END}"])
def test_a_file_without_the_marks_does_not_change(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.md"
    file.write_text(text)
    assert main(["mean", "--write", str(file)]) == 2
    assert "once each" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.exhaustive
def test_lightning_is_not_imported() -> None:
    code = (
        "import sys; from forecast.check.__main__ import main; assert main(['mean', '--quiet']) == 0; "
        "print([name for name in sys.modules if name.startswith(('lightning', 'pandas', 'matplotlib'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Greedy(MeanAttention):
    def attend(self, *inputs: Tensor | None) -> Tensor:
        raise MemoryError("no room")


def test_a_lack_of_memory_is_not_a_fault_of_the_mechanism(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, Greedy)
    assert main(["mean"]) == 6
    assert capsys.readouterr().err == "error: mean: not enough memory (no room): lower --length\n"
