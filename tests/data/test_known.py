import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.known import (
    MOST_FEATURES,
    MOST_LABELS,
    KnownEncoder,
    KnownLayout,
    as_in_training,
    choose_look_back,
    static_features,
)
from tests.support.reading import series_from_frame

ROWS, TRAIN = 40, slice(0, 28)


def table(**columns: Any) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=ROWS, freq="h"), "load": generator.random(ROWS)})
    return frame.assign(**columns)


def fitted(known: list[str], past: list[str] = [], **columns: Any) -> KnownEncoder:  # noqa: B006
    series = series_from_frame(
        table(**columns), columns=["load", *past, *known], covariates=[*past, *known], known=known
    )
    return KnownEncoder.fit(series, known, past, TRAIN)


def test_numbers_are_scaled_by_the_training_rows_and_booleans_are_not() -> None:
    wind = np.arange(ROWS, dtype=float)
    encoder = fitted(["wind", "promo"], wind=wind, promo=np.arange(ROWS) % 3 == 0)
    assert encoder.mean == [wind[TRAIN].mean(), 0.0]
    assert encoder.scale == [wind[TRAIN].std(), 1.0]
    assert fitted(["flat"], flat=np.full(ROWS, 0.1)).scale == [1.0]  # its deviation is 1e-17
    dense = encoder.dense(pd.DataFrame({"wind": [wind[TRAIN].mean() + wind[TRAIN].std()], "promo": [1.0]}))
    np.testing.assert_allclose(dense, [[1, 1]], rtol=1e-6)


def test_a_label_outside_the_training_rows_is_unknown() -> None:
    kind = np.array(["b", "a"] * 14 + ["c"] * 12)
    encoder = fitted(["kind"], kind=kind)
    assert encoder.categories == {"kind": ["a", "b"]}
    assert encoder.layout(4) == KnownLayout(4, 0, (3,), ())
    numbered = encoder.numbered(pd.DataFrame({"kind": [0.0, 1, 2, np.nan]}), {"kind": ("c", "b", "a")}, past=False)
    assert numbered.ravel().tolist() == [0, 2, 1, 0]
    (note,) = encoder.unknown_notes(pd.DataFrame({"kind": ["a", "c", "c", None]}))
    assert note == "2 values of 'kind' not seen in training count as unknown: 'c' (training has 'a', 'b')"


def test_a_categorical_past_covariate_has_no_place_among_the_known_numbers() -> None:
    encoder = fitted(["wind"], ["state"], wind=np.arange(ROWS), state=["x", "y"] * 20)
    assert encoder.known == ["wind"]
    assert encoder.past_categories == {"state": ["x", "y"]}
    assert encoder.layout(2) == KnownLayout(2, 1, (), (3,))


def test_a_number_that_lost_its_leading_zeros_is_the_label_of_training() -> None:
    assert [as_in_training(label, ["01", "A2", "7", "007"]) for label in ("1", "01", "2", "7", "A2", "0007")] == [
        *("01", "01", "2", "7", "A2", "0007"),
    ]
    encoder = KnownEncoder(categories={"store": ["01", "A2"]})
    codes = pd.DataFrame({"store": [0.0, 1.0, 2.0]})
    assert encoder.numbered(codes, {"store": ("1", "A2", "2")}, past=False)[:, 0].tolist() == [1, 2, 0]
    (note,) = encoder.unknown_notes(pd.DataFrame({"store": ["1", "A2", "2"]}))
    assert note.startswith("1 value of 'store' not seen in training counts as unknown: '2'")


def test_a_label_that_a_table_read_as_a_boolean_or_a_shorter_number_is_the_label_of_training() -> None:
    seen = ["true", "false", "maybe", "1.10", "2.0", ""]
    read = [as_in_training(label, seen) for label in ("True", "False", "Maybe", "1.1", "2", "0", "1.01")]
    assert read == ["true", "false", "Maybe", "1.10", "2.0", "0", "1.01"]
    assert as_in_training("True", ["true", "TRUE"]) == "True"  # which of the two is not known


def test_too_many_labels_are_refused() -> None:
    series = series_from_frame(
        pd.DataFrame(
            {
                "date": pd.date_range("2024-01-01", periods=300, freq="h"),
                "load": np.arange(300.0),
                "name": [f"n{row}" for row in range(300)],
            }
        ),
        columns=["load", "name"],
        covariates=["name"],
        known=["name"],
    )
    with pytest.raises(InputError, match=f"'name' has 300 different labels in training, at most {MOST_LABELS}"):
        KnownEncoder.fit(series, ["name"], [], slice(0, 300))


def test_the_state_survives_json_and_bad_states_are_refused() -> None:
    encoder = fitted(["wind", "kind"], ["state"], wind=np.arange(ROWS), kind=["p", "q"] * 20, state=["x", "y"] * 20)
    assert KnownEncoder.from_dict(encoder.to_dict()) == encoder
    for key, value in {
        "mean": [],
        "scale": [0.0],
        "numbers": ["a\n"],
        "categories": {"kind": [1]},
        "past_categories": [],
    }.items():
        with pytest.raises((ValueError, TypeError)):
            KnownEncoder.from_dict({**encoder.to_dict(), key: value})


def test_features_are_the_recent_and_coming_numbers_and_an_indicator_for_each_label() -> None:
    layout = KnownLayout(num_calendar=2, num_dense=2, categories=(3,), past_categories=(4,), look_back=2)
    generator = torch.Generator().manual_seed(0)
    past, future = (torch.rand(5, steps, 6, generator=generator) for steps in (4, 3))
    past[..., 4], future[..., 4] = 1, torch.randint(0, 3, (5, 3), generator=generator).float()
    features = layout.features(past, future)
    assert features.shape == (5, layout.num_features(3)) == (5, 2 * (2 + 3) + 2 * 3)
    for window in range(5):
        wanted: list[float] = []
        for step in [*past[window, -2:], *future[window]]:
            wanted += [float(step[2]), float(step[3])]
        for step in future[window]:
            wanted += [float(step[4] == 1), float(step[4] == 2)]
        assert features[window].tolist() == pytest.approx(wanted)


def test_the_future_of_a_past_category_is_unknown() -> None:
    layout = KnownLayout(1, 1, (3,), (5, 5))
    future = torch.full((2, 3, 5), 4.0)
    assert layout.future(future)[0, 0].tolist() == [4, 4, 4, 0, 0]
    assert KnownLayout(1, 1, (3,)).future(future) is future


def test_linear_models_read_a_week_of_hours_at_least_a_horizon_and_at_most_the_context() -> None:
    layout = KnownLayout(6, 2)
    assert choose_look_back(layout, 512, 24, 24, 1) == 168
    assert choose_look_back(layout, 512, 336, 24, 1) == 336
    assert choose_look_back(layout, 96, 336, 24, 1) == 96
    assert choose_look_back(KnownLayout(6, 0, (3,)), 512, 24, 24, 1) == 0
    assert choose_look_back(KnownLayout(6), 512, 24, 24, 1) is None
    assert choose_look_back(KnownLayout(6, 5), 4096, 336, 24, 1) == MOST_FEATURES // 5 - 336


def test_linear_models_read_no_known_covariates_if_the_horizon_alone_has_too_many() -> None:
    assert choose_look_back(KnownLayout(6, 30), 512, 336, 24, 1) is None
    assert choose_look_back(KnownLayout(6, 1), 720, 336, 24, 862) is None
    assert choose_look_back(KnownLayout(6, 1), 720, 24, 24, 321) is not None


def test_static_covariates_are_scaled_over_the_targets_and_text_has_an_indicator() -> None:
    features = static_features({"size": [1, 3], "region": ["north", "south"], "new": [True, True]}, 2)
    assert features.tolist() == [[-1, 1, 0, 0], [1, 0, 1, 0]]
    assert static_features({}, 3).shape == (3, 0)


def test_a_long_cell_of_digits_takes_a_moment() -> None:
    """A pattern took the square of the number of zeros."""
    began = time.process_time()
    for label in ("0" * 100_000 + "x", "-" + "0" * 100_000 + ".", "1." + "0" * 100_000 + "x"):
        assert as_in_training(label, ["a"]) == label
    assert time.process_time() - began < 1
    assert as_in_training("-007.50", ["-7.5", "7.5"]) == "-7.5"
    assert as_in_training("000", ["0"]) == as_in_training("0.", ["0"]) == "0"
    assert as_in_training("7.5.0", ["7.5"]) == "7.5.0"
