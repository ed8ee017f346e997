import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from forecast.common.conf_files import choice_files, load_choice, option_files
from forecast.common.configuration import compose_words
from forecast.common.errors import InputError
from forecast.data.generated.synthetic import simulate_transformer
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.data.split import split_rows
from forecast.predict.ensemble import load
from forecast.tables.formats.unpacking import find_file
from forecast.tables.repair import Policies
from forecast.training.command_line import help_text
from forecast.training.sweep.overrides import check_choices
from forecast.training.train import train
from tests.support.small import compose, quick

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
PRESETS = [path.stem for path in choice_files("data")]
EXPERIMENTS = [None, *(path.stem for path in choice_files("experiment"))]
GENERATED = ("synthetic", "diagnostic", "generated")
PUBLIC = [name for name in PRESETS if name not in ("csv", *GENERATED)]
EVERY = {"name", "source", "time_column", "targets", "past_covariates", "frequency", "split"}
EVERY |= {"calendar", "duplicates", "missing", "known_covariates", "static_covariates", "categorical"}
EVERY |= {"perfect_foresight", "holidays", "holidays_before", "holidays_after"}
FILE = {"path", "file_name", "url", "sha256", "about", "missing_values", "time_columns", "date_format", "last_rows"}
FILE |= {"time_zone"}
FILE |= {"delimiter", "decimal", "thousands", "encoding", "header_row", "skip_footer", "columns", "sheet"}
FILE |= {"holidays_column", "id_columns", "id_embedding", "split_by", "least_context", "short_series"}
FILE |= {"resample", "aggregate", "snap", "bounds", "whole_numbers"}
WINDOWS = {"kind", "windows", "window_look_back", "window_horizon", "types", "distance", "unit", "noise", "seed"}
GENERATED_KEYS = {"series", "rows", "seed", "channels", "drivers"}
ONLY = {"synthetic": {"rows", "seed"}, "diagnostic": WINDOWS, "generated": GENERATED_KEYS, "file": FILE}


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that returns the real file of a preset, or skips the test."""

    def find(name: str) -> Path:
        file = find_file(SHARED, compose(f"data={name}")["data"]["file_name"])
        if file is None:
            pytest.skip(f"the file of {name} is not beside the project")
        monkeypatch.setenv("FORECAST_DATA_DIR", str(SHARED))
        return file

    return find


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_keys_of_its_source_and_says_what_it_is(name: str) -> None:
    path = ROOT / "conf" / "data" / f"{name}.yaml"
    preset = load_choice(path)
    assert path.read_text().startswith("# ")
    assert preset.name == (None if name == "csv" else name)  # own data are called by their file
    assert set(preset) == EVERY | ONLY[preset.source]


PAIRS = [
    (name, experiment)
    if experiment in (None, name) or name == "csv"
    else pytest.param(name, experiment, marks=pytest.mark.exhaustive)
    for name in PRESETS
    for experiment in EXPERIMENTS
]


@pytest.mark.parametrize(("name", "experiment"), PAIRS)
def test_a_preset_composes_with_every_experiment_to_its_own_options(name: str, experiment: str | None) -> None:
    words = [f"data={name}", *(["data.path=my.csv"] if name == "csv" else [])]
    config = compose(*words, *([] if experiment is None else [f"experiment={experiment}"]))
    data, own = config["data"], OmegaConf.to_container(load_choice(ROOT / "conf" / "data" / f"{name}.yaml"))
    assert isinstance(own, dict)
    if name == "diagnostic":
        own |= {"window_look_back": config["context_length"], "window_horizon": config["horizon"]}
    changes = {} if experiment is None else OmegaConf.load(ROOT / "conf" / "experiment" / f"{experiment}.yaml")
    assert data == {**own, **({"path": "my.csv"} if name == "csv" else {}), **changes.get("data", {})}


def test_the_base_of_presets_is_not_a_preset() -> None:
    assert (ROOT / "conf" / "data" / "_file.yaml").is_file()
    assert "_file" not in PRESETS
    with pytest.raises(InputError, match=r"^data=etth: no such choice: choose csv, ") as caught:
        compose_words(["data=etth"])
    with pytest.raises(InputError, match=r"^data=3: no such choice: choose csv, ") as other:
        check_choices(["data=3"])
    documents = [(ROOT / name).read_text() for name in ("README.md", "data/README.md")]
    for text in (str(caught.value), str(other.value), help_text(compose_words([])), *documents):
        assert "_file" not in re.split(r"[\s,`|]+", text)
    assert not [name for choices in option_files().values() for name in choices if name.startswith("data=_")]


def test_the_default_preset_matches_the_simulation() -> None:
    preset = OmegaConf.load(ROOT / "conf" / "data" / "synthetic.yaml")
    frame = simulate_transformer(preset.rows, preset.seed)
    assert len(frame) == 17520
    split_rows(len(frame), **preset.split)


@pytest.mark.parametrize(
    ("name", "test"),
    [("etth1", (11520, 14400)), ("etth2", (11520, 14400)), ("ettm1", (46080, 57600)), ("ettm2", (46080, 57600))],
)
def test_an_ett_preset_describes_the_real_file(name: str, test: tuple[int, int], beside: Callable[[str], Path]) -> None:
    beside(name)
    source = load_source(DataSettings.parse(config := compose(f"data={name}")["data"]))
    assert list(source.series.frame.columns) == ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    assert source.series.notes == ()
    assert split_rows(len(source.series.frame), **config["split"]).test == range(*test)


def test_the_weather_preset_mends_the_flaws_that_it_states(beside: Callable[[str], Path]) -> None:
    beside("weather")
    series = load_source(DataSettings.parse(compose("data=weather")["data"])).series
    assert series.notes == (
        "81 cells hold -9999 and count as empty (data.missing_values)",
        "1 time had several rows: 2 rows were merged into 1 (data.duplicates=first)",
        "9 missing rows and 80 rows with empty cells filled (data.missing=ffill): 270 of 1,106,784 values",
    )
    assert series.frame.shape == (52_704, 21)
    assert not (series.frame == -9999).any().any()
    assert sum("\N{REPLACEMENT CHARACTER}" in name for name in series.frame.columns) == 3
    assert series.observed is not None
    assert int((~series.observed).sum()) == 9 * 21 + 81


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ettm1", "ettm2", "weather"])
def test_a_preset_trains_on_its_file_and_forecasts_from_it(
    name: str, beside: Callable[[str], Path], tmp_path: Path
) -> None:
    file = beside(name)
    part = "data.split={train:3000,validation:600,test:600}"
    words = [part, "training.evaluation_stride=12", "training.max_steps=2"]
    run, result = train(quick(tmp_path, f"data={name}", *words))
    assert 0 < result["test"]["scaled"]["mse"] < 10
    forecaster = load(run.path)
    assert forecaster.policies == Policies.of(compose(f"data={name}")["data"])
    assert forecaster.predict(pd.read_csv(file).tail(60)).notna().all(axis=None)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_passes_the_check_of_its_group_and_refuses_flaws_by_default(name: str) -> None:
    preset = compose(f"data={name}", *(["data.path=my.csv"] if name == "csv" else []))["data"]
    DataSettings.parse(preset)
    if name not in ("pjme", "weather", "rossmann"):
        assert (preset["duplicates"], preset["missing"]) == ("error", "error")
    if name not in (*GENERATED, "weather"):
        assert preset["missing_values"] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_an_unavailable_file_is_an_error_of_one_line_with_its_description_and_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    config = compose(f"data={name}")["data"]
    if config["url"] is not None:
        assert config["url"].startswith("https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/ETT")
        config["url"] = "http://127.0.0.1:9/"
    with pytest.raises(InputError) as caught:
        load_source(DataSettings.parse(config))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{config['file_name']} ({config['about']}) ")
    assert re.search(r"[\d,]+ rows of .*, columns ", message)
    assert str(Path("data")) in message
    assert not any(tmp_path.iterdir())


def test_standard_borders_every_15_minutes_are_four_times_those_of_every_hour() -> None:
    for station in ("1", "2"):
        hours, quarters = (compose(f"data=ett{step}{station}")["data"] for step in "hm")
        assert quarters["split"] == {part: 4 * rows for part, rows in hours["split"].items()}
        assert (hours["frequency"], quarters["frequency"]) == ("h", "15min")


def test_pjme_is_read_as_found_and_made_regular(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose("data=pjme")["data"]
    if not (SHARED / config["file_name"]).is_file():
        pytest.skip("PJME_hourly.csv is not beside the project")
    monkeypatch.setenv("FORECAST_DATA_DIR", str(SHARED))
    series = load_source(DataSettings.parse(config)).series
    assert len(pd.read_csv(SHARED / config["file_name"])) == 145_366
    assert series.notes == (
        "4 times had several rows: 8 rows were merged into 4 (data.duplicates=mean)",
        "30 missing rows filled (data.missing=interpolate): 30 of 145,392 values",
    )
    assert series.frame.shape == (145_392, 1)
    assert series.observed is not None
    assert int((~series.observed).sum()) == 30
    assert series.frame.loc["2014-11-02 02:00", "PJME_MW"] == (22935 + 23755) / 2
    assert split_rows(len(series.frame), **config["split"]).test == range(116_314, 145_392)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "csv"])
def test_the_readme_of_the_data_names_every_preset_and_its_hash(name: str) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    preset = load_choice(ROOT / "conf" / "data" / f"{name}.yaml")
    assert f"| `{name}` |" in text
    for key in ("url", "sha256"):
        assert str(preset.get(key) or "") in text
