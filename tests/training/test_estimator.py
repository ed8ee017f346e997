"""`forecast.Estimator` in the manners of scikit-learn."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import forecast
from tests.training.test_from_python import SMALL, frame


def estimator(**options: object) -> forecast.Estimator:
    rest = {key: value for key, value in SMALL.items() if key != "training"}
    return forecast.Estimator(12, context_length=48, training=SMALL["training"], options=rest, **options)


@pytest.fixture(scope="module")
def fitted() -> forecast.Estimator:
    return estimator(attention="linear").fit(frame()[:340])


def test_a_clone_has_equal_parameters_and_nothing_that_was_learnt(fitted: forecast.Estimator) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert repr(copy) == repr(fitted)
    assert "attention='linear'" in repr(copy)
    assert copy.set_params(attention="mean", seed=2).attention == "mean"
    with pytest.raises(NotFittedError):
        copy.predict()
    learnt = {name for name in vars(fitted) if name not in fitted.get_params() and name != "_model"}
    assert all(name.endswith("_") for name in learnt)


def test_the_score_of_rows_that_follow_is_that_of_the_model_on_their_windows(fitted: forecast.Estimator) -> None:
    rows = frame()[340 - 48 :]
    assert fitted.score(frame()[340:]) == pytest.approx(-fitted.model_.score(rows).loc["model", "mse"])
    pd.testing.assert_frame_equal(fitted.predict(frame()[340:350]), fitted.model_.predict(frame()[:350]))
    pd.testing.assert_frame_equal(fitted.predict(), fitted.model_.predict(frame()[:340]))
    pd.testing.assert_frame_equal(fitted.predict(frame()[50:200]), fitted.model_.predict(frame()[50:200]))


@pytest.mark.parametrize("first", [339, 341, 0])
def test_rows_that_do_not_follow_have_no_score(fitted: forecast.Estimator, first: int) -> None:
    with pytest.raises(forecast.InputError, match="the fitted table ends at 2024-01-15 03:00:00: give the rows from"):
        fitted.score(frame()[first:])


def test_a_pickle_holds_a_folder_and_no_weights(fitted: forecast.Estimator, tmp_path: Path) -> None:
    content = pickle.dumps(fitted)
    assert b"torch._" not in content
    assert b"forecast.predict" not in content
    copy = pickle.loads(content)
    pd.testing.assert_frame_equal(copy.predict(), fitted.predict())
    copy.__dict__["folder_"], copy._model = str(tmp_path / "gone"), None
    with pytest.raises(forecast.InputError, match="gone: the temporary run folder is gone: set folder= before fit"):
        copy.predict()


def test_a_long_table_is_refused_before_it_is_trained() -> None:
    with pytest.raises(forecast.InputError, match="id_columns: an estimator forecasts one series"):
        forecast.Estimator(12, options={"id_columns": ["store"]}).fit(frame())


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_search_over_two_attentions_with_a_time_split_finds_one(jobs: int, tmp_path: Path) -> None:
    choices = {"attention": ["linear", "mean"]}
    split = TimeSeriesSplit(2, test_size=40)
    search = GridSearchCV(estimator(folder=tmp_path), choices, cv=split, n_jobs=jobs, error_score="raise")
    search.fit(frame())
    assert search.best_params_["attention"] in choices["attention"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict().shape == (12, 1)
    assert len(list(tmp_path.glob("run-*/result.json"))) == 5
