import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.common.settings import options_of
from forecast.evaluation.metrics import loss_by_name
from forecast.runs.settings import Settings, TrainingSettings, follow_table, parse_time
from tests.support.prepared import prepare
from tests.support.small import compose, write

CONFIG = compose()


def training(**changes: Any) -> dict[str, Any]:
    return {**CONFIG["training"], **changes}


def test_root_options_are_read_unchanged() -> None:
    settings = Settings.parse({**CONFIG, "context_length": 7, "horizon": 3, "seed": 0})
    assert (settings.context_length, settings.horizon, settings.seed) == (7, 3, 0)
    assert (settings.loss, settings.output_dir) == (CONFIG["loss"], CONFIG["output_dir"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context_length", 0),
        ("context_length", 96.0),
        ("context_length", True),
        ("horizon", 0),
        ("horizon", "long"),
        ("seed", -1),
        ("seed", 2**32),
        ("seed", 1.5),
        ("loss", 3),
        ("output_dir", None),
    ],
)
def test_an_invalid_root_value_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        Settings.parse({**CONFIG, key: value})


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_every_accepted_seed_seeds_every_generator(seed: int) -> None:
    import lightning

    assert Settings.parse({**CONFIG, "seed": seed}).seed == seed
    with torch.random.fork_rng():
        lightning.seed_everything(seed, verbose=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_epochs", 0),
        ("max_epochs", math.nan),
        ("max_epochs", math.inf),
        ("max_epochs", "five"),
        ("max_steps", 0),
        ("max_steps", 2.5),
        ("max_time", "ten minutes"),
        ("max_time", 600),
        ("batch_size", 0),
        ("batch_size", None),
        ("evaluation_batch_size", 0),
        ("validations_per_epoch", 0),
        ("validations_per_epoch", -1.0),
        ("precision", 32),
        ("max_grad_norm", 0),
        ("max_grad_norm", math.nan),
        ("progress", "no"),
        ("momentum", 0.9),
    ],
)
def test_an_invalid_training_value_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"training.{key}"):
        TrainingSettings.parse(training(**{key: value}))


@pytest.mark.parametrize(
    ("changes", "windows", "steps"),
    [
        ({"max_epochs": 2, "batch_size": 64}, 640, 20),
        ({"max_epochs": 2.5, "batch_size": 64}, 640, 25),
        ({"max_epochs": 1, "batch_size": 64}, 650, 10),
        ({"max_epochs": 1, "batch_size": 64}, 3, 1),
        ({"max_epochs": 2, "batch_size": 64, "max_steps": 7}, 640, 7),
    ],
)
def test_the_length_of_a_run_is_counted_in_steps(changes: dict[str, Any], windows: int, steps: int) -> None:
    assert TrainingSettings.parse(training(**{"max_steps": None, **changes})).total_steps(windows) == steps


@pytest.mark.parametrize(("per_epoch", "interval"), [(1, 10), (2, 5), (0.5, 20), (1000, 1)])
def test_the_validation_interval_follows_from_validations_per_epoch(per_epoch: float, interval: int) -> None:
    settings = TrainingSettings.parse(training(batch_size=64, validations_per_epoch=per_epoch))
    assert settings.validation_interval(640) == interval


def test_optional_training_values_may_be_null() -> None:
    settings = TrainingSettings.parse(training(max_steps=None, max_time=None, max_grad_norm=None))
    assert settings.max_steps is settings.max_time is settings.max_grad_norm is None


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("00:00:10:00", timedelta(minutes=10)),
        ("01:02:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("0:0:0:90", timedelta(seconds=90)),
    ],
)
def test_a_duration_is_read_as_days_hours_minutes_seconds(text: str, duration: timedelta) -> None:
    assert parse_time(text) == duration


@pytest.mark.parametrize(
    "text", ["", "10:00", "00:10:00", "a:b:c:d", "00:00:-1:00", "0:0:0:1.5", "::::", "0:0:0:²", "9999999999:0:0:0"]
)
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="must be dd:hh:mm:ss, such as 00:00:10:00 for ten minutes"):
        parse_time(text)


@pytest.mark.parametrize(
    ("key", "value", "choices"),
    [
        ("training.data_placement", "disk", "auto, device or mapped"),
        ("training.precision", "fp8", "auto, 32-true or bf16-mixed"),
        ("trainer.accelerator", "tpu", "auto, cpu, gpu or cuda"),
    ],
)
def test_an_unknown_choice_is_refused_with_the_choices(key: str, value: str, choices: str) -> None:
    group, name = key.split(".")
    with pytest.raises(InputError, match=rf"^{key}={value}: choose {choices}$"):
        Settings.parse({**CONFIG, group: {**CONFIG[group], name: value}})


def test_the_documented_losses_are_those_that_exist() -> None:
    for name in options_of(Settings)["loss"].choices:
        loss_by_name(name)
    with pytest.raises(InputError, match=r"^loss=crps: choose mse, mae, huber or quantile$"):
        Settings.parse({**CONFIG, "loss": "crps"})


def test_quantiles_belong_to_their_loss() -> None:
    levels = [0.05, 0.5, 0.95]
    assert Settings.parse({**CONFIG, "loss": "quantile", "quantiles": levels}).quantiles == levels
    with pytest.raises(InputError, match=r"^quantiles=\[0.05, 0.5, 0.95\]: only loss=quantile forecasts them"):
        Settings.parse({**CONFIG, "loss": "mae", "quantiles": levels})


@pytest.mark.parametrize(
    "levels", [[], [0.5], [0.1, 0.9], [0.1, 0.5, 0.8], [0.9, 0.5, 0.1], [0.1, 0.5, 0.5, 0.9], [0.0, 0.5, 1.0]]
)
def test_levels_that_a_model_cannot_forecast_are_refused(levels: list[float]) -> None:
    with pytest.raises(InputError, match=r"^quantiles=.*: use levels such as quantiles=\[0.1,0.5,0.9\]$"):
        Settings.parse({**CONFIG, "loss": "quantile", "quantiles": levels})


def test_quantiles_are_numbers() -> None:
    with pytest.raises(InputError, match=r"^quantiles=\['a'\]: must be numbers"):
        Settings.parse({**CONFIG, "loss": "quantile", "quantiles": ["a"]})


ORDINARY = {"h": 1440, "D": 730, "W-MON": 260, "MS": 120, "YS": 40}


def own_table(folder: Path, frequency: str, *words: str) -> Settings:
    """Return the settings of the first command on a table of ordinary length."""
    rows = ORDINARY[frequency]
    dates = pd.date_range("1980-01-01", periods=rows, freq=frequency)
    wave = 10 + np.sin(np.arange(rows) / 3)
    path = write(folder / "my.csv", pd.DataFrame({"date": dates, "value": wave.round(3)}))
    return Settings.parse({**compose("data=csv", f"data.path={path}", *words), "output_dir": str(folder)})


@pytest.mark.parametrize("frequency", ORDINARY)
def test_a_table_of_ordinary_length_is_prepared_without_other_words(tmp_path: Path, frequency: str) -> None:
    settings = own_table(tmp_path, frequency)
    made = prepare(settings)
    model, plain = made.settings.model, made.settings.plain
    assert made.data.sizes["context_length"] == plain["context_length"] == made.settings.context_length
    assert made.data.sizes["horizon"] == plain["horizon"] == made.settings.horizon
    assert made.architecture.options["patch_length"] == plain["model"]["patch_length"] == model["patch_length"]
    assert plain["model"]["stride"] == model["patch_length"] >= 2
    assert all(len(windows) >= 4 for windows in made.data.parts.values())
    assert (plain["data"], plain["training"]) == (settings.plain["data"], made.settings.plain["training"])


def test_the_line_about_the_lengths_names_those_that_were_not_set(tmp_path: Path) -> None:
    settings, source = follow_table(own_table(tmp_path, "h", "horizon=48"))
    assert settings.chosen == (
        "context_length=168 model.patch_length=24 model.stride=24: chosen for 1,440 rows of step h"
    )
    assert source is not None
    assert follow_table(settings) == (settings, None)  # nothing is missing, and the table is not read again
    informer, _ = follow_table(own_table(tmp_path, "D", "model=informer"), source=None)
    assert informer.chosen == "context_length=84 horizon=7: chosen for 730 rows of step D"
    assert informer.model == informer.plain["model"] == compose("model=informer")["model"]


@pytest.mark.parametrize("word", ["patch_length=long", "patch_length=0", "stride=1.5", "stride=True", "stride=-24"])
def test_a_patch_that_is_no_length_is_refused_by_name(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match=rf"^model\.{word}: must be a whole number of at least 1$"):
        follow_table(own_table(tmp_path, "YS", f"model.{word}"))


@pytest.mark.parametrize("words", [[], ["data=etth1"], ["experiment=known_ahead", "data=csv", "data.path=absent.csv"]])
def test_fixed_lengths_do_not_wait_for_the_table(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.runs.settings.load_source", None)
    settings = Settings.parse(compose(*words))
    assert follow_table(settings) == (settings, None)
    assert (settings.lengths, settings.chosen) == ((512, 96), "")
