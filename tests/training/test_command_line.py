"""`python train.py --help`, compared with the configuration."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast.common.configuration import compose_words
from forecast.common.files import look_up
from forecast.training import command_line
from forecast.training.command_line import COMMON, EXAMPLES, comment, groups, help_text
from tests.support.examples import ROOT
from tests.support.small import hourly, write

CONF = ROOT / "conf"


@pytest.fixture(scope="module")
def shown() -> list[str]:
    """Return the lines of the help without other words."""
    return help_text(compose_words([])).splitlines()


def test_the_help_fits_one_screen(shown: list[str]) -> None:
    assert len(shown) <= 40
    assert max(map(len, shown)) <= 120


@pytest.mark.usefixtures("signals_and_threads")
def test_the_command_line_prints_the_help(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        command_line.main()
    assert capsys.readouterr() == ("\n".join(shown) + "\n", "")


def test_the_command_line_is_imported_without_torch() -> None:
    code = "import sys, forecast.training.command_line; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120).returncode == 0


REFUSED = """
import sys
from forecast.training import command_line
for words in {commands}:
    sys.argv[1:] = words
    try:
        command_line.main()
    except SystemExit as end:
        assert end.code == 2, (words, end.code)
    else:
        raise AssertionError(words)
sys.exit(any(name in sys.modules for name in ("torch", "lightning", "scipy", "sklearn", "matplotlib", "rich")))
"""


def test_options_and_tables_are_refused_before_torch_is_imported(tmp_path: Path) -> None:
    """The imports take ten seconds; a first table may need several attempts."""
    gaps = write(tmp_path / "gaps.csv", hourly(600).drop(index=[7, 8]))
    short = write(tmp_path / "short.csv", hourly(90))
    text = write(tmp_path / "text.csv", hourly(600).assign(load=[f"{row} kW" for row in range(600)]))
    tables = [[f"data.path={path}"] for path in (gaps, text, tmp_path / "absent.csv")]
    tables.append([f"data.path={short}", "context_length=512", "horizon=96"])
    options = ["horizon=0", "data.targets=[wind]", "training.batch_size=x", "loss=rmse", "scheduler=null", "hrzn=3"]
    commands = [["data=csv", *words, f"output_dir={tmp_path}"] for words in tables]
    commands += [["data=csv", f"data.path={short}", option] for option in options]
    code = REFUSED.format(commands=commands)
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("error: ") == result.stderr.count("\n") == len(commands)


@pytest.mark.usefixtures("signals_and_threads")
def test_a_flag_that_does_not_exist_is_refused_with_the_form_of_an_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "5"])
    with pytest.raises(SystemExit, match="2"):
        command_line.main()
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: --epochs: no such flag: write an option as name=value without dashes, such as ")
    assert error.count("\n") == 1


@pytest.mark.usefixtures("signals_and_threads")
@pytest.mark.parametrize("word", ["seed=1,2", "attention=full,mean", "seed=choice(1,2)", "attention=glob(none*)"])
def test_several_values_without_a_sweep_are_refused(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", word])
    with pytest.raises(SystemExit, match="2"):
        command_line.main()
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_every_example_composes() -> None:
    assert len(EXAMPLES) == 4
    for example in EXAMPLES:
        words = [word for word in shlex.split(example)[2:] if word != "-m"]
        compose_words([word.split(",")[0] for word in words])


def test_each_group_has_its_files_as_choices_and_a_marked_default(shown: list[str]) -> None:
    whole = "\n".join(shown).replace("\n" + 30 * " ", " ").splitlines()  # long lists of choices are wrapped
    lines = {line.split()[0]: line.split()[1:] for line in whole if line.startswith("  ")}
    config = compose_words([])
    for folder in (folder for folder in CONF.iterdir() if folder.is_dir()):
        files = sorted(file.stem for file in folder.glob("*.yaml") if not file.stem.startswith("_"))
        assert groups()[folder.name] == files
        if len(files) > 1:
            assert [word.lstrip("*") for word in lines[folder.name]] == files
    for group in ("attention", "data", "model"):
        assert f"*{config[group].name}" in lines[group]
    assert lines["attention@cross_attention"][-1] == config.cross_attention.name


@pytest.mark.parametrize("file", COMMON)
def test_an_option_is_shown_with_its_default_and_its_comment(file: str, shown: list[str]) -> None:
    group = "" if file == "config.yaml" else f"{file.split('/')[0]}."
    config, own = OmegaConf.to_container(compose_words([])), OmegaConf.to_container(OmegaConf.load(CONF / file))
    for name in COMMON[file].split():
        (line,) = (line for line in shown if line.startswith(f"  {group}{name} "))
        meaning = comment(CONF / file, name)
        assert len(meaning) > 10, name
        assert line.endswith(f" {meaning}")
        value = look_up(*((own, name) if group == "data." else (config, f"{group}{name}")))
        assert line.split()[1] == ("(no" if value == "???" else json.dumps(value).strip('"'))


def test_words_beside_the_help_change_the_shown_defaults() -> None:
    lines = help_text(compose_words(["horizon=48", "data=csv", "data.path=a.csv"])).splitlines()
    assert [line.split()[1] for line in lines if line.startswith(("  horizon ", "  data.path "))] == ["a.csv", "48"]


def test_a_comment_is_found_by_the_path_of_its_option(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("# head\na: 1\nb: c  # of b; and more\nsweep:\n  a: 2  # of the inner a\n", encoding="utf-8")
    assert [comment(file, name) for name in ("a", "b", "sweep.a")] == ["", "of b; and more", "of the inner a"]
