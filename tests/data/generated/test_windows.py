"""Windows on generated series: drawn lengths, and no value beyond them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.generated.windows import SHORTEST, DrawnWindows, draw_pool, training_windows
from forecast.data.mapped import Address
from forecast.data.sources import load_source
from forecast.data.windows import Windows
from forecast.runs.settings import Settings
from forecast.training.prepare import make_data
from tests.support.small import compose

T, H, ROWS = 96, 48, 200


@pytest.fixture(scope="module")
def windows() -> DrawnWindows:
    starts = torch.empty(0, dtype=torch.int64)
    table = Windows(torch.empty(0, 1), torch.empty(0, 0), starts, T, H, num_targets=1)
    return training_windows(draw_pool(5, range(60), ROWS), ROWS, 5, table)


def test_half_of_the_look_backs_are_whole_and_the_newest_steps_count(windows: DrawnWindows) -> None:
    batch = windows.batch(torch.arange(len(windows)))
    assert batch.past_observed is not None
    assert windows.observed is not None
    gaps = windows.observed[:, 0].view(60, ROWS).all(1)[(batch.origin - T) // ROWS]
    seen = batch.past_observed[gaps, :, 0]
    lengths = seen.sum(1)
    assert (seen == (torch.arange(T) >= T - lengths[:, None])).all()
    assert lengths.min() >= SHORTEST
    assert 0.35 < (lengths == T).float().mean() < 0.65


def test_half_of_the_horizons_are_whole_and_the_first_steps_count(windows: DrawnWindows) -> None:
    batch = windows.batch(torch.arange(len(windows)))
    assert batch.future_observed is not None
    assert windows.observed is not None
    gaps = windows.observed[:, 0].view(60, ROWS).all(1)[(batch.origin - T) // ROWS]
    seen = batch.future_observed[gaps, :, 0]
    lengths = seen.sum(1)
    assert (seen == (torch.arange(H) < lengths[:, None])).all()
    assert 0.35 < (lengths == H).float().mean() < 0.65


def test_a_window_is_the_same_in_every_batch(windows: DrawnWindows) -> None:
    alone, among = windows.batch(torch.tensor([7])), windows.batch(torch.tensor([3, 7, 9]))
    assert alone.past_observed is not None
    assert among.past_observed is not None
    assert torch.equal(alone.past_observed[0], among.past_observed[1])
    assert torch.equal(alone.future[0], among.future[1])


def test_no_window_crosses_the_border_of_two_series(windows: DrawnWindows) -> None:
    assert ((windows.starts % ROWS) + T + H <= ROWS).all()


WORDS = (
    *(
        "experiment=pretrain",
        "data.series=3",
        "data.rows=160",
        f"context_length={T}",
        f"horizon={H}",
        "model.d_model=8",
    ),
    *("model.num_heads=1", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1", "training.max_steps=2"),
)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings.parse(compose(*WORDS))


def test_validation_and_test_share_no_series_with_training(settings: Settings) -> None:
    data = make_data(settings, load_source(settings.data), torch.device("cpu"))
    starts = {part: windows.starts for part, windows in data.parts.items()}
    assert not set(starts["validation"].tolist()) & set(starts["test"].tolist())
    own = data.parts["train"].values[: 3 * 160, 0]
    held = data.parts["validation"].values[: 3 * 160, 0]
    assert len(own) == 3 * 160
    assert not torch.allclose(own, held)


def test_series_shorter_than_a_window_are_refused() -> None:
    short = Settings.parse(compose(*(word for word in WORDS if "rows" not in word), "data.rows=100"))
    with pytest.raises(InputError, match="must be at least context_length"):
        make_data(short, load_source(short.data), torch.device("cpu"))


def test_drivers_are_known_inputs_and_channels_are_targets() -> None:
    settings = Settings.parse(compose(*WORDS, "data.channels=2", "data.drivers=3"))
    data = make_data(settings, load_source(settings.data), torch.device("cpu"))
    assert data.source.targets == ["value_1", "value_2"]
    assert data.encoder.known == ["driver_1", "driver_2", "driver_3"]
    for windows in data.parts.values():
        batch = windows.batch(torch.arange(2))
        assert batch.past.shape == (2, T, 2)
        assert batch.past_observed is not None
        assert batch.past_observed.shape == batch.past.shape
        assert (batch.past_known.shape, batch.future_known.shape) == ((2, T, 3), (2, H, 3))
    held = data.parts["validation"].known
    assert held.mean(0).abs().max() < 0.1
    pool = draw_pool(0, range(2**40, 2**40 + 1), 160, 2, 3)
    encoder = torch.tensor(data.encoder.mean), torch.tensor(data.encoder.scale)
    torch.testing.assert_close(held[:160], (pool.drivers - encoder[0]) / encoder[1], rtol=1e-4, atol=1e-4)
    own = draw_pool(0, range(3), 160, 2, 3)
    train = data.parts["train"]
    torch.testing.assert_close(train.known, (own.drivers - encoder[0]) / encoder[1], rtol=1e-4, atol=1e-4)
    assert torch.equal(train.values, own.values)


@pytest.mark.parametrize(
    "word",
    [
        *("data.known_covariates=[value_2]", "data.past_covariates=[driver_1]", "data.targets=[value_2]"),
        *("data.calendar=[hour_of_day]", "data.calendar=null", "data.holidays=DE"),
    ],
)
def test_roles_and_a_calendar_of_generated_series_are_refused(word: str) -> None:
    config = Settings.parse(compose(*WORDS, "data.channels=2", "data.drivers=1", word)).data
    with pytest.raises(InputError, match=rf"{word.partition('=')[0]}: generated series have channels, drivers"):
        load_source(config)


opened: list[str] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if opened is not None and event == "open" and isinstance(arguments[0], str | Path):
        opened.append(str(arguments[0]))


@pytest.fixture
def openings() -> Iterator[list[str]]:
    global opened  # a hook of Python cannot be removed
    opened = []
    sys.addaudithook(_note)
    yield opened
    opened = None


def test_generated_data_opens_no_file(settings: Settings, openings: list[str]) -> None:
    table: Address | None = None
    data = make_data(settings, load_source(settings.data), torch.device("cpu"), table=table)
    data.parts["train"].batch(torch.arange(2))
    ends = (".csv", ".gz", ".parquet", ".xlsx", ".txt", ".feather", ".arrow")
    assert not [path for path in openings if path.endswith(ends)]
