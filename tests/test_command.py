"""The command `forecast` and its subcommands."""

import subprocess
import sys

import pytest

from forecast.__main__ import COMMANDS, main
from forecast.runs.results import command_line


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


def test_the_help_imports_no_package_that_is_slow() -> None:
    code = (
        "import sys, forecast.__main__ as f; f.main([]); print(*{'torch', 'pandas', 'numpy', 'hydra'} & {*sys.modules})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == ""


def test_a_mistyped_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert capsys.readouterr().err == "error: 'trian' is not a command of forecast: did you mean train?\n"
    assert main(["x"]) == 2
    assert "choose train, predict" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "train"])
def test_each_command_has_its_help(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["forecast"])
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out.lower()


def test_a_run_records_the_command_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["forecast train", "data=csv", "data.path=my file.csv"])
    assert command_line() == "forecast train data=csv 'data.path=my file.csv'"
