"""The components of a training."""

from pathlib import Path

from forecast.data.sources import load_source
from forecast.runs.settings import Settings
from forecast.training.prepare import prepare
from tests.support.small import hourly, quick, write


def test_a_training_is_prepared_from_a_series_without_its_file(tmp_path: Path) -> None:
    file = Path(write(tmp_path / "table.csv", hourly(500)))
    settings = Settings.parse(quick(tmp_path / "outputs", "data=csv", f"data.path={file}"))
    source = load_source(settings.data)
    file.unlink()
    assert prepare(settings, source).data.source is source
