"""The printed lines at the start of a training."""

from pathlib import Path

import pytest
from lightning.pytorch.accelerators import MPSAccelerator

from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.runs.summary import best_line
from forecast.training.start import roles_lines
from forecast.training.train import train
from tests.support.small import compose, hourly, quick


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ([], []),
        (["data.targets=[load,oil,air]"], []),
        (["data.targets=[load]"], ["targets: load", "columns not read: oil, air"]),
        (
            ["data.targets=[load]", "data.past_covariates=[oil]"],
            ["targets: load; past covariates: oil", "columns not read: air"],
        ),
        (
            ["data.past_covariates=[oil]", "data.known_covariates=[air]"],
            ["targets: load; past covariates: oil; known covariates: air"],
        ),
    ],
)
def test_the_columns_of_each_role_and_those_not_read_are_printed(
    words: list[str], lines: list[str], tmp_path: Path
) -> None:
    hourly().to_csv(tmp_path / "my.csv", index=False)
    config = compose("data=csv", f"data.path={tmp_path / 'my.csv'}", *words)
    assert roles_lines(load_source(DataSettings.parse(config["data"]))) == lines


def test_long_lists_of_columns_are_cut(tmp_path: Path) -> None:
    table = hourly()
    for number in range(20):
        table[f"more_{number}"] = table["load"]
    table.to_csv(tmp_path / "my.csv", index=False)
    config = compose("data=csv", f"data.path={tmp_path / 'my.csv'}", "data.targets=[load]")
    lines = roles_lines(load_source(DataSettings.parse(config["data"])))
    assert lines[1].endswith("more_8, more_9 and 10 more")


@pytest.mark.slow
def test_a_validation_split_too_short_to_accept_a_training_is_named_before_and_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, result = train(quick(tmp_path, "training.start_confidence=0.9", "training.max_steps=40"))
    said = "note: validation is too short to accept trained weights (5 of 8 blocks needed): the forecast will be"
    assert said in capsys.readouterr().out
    assert (result["model"]["best_step"], result["model"]["validation_blocks"]) == (0, 5)
    assert best_line(result) == (
        "Best step 0 of 40: validation is too short to accept trained weights (5 of 8 blocks needed); "
        "training.start_confidence=null lets any better score count. Forecast = ridge alone."
    )
    for words in (["training.start_confidence=null"], ["training.start_confidence=0.9", "horizon=5"]):
        _, result = train(quick(tmp_path, *words, "training.max_steps=1"))
        assert "note: validation is too short" not in capsys.readouterr().out
        assert result["model"]["validation_blocks"] in (None, 13)


@pytest.mark.slow
def test_a_cpu_training_beside_an_unused_gpu_prints_no_advice_to_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning would fail this test; its advice, `Trainer(accelerator='gpu')`, is no word of the command line."""
    monkeypatch.setattr(MPSAccelerator, "is_available", staticmethod(lambda: True))
    train(quick(tmp_path, "training.max_steps=2"))
