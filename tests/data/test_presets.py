from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast.data.download import locate
from forecast.data.series import read_series
from forecast.data.split import split_rows
from forecast.data.synthetic import simulate_transformer

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
PRESETS = ("synthetic", "etth1", "etth2", "csv")
EVERY = {"name", "source", "time_column", "targets", "past_covariates", "known_covariates", "frequency", "split"}
ONLY = {"synthetic": {"rows", "seed"}, "file": {"path", "file_name", "url", "sha256"}}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_keys_of_its_source_and_says_what_it_is(name: str) -> None:
    path = ROOT / "conf" / "data" / f"{name}.yaml"
    preset = OmegaConf.load(path)
    assert path.read_text().startswith("# ")
    assert preset.name == name
    assert set(preset) == EVERY | ONLY[preset.source]


def test_the_default_preset_is_what_the_simulation_makes() -> None:
    preset = OmegaConf.load(ROOT / "conf" / "data" / "synthetic.yaml")
    frame = simulate_transformer(preset.rows, preset.seed)
    assert len(frame) == 17520
    split_rows(len(frame), **preset.split)


@pytest.mark.parametrize("name", ["etth1", "etth2"])
def test_an_ett_preset_describes_the_real_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = OmegaConf.load(ROOT / "conf" / "data" / f"{name}.yaml")
    if not (SHARED / preset.file_name).is_file():
        pytest.skip(f"{preset.file_name} is not beside the project")
    monkeypatch.setenv("FORECAST_DATA_DIR", str(SHARED))
    path = locate(preset.file_name, url=preset.url, sha256=preset.sha256)
    series = read_series(path, time_column=preset.time_column, frequency=preset.frequency)
    assert split_rows(len(series.frame), **preset.split).test == range(11520, 14400)


@pytest.mark.parametrize("name", PRESETS[:3])
def test_the_readme_of_the_data_names_every_preset_and_its_hash(name: str) -> None:
    text = (ROOT / "data" / "README.md").read_text()
    preset = OmegaConf.load(ROOT / "conf" / "data" / f"{name}.yaml")
    assert f"| `{name}` |" in text
    for key in ("url", "sha256"):
        assert str(preset.get(key) or "") in text
