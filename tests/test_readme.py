"""What the README says is what the program does."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from benchmarks.accuracy import tables
from benchmarks.accuracy.record import read_record
from forecast import attention
from forecast.attention._parsing import attention_arguments
from forecast.check.candidate import Candidate
from forecast.check.tables import BEGIN, END, markdown
from forecast.common.conf_files import configuration_folder
from forecast.common.errors import InputError
from forecast.data.split import split_rows
from forecast.data.windows import start_rows

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORD_FOLDER = ROOT / "benchmarks" / "records"
RECORDS = list(csv.DictReader((RECORD_FOLDER / "accuracy" / "long.csv").read_text(encoding="utf-8").splitlines()))


def between(text: str, begin: str, end: str) -> str:
    """Return what stands between two marks, without the empty lines around it."""
    return text.partition(begin)[2].partition(end)[0].strip()


def _commands() -> list[list[str]]:
    recorded = [record["command"] for record in RECORDS if record["command"]]
    shown = re.findall(r"python train\.py[^\n`|]*", README)
    # the reader's own attention is trained in test_own_attention.py
    return [shlex.split(command) for command in [*shown, *recorded] if "attention=mine" not in command]


def _first_job(override: Override) -> str:
    if not override.is_sweep_override():
        assert override.input_line is not None
        return override.input_line
    return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_every_training_command_composes(command: list[str]) -> None:
    parsed = OverridesParser.create().parse_overrides([word for word in command[2:] if word != "-m"])
    overrides = [_first_job(override) for override in parsed]
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", overrides)
    OmegaConf.to_container(config, resolve=True, throw_on_missing=True)


def test_set_up_is_two_commands_within_the_first_twenty_lines() -> None:
    top = "\n".join(README.splitlines()[:20])
    assert "pip install -e . && python train.py" in top
    assert 'pip install -e ".[test]" && pytest' in top


def test_the_defaults_need_about_as_many_rows_as_it_says() -> None:
    (told,) = re.findall(r"The defaults need about (\d+) rows", README)
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", ["data=csv", "data.path=mine.csv"])

    def is_enough(rows: int) -> bool:
        parts = vars(split_rows(rows, **config.data.split))
        try:
            for name, targets in parts.items():
                start_rows(targets, config.context_length, config.horizon, part=name)
        except InputError:
            return False
        return True

    assert all(is_enough(rows) for rows in range(int(told), int(told) + 100))
    assert not is_enough(int(told) - 20)


def test_the_attention_table_is_what_the_classes_declare() -> None:
    candidates = [Candidate(arguments) for arguments in attention_arguments(attention.available()).values()]
    written = between(README, BEGIN, END)
    assert written == markdown(candidates), "run: python -m forecast.check --write README.md"


def test_the_tables_of_accuracy_are_the_record() -> None:
    record = read_record(RECORD_FOLDER / "accuracy" / "results.csv")
    results = (ROOT / "docs" / "explanation" / "results.md").read_text(encoding="utf-8")
    assert tables.RESULTS.begin in results
    for file, text in {"docs/explanation/results.md": results, "README.md": README}.items():
        for block in tables.BLOCKS:
            if block.begin in text:
                content = between(text, block.begin, block.end)
                assert content == block.make(record), f"run: python -m benchmarks.accuracy --write {file}"


def test_the_result_table_is_the_record() -> None:
    assert RECORDS
    for record in RECORDS:
        cells = f"| {float(record['test_mse']):.3f} | {float(record['test_mae']):.3f} |"
        rows = [line for line in README.splitlines() if line.startswith("|") and cells in line]
        assert any(record["label"] in row for row in rows), record["label"]


def test_the_measured_table_is_the_benchmark_s_record() -> None:
    folder = RECORD_FOLDER / "attention"
    cases = [_cases(folder / "cases.csv"), _cases(folder / "long" / "cases.csv")]
    at = [("forward", "4096", 0), ("forward", "16384", 0), ("forward", "262144", 1), ("forward+backward", "8192", 0)]
    for mechanism in dict.fromkeys(name for name, *_ in cases[0]):
        short, long, longest, both = (cases[run].get((mechanism, *case)) for *case, run in at)
        cells = [_number(short, "median_ms"), _number(long, "median_ms"), _times(cases[0], long, "forward", 0)]
        cells += [_number(long, "peak_mib"), _number(longest, "median_ms"), _number(both, "median_ms")]
        cells += [_times(cases[0], both, "forward+backward", 1), _number(both, "peak_mib")]
        assert f"| `{mechanism}` | {' | '.join(cells)} |" in README


def _cases(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    kept = [row for row in rows if row["table"] == "lengths" and row["causal"] == "False" and row["median_ms"]]
    mib = [{**row, "peak_mib": str(float(row["peak_bytes"]) / 2**20)} for row in kept]
    return {(row["mechanism"], row["passes"], row["length"]): row for row in mib}


def _number(case: dict[str, str] | None, key: str) -> str:
    if case is None:
        return ""
    value = float(case[key])
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(cases: dict[tuple[str, ...], dict[str, str]], case: dict[str, str] | None, passes: str, digits: int) -> str:
    if case is None:
        return ""
    fused = cases["full", passes, case["length"]]
    return f"{float(fused['median_ms']) / float(case['median_ms']):,.{digits}f}"


def test_every_file_that_the_readme_names_is_there() -> None:
    for name in re.findall(r"\]\(([\w/.]+)\)", README) + re.findall(r"`((?:forecast|conf|data)/[\w/]+\.\w+)`", README):
        if "mine" not in name:
            assert (ROOT / name).exists(), name
