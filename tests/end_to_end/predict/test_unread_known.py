"""Known covariates that the forecast does not depend on: said at training, not demanded by a forecast."""

import json
from pathlib import Path

import pandas as pd
import pytest

from forecast.predict.ensemble import Ensemble
from forecast.predict.forecaster import Forecaster
from forecast.predict.known import MissingKnown
from forecast.runs.run import RESULT
from forecast.runs.summary import notes, table_rows
from tests.support.known import FEW, KNOWN, future, past, run_predict, save, train_known

WITHOUT = past().loc[FEW:].drop(columns=KNOWN)


@pytest.fixture(scope="module")
def unread_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with more known inputs than linear models read, in which no training step counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forecast.data.known.MOST_FEATURES", 1)
        return train_known(tmp_path_factory.mktemp("unread"), "training.start_confidence=0.9")


def test_the_table_and_a_line_say_that_no_row_reads_them(unread_run: Path, known_run: Path) -> None:
    result = json.loads((unread_run / RESULT).read_text())
    assert result["data"]["known_readers"] == []
    names = [row[0] for row in table_rows(result)]
    assert [name for name in names if name.endswith(", without known columns")] == [
        f"{name}, without known columns" for name in ("model", "its linear path alone", "linear (ridge)")
    ]
    line = "known covariates (wind speed, promo, kind and 1 more): no row reads them; a forecast does not need them"
    assert line in notes(result)
    result = json.loads((known_run / RESULT).read_text())
    assert "model" in result["data"]["known_readers"]
    assert any("read by the model" in note and "not need" not in note for note in notes(result))


def test_a_forecast_without_them_is_the_same_to_the_last_digit(unread_run: Path) -> None:
    forecaster = Forecaster.load(unread_run)
    assert forecaster.columns == ["load", "oil", "air", "state"]
    plain = forecaster.predict(WITHOUT, levels=[80])
    changed = past().loc[FEW:].assign(**{"wind speed": 1e6, "kind": None})
    pd.testing.assert_frame_equal(forecaster.predict(changed, known=future(), levels=[80]), plain, check_exact=True)


def test_a_table_of_them_is_accepted_and_not_read(
    unread_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = save(tmp_path / "known.csv", future())
    assert run_predict(unread_run, tmp_path, WITHOUT, table) == (0, {"out.csv", "out.json", "out.png"})
    assert (
        "known.csv: not read: the forecast does not depend on 'wind speed', 'promo', 'kind'" in capsys.readouterr().out
    )


def test_a_mean_with_a_run_that_reads_them_demands_them(unread_run: Path, known_run: Path) -> None:
    ensemble = Ensemble.load([unread_run, known_run])
    with pytest.raises(MissingKnown):
        ensemble.predict(past().loc[FEW:])
    forecasts = [member.predict(past().loc[FEW:], known=future()) for member in ensemble.members]
    mean = ensemble.predict(past().loc[FEW:], known=future())
    wanted = (sum(forecasts[1:], forecasts[0]) / 2).round(ensemble.members[0].decimals)
    pd.testing.assert_frame_equal(mean, wanted)
