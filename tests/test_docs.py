"""README and documentation agree with the program: commands, tables, names, links, and the built site."""

import argparse
import ast
import csv
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from omegaconf import OmegaConf

from benchmarks import intervals, known_ahead
from benchmarks.accuracy import tables
from benchmarks.accuracy.record import read_record
from benchmarks.gpu import page as gpu_page
from benchmarks.gpu.record import FOLDER, Book
from benchmarks.published import attention as published_attention
from benchmarks.published import choices
from benchmarks.published import tables as published
from benchmarks.published.record import read_rows
from benchmarks.studies.parity import WORDS as PARITY_WORDS
from benchmarks.time_to_quality import __main__ as time_to_quality
from forecast import attention
from forecast.__main__ import COMMANDS
from forecast.attention._parsing import attention_arguments
from forecast.check.candidate import Candidate
from forecast.check.tables import BEGIN, END, markdown
from forecast.common.conf_files import configuration_folder
from forecast.data.lengths import Lengths, choose_lengths
from forecast.data.split import split_rows
from forecast.evaluation.baselines import BASELINES
from forecast.runs.run import NAMED
from tests.attention.reference import REFERENCES
from tests.support.browser import open_page
from tests.support.small import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
OTHERS = ("CONTRIBUTING.md", "SECURITY.md", "data/README.md", "benchmarks/README.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OTHERS)]
    if path.is_file()
}
"""README and the pages for a reader, by path; made pages are not among them."""

RECORD_FOLDER = ROOT / "benchmarks" / "records"
RECORDS = list(csv.DictReader((RECORD_FOLDER / "accuracy" / "long.csv").read_text(encoding="utf-8").splitlines()))

OPENED = (
    *("index", "tutorials/forecast-your-file", "how-to/choose-an-attention", "explanation/model"),
    *("reference/options", "reference/python", "reference/mechanisms/full"),
)
"""Pages of the built site that a browser opens."""

FIRST_OPENED = ("index", "how-to/choose-an-attention", "explanation/model", "reference/python")
"""Pages that the default run of the tests opens: the others run with `-m exhaustive`."""

OUTSIDE = "https://example.invalid/picture.png"


def load_hooks() -> ModuleType:
    """Return docs/hooks.py, which is in no package; as in MkDocs, it imports the modules beside it."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(sys, "path", [str(ROOT / "docs"), *sys.path]):
        spec.loader.exec_module(module)
    return module


HOOKS = load_hooks()


def joined(text: str) -> str:
    """Return text in which a line that ends in a backslash goes on in the next."""
    return re.sub(r"\\\n\s*", " ", text)


def commands(pattern: str) -> list[str]:
    """Return the commands that begin with `pattern`, each once, from code blocks and from code within a line."""
    texts = [joined(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)) for text in PAGES.values()]
    shown = [match for text in texts for match in re.findall(rf"{pattern}[^\n`|]*", text)]
    return list(dict.fromkeys(command.partition(" # ")[0].strip() for command in shown))


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Yield the page and the content of each code block in one of the languages."""
    for page, text in PAGES.items():
        for indent, language, content in re.findall(
            r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE
        ):
            if language in languages:
                yield page, "\n".join(line.removeprefix(indent) for line in content.splitlines())


# --- commands

OWN = set(re.findall(r"conf/attention/(\w+)\.yaml", "\n".join(PAGES.values()))) - set(attention.available())
"""Mechanisms that a page has the reader write; tests/end_to_end/test_own_attention.py trains with them."""


def compose_words(words: list[str]) -> None:
    """Compose the configuration of a training, each swept word at its first value."""
    arguments = get_args_parser().parse_intermixed_args(words)
    given = list(arguments.overrides)
    if any(word.startswith("resume=") for word in given) and any(word.startswith("data.path=") for word in given):
        given = ["data=csv", *given]  # as the program does
    overrides = [_first_job(each) for each in OverridesParser.create().parse_overrides(given)]
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", overrides)
    OmegaConf.to_container(config, resolve=True, throw_on_missing=not (arguments.help or arguments.hydra_help))


def _first_job(override: Override) -> str:
    if not override.is_sweep_override():
        assert override.input_line is not None
        return override.input_line
    if isinstance(value := override.value(), IntervalSweep):
        return f"{override.get_key_element()}={value.start}"
    return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"


def _training_commands() -> list[str]:
    recorded = [record["command"] for record in RECORDS if record["command"]]
    shown = [*commands(r"python train\.py"), *commands(r"python -m forecast\.training(?![.\w])")]
    own = {f"attention={name}" for name in OWN}
    return [command for command in [*shown, *recorded] if not own & set(command.split())]


@pytest.mark.parametrize("command", _training_commands())
def test_every_training_command_composes(command: str) -> None:
    words = shlex.split(command)
    compose_words(words[2 if words[1] == "train.py" else 3 :])


@pytest.mark.parametrize("command", commands(r"python -m (?:forecast(?!\.training)|benchmarks)\.[a-z]"))
def test_every_other_command_is_taken_by_its_parser(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, module, *words = shlex.split(command)
    if module.endswith(":"):
        module, words = module[:-1], []  # its name, and what it does
    assert module in [*HOOKS.commands("forecast"), *HOOKS.commands("benchmarks")]
    if words and module == "benchmarks.studies.parity":  # it has no parser: a word of its own, then those of train.py
        assert words[0] in ("in_order", "mixed_up")
        compose_words([*PARITY_WORDS, *words[1:]])
        return
    if not words:
        return  # its name alone
    with monkeypatch.context() as patch:
        options = parsed(module, words, patch)
    if overrides := getattr(options, "overrides", None):
        compose_words(overrides)


class _Parsed(Exception):
    """What a parser made of a command line, raised where the command would begin its work."""


def parsed(module: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Return the options that `python -m module words` reads, without running it."""
    main, kind = HOOKS.main_of(module), argparse.ArgumentParser
    for name in ("parse_args", "parse_intermixed_args"):
        original = getattr(kind, name)

        def parse(parser: Any, *given: Any, original: Any = original) -> None:
            raise _Parsed(original(parser, *given))

        monkeypatch.setattr(kind, name, parse)
    monkeypatch.setattr(sys, "argv", [module, *words])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which one of them sets
    if "--help" in words:
        with pytest.raises(SystemExit, match="0"):
            main()
        return argparse.Namespace()
    with pytest.raises(_Parsed) as found:
        main()
    options: argparse.Namespace = found.value.args[0]
    return options


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BY_OTHER_TESTS = ("train.py", "forecast", "benchmarks")
ELSEWHERE = (
    *("cd", "git", "source", "tensorboard", "ruff", "mypy", "lint-imports", "srun", "torchrun", "sbatch", "curl"),
    *("mkdir", "cp", "mv", "unzip", "ls", "head", "cat", "export", "kaggle", "gunzip", "forecast-train", "pre-commit"),
    "docker",
)
"""Programs whose words are their own affair."""


def _shell_lines() -> list[str]:
    lines = [line.strip() for _, text in blocks("bash", "sh", "shell", "console") for line in joined(text).splitlines()]
    kept = [line.removeprefix("$ ") for line in lines if line and not line.startswith("#")]
    return list(dict.fromkeys(part.strip() for line in kept for part in re.split(r"&&|\|", line)))


@pytest.mark.parametrize("line", _shell_lines())
def test_every_line_for_a_shell_is_a_command_that_exists(line: str) -> None:
    words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if not words:
        return  # a variable alone
    program, *rest = words
    if re.fullmatch(r"python[\d.]*", program):
        name = rest[1] if rest[0] == "-m" else rest[0]
        assert name.split(".")[0] in ("venv", "pip", "pytest", "mkdocs") or name.startswith(BY_OTHER_TESTS), line
    elif program in ("pip", "pip3"):
        for extra in re.findall(r"\[([\w,]+)\]", line):
            assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"]), line
    elif program in ("pytest", "bash"):
        files = [word.partition("::")[0] for word in rest if "/" in word]
        assert all((ROOT / file).exists() for file in files), line
    elif program == "forecast":
        assert rest[0] in COMMANDS, line
    elif program == "mkdocs":
        assert rest[0] in ("build", "serve"), line
    else:
        assert program in ELSEWHERE, f"{line}: say in tests/test_docs.py how this command is checked"


@pytest.mark.parametrize(("page", "code"), list(blocks("python", "py")))
def test_python_examples_are_valid_and_import_what_exists(page: str, code: str) -> None:
    for node in ast.walk(ast.parse(code, page)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "forecast":
            assert node.module is not None
            module = importlib.import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == [], page


# --- numbers and tables


def between(text: str, begin: str, end: str) -> str:
    """Return the text between two marks, without the empty lines around it."""
    return text.partition(begin)[2].partition(end)[0].strip()


def marked(begin: str, end: str) -> dict[str, str]:
    """Return what is between the two marks, by page."""
    return {page: between(text, begin, end) for page, text in PAGES.items() if begin in text}


def all_text() -> str:
    return "\n".join(PAGES.values())


def test_set_up_is_two_commands_within_the_first_twenty_lines() -> None:
    top = "\n".join(README.splitlines()[:20])
    assert "pip install -e . && python train.py" in top
    assert 'pip install -e ".[test]" && pytest' in top


STEPS = {"15 minutes": "15min", "hour": "h", "day": "D", "week": "W", "month": "MS", "year": "YS"}


def test_an_own_table_has_the_lengths_that_the_pages_say() -> None:
    page = PAGES["docs/how-to/your-own-data.md"]
    stated = re.findall(r"^\| (\w[\w ]*) \| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert {step for step, *_ in stated} == set(STEPS)

    def lengths(step: str, rows: int) -> list[int | None]:
        split = split_rows(rows, **OmegaConf.load(ROOT / "conf/data/_file.yaml").split)
        return list(vars(choose_lengths(Lengths(), STEPS[step], split)).values())

    for step, rows, *numbers in stated:
        assert lengths(step, int(rows.replace(",", ""))) == [*map(int, numbers), int(numbers[-1])]
    assert "Two months of hours give a look-back of 168 and a horizon of 24, a year 512 and 96." in README
    assert [lengths("hour", rows)[:2] for rows in (1440, 8760)] == [[168, 24], [512, 96]]


def test_the_attention_table_is_what_the_classes_declare() -> None:
    found = marked(BEGIN, END)
    assert found
    for page, written in found.items():
        names = re.findall(r"^\| `(\w+)` \|", written, re.MULTILINE)
        assert names == sorted(names)
        assert set(REFERENCES) <= set(names)  # a mechanism that a user adds need not be on the page
        candidates = [Candidate(arguments) for arguments in attention_arguments(names).values()]
        assert written == markdown(candidates), f"run: python -m forecast.check --write {page}"


def test_the_tables_of_accuracy_are_the_record() -> None:
    record = read_record(RECORD_FOLDER / "accuracy" / "results.csv")
    found = marked(tables.BEGIN, tables.END)
    assert found
    for page, written in found.items():
        assert written == tables.tables(record), f"run: python -m benchmarks.accuracy --write {page}"


def test_the_table_of_a_gpu_is_its_records() -> None:
    rows = Book(FOLDER, torch.device("cpu")).rows
    table = gpu_page.crossing_table(rows)
    assert marked(gpu_page.BEGIN, gpu_page.END) == {"docs/how-to/choose-an-attention.md": table}


def test_the_tables_of_what_is_known_ahead_are_the_record() -> None:
    found = marked(known_ahead.BEGIN, known_ahead.END)
    assert found
    runs, pairs = (known_ahead.read(ROOT / path) for path in (known_ahead.RUNS, known_ahead.PAIRS))
    for page, written in found.items():
        assert written == known_ahead.tables(runs, pairs), f"run: python -m benchmarks.known_ahead --write {page}"


@pytest.mark.parametrize(
    ("module", "made"),
    [
        (choices, choices.summary),
        (published_attention, published_attention.summary),
        (time_to_quality, time_to_quality.summary),
        (intervals, intervals.tables),
    ],
    ids=["choices", "attention", "time to quality", "intervals"],
)
def test_the_table_of_a_benchmark_is_its_record(module: ModuleType, made: Callable[[pd.DataFrame], str]) -> None:
    found = marked(module.BEGIN, module.END)
    assert found
    for page, written in found.items():
        assert written == made(read_rows(ROOT / module.RECORD)), f"write it into {page} again"


def test_the_tables_of_the_published_tasks_are_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    rows = read_rows(ROOT / published.RECORD)
    long = f"{published.summary(rows)}\n\n{published.standing(rows, 'joined')}"
    short = published.standing(rows, "joined", short=True)
    assert marked(published.SCORES_BEGIN, published.SCORES_END) == {"docs/measurements/published.md": long}
    assert marked(published.HEADLINE_BEGIN, published.HEADLINE_END) == {"README.md": short}


def test_the_result_table_is_the_record() -> None:
    assert RECORDS
    for record in RECORDS:
        cells = f"| {float(record['test_mse']):.3f} | {float(record['test_mae']):.3f} |"
        rows = [line for line in all_text().splitlines() if line.startswith("|") and cells in line]
        assert any(record["label"] in row for row in rows), record["label"]


def test_every_printed_table_of_a_run_has_the_baselines_of_the_program() -> None:
    blocks = [(page, block) for page, text in PAGES.items() for block in re.findall(r"┏━.*?┘", text, re.DOTALL)]
    shown = [(page, block) for page, block in blocks if "┃ forecast " in block]
    assert len(shown) >= 4
    for page, block in shown:
        rows = [line.removeprefix("│ ") for line in block.splitlines()]
        absent = [each.title for each in BASELINES.values() if not any(row.startswith(each.title) for row in rows)]
        assert absent == [], page


def test_the_measured_table_is_the_benchmark_s_record() -> None:
    folder = RECORD_FOLDER / "attention"
    cases = [_cases(folder / "cases.csv"), _cases(folder / "long" / "cases.csv")]
    at = [("forward", "4096", 0), ("forward", "16384", 0), ("forward", "262144", 1), ("forward+backward", "8192", 0)]
    for mechanism in dict.fromkeys(name for name, *_ in cases[0]):
        short, long, longest, both = (cases[run].get((mechanism, *case)) for *case, run in at)
        cells = [_number(short, "median_ms"), _number(long, "median_ms"), _times(cases[0], long, "forward", 0)]
        cells += [_number(long, "peak_mib"), _number(longest, "median_ms"), _number(both, "median_ms")]
        cells += [_times(cases[0], both, "forward+backward", 1), _number(both, "peak_mib")]
        assert f"| `{mechanism}` | {' | '.join(cells)} |" in all_text()


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


# --- names and links


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"`((?:forecast|conf|data|benchmarks|tests|docs)/[\w/.-]+\.\w+)`", PAGES[page])
    assert [name for name in named if Path(name).stem not in OWN and not (ROOT / name).exists()] == []


def test_the_page_on_run_folders_marks_the_files_that_a_manifest_hashes() -> None:
    page = PAGES["docs/reference/run-folder.md"]
    marked_yes = re.findall(r"^\| (`[^|]+) \| yes \|", page, re.MULTILINE)
    assert sorted(re.findall(r"`([\w.]+)`", " ".join(marked_yes))) == sorted(NAMED)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: str) -> None:
    """Headings that a page of docs/ links to are checked by MkDocs."""
    made = {f"docs/{path}" for path in HOOKS.pages()}
    for link in re.findall(r"\]\(([^)\s]+)(?: [^)]*)?\)", without_code(PAGES[page])):
        if re.match(r"\w+:", link):
            continue
        target, _, heading = link.partition("#")
        place = os.path.normpath((Path(page).parent / target).as_posix()) if target else page
        assert place in made or (ROOT / place).exists(), link
        if heading and place in PAGES and not page.startswith("docs/"):
            assert heading in anchors(PAGES[place]), link


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors that a page has on GitHub."""
    headings = re.findall(r"^#+ +(.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- the site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site: the one that `.ci/run` has built, or a new one."""
    if built := os.environ.get("FORECAST_SITE"):
        return Path(built)
    if not all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings", "latex2mathml"))):
        pytest.skip('the site needs pip install -e ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]  # --quiet hides warnings
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def test_equations_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    page = HOOKS.on_page_content(
        '<p>a <span class="arithmatex">\\(x &lt; \\frac{1}{2}\\)</span></p><div class="arithmatex">\\[\ny\n\\]</div>'
    )
    assert [page.count(text) for text in ('display="inline"', 'display="block"', "<mfrac>", "arithmatex")] == [
        1,
        1,
        1,
        2,
    ]
    assert "\\" not in page


@pytest.mark.slow
def test_the_site_has_every_page_and_no_equation_is_left_as_text(site: Path) -> None:
    for page in [*(name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")), *HOOKS.pages()]:
        html = (site / page).with_suffix(".html").read_text(encoding="utf-8")
        assert "\\(" not in re.sub(r"<(pre|code|script)\b.*?</\1>", "", html, flags=re.DOTALL), page


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in FIRST_OPENED else pytest.param(name, marks=pytest.mark.exhaustive) for name in OPENED]
)
def test_the_site_opens_from_its_folder_and_asks_no_outside_address(site: Path, tmp_path: Path, name: str) -> None:
    opened = open_page(site / f"{name}.html", tmp_path)
    assert opened.requests == []
    assert "<main" in opened.document


@pytest.mark.slow
def test_a_request_of_a_page_to_an_outside_address_is_seen(site: Path, tmp_path: Path) -> None:
    page = site / "outside.html"
    text = (site / "index.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f'<img src="{OUTSIDE}"></body>'), encoding="utf-8")
    try:
        assert open_page(page, tmp_path).requests == [OUTSIDE]
    finally:
        page.unlink()


def test_made_pages_list_every_choice_of_the_folders() -> None:
    options, mechanisms, found = (
        HOOKS.pages()[f"reference/{name}.md"]() for name in ("options", "mechanisms", "commands")
    )
    for file in configuration_folder().glob("*/*.yaml"):
        if not file.stem.startswith("_"):
            assert f"`{file.stem}`" in options, file
    assert re.findall(r"^## `(\w+)`", mechanisms, re.MULTILINE) == attention.available()
    assert set(re.findall(r"^## `python -m ([\w.]+)`", found, re.MULTILINE)) == set(HOOKS.commands())


def test_every_option_has_a_meaning() -> None:
    rows = [
        line for line in HOOKS.pages()["reference/options.md"]().splitlines() if re.match(r"\| `[\w.]+` \| `", line)
    ]
    assert len(rows) > 80
    strangers = [name for name in attention.available() if name not in REFERENCES]
    unexplained = [row for row in rows if row.endswith("|  |")]
    known = attention_arguments(strangers).values() if strangers else ()
    theirs = {f"attention.{key}" for arguments in known for key in arguments}
    assert {row.split("`")[1] for row in unexplained} <= theirs


def block(language: str, text: str) -> str:
    return f'<div class="language-{language} highlight"><pre><code>{text}</code></pre></div>'


@pytest.mark.parametrize(
    "columns", ["│ model │ 0.1 │", "a  b", "usage: x\n       [--y]", "2022-01-01 00:00:00,277.7,23.78"]
)
def test_output_with_columns_keeps_its_lines(columns: str) -> None:
    assert HOOKS.on_page_content(block("text", columns)) == block("text", columns)


def test_commands_and_messages_wrap_but_not_inside_a_flag() -> None:
    assert "highlight wraps" in HOOKS.on_page_content(block("text", "error: my.csv, row 1, one of a, b"))
    command = HOOKS.on_page_content(block("bash", 'python<span class="w"> </span>--run latest --in-place'))
    assert "highlight wraps" in command
    assert "<span>--run</span> latest <span>--in-place</span>" in command
