"""Static covariates and ids of a panel as inputs: from the columns of the table to the tokens and the forecast."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.data.panel import PanelData
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.data.static import FURTHEST, Static, fit_static
from forecast.evaluation.scoring import limits_of_data
from forecast.model.informer import Informer
from forecast.predict.facts import ModelFacts, check_manifest
from forecast.predict.panel import PanelForecaster
from tests.data.test_panel import HORIZON, LENGTHS, make, network_of, whole
from tests.support.panels import long_table
from tests.support.small import compose, write

SIZES, REGIONS = {"a": 1.0, "b": 3.0, "c": 5.0}, {"a": "north", "b": "south", "c": "south"}


def table_with_static() -> pd.DataFrame:
    table = long_table(LENGTHS, ends_alike=True)
    ids = table["unique_id"]
    return table.assign(size=ids.map(SIZES), region=ids.map(REGIONS), same=1)


@pytest.fixture(scope="module")
def data() -> PanelData:
    return make(table_with_static(), id_embedding=True)


@pytest.fixture(scope="module")
def network(data: PanelData) -> Informer:
    """Return a model that reads its static inputs."""
    found = network_of(data)
    assert found.static is not None
    torch.nn.init.normal_(found.static.project.weight)
    torch.nn.init.normal_(found.get_submodule("tokens.head").weight)
    return found


def forecaster(data: PanelData, network: Informer) -> PanelForecaster:
    limits, known = limits_of_data(data), data.training_range()
    contract = data.contract()
    again = DataContract.from_dict(contract.to_dict(), contract.context_length, contract.horizon)
    facts = ModelFacts("", {}, {}, known, limits, lambda: pytest.fail("no intervals"), Path())
    return PanelForecaster(network, again, facts)


def test_numbers_labels_and_ids_are_the_last_inputs_of_the_horizon(data: PanelData) -> None:
    batch, plain = whole(data, "test"), whole(make(table_with_static().drop(columns=["size", "region"])), "test")
    assert torch.equal(batch.future_known[..., :-3], plain.future_known)
    assert torch.equal(batch.past_known, plain.past_known)
    assert batch.series is not None
    expected = torch.tensor([[-(1.5**0.5), 1, 1], [0, 2, 2], [1.5**0.5, 2, 3]])[batch.series]
    torch.testing.assert_close(batch.future_known[..., -3:], expected[:, None].expand(-1, HORIZON, -1))
    assert data.sizes["static_numbers"] == 1
    assert data.sizes["static_categories"] == [3, 4]
    assert "constant within each series, read as static covariates: 'size', 'region'" in data.notes
    assert any("'same' is the same in all series" in note for note in data.notes)


def test_a_model_begins_as_if_it_had_no_static_inputs(data: PanelData) -> None:
    batch, plain = whole(data, "test"), network_of(make(table_with_static().drop(columns=["size", "region"])))
    first = network_of(data)
    past = (batch.past, batch.past_known)
    with torch.no_grad():
        one = first(*past, batch.future_known, batch.past_observed)
        other = plain(*past, batch.future_known[..., :-3], batch.past_observed)
    assert torch.equal(one, other)


def test_every_static_input_changes_the_forecast_of_its_window_alone(data: PanelData, network: Informer) -> None:
    batch = whole(data, "test")
    inputs = batch.past, batch.past_known

    def forecast(known: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = network(*inputs, known, batch.past_observed)
            return found

    before = forecast(batch.future_known)
    for column in (-3, -2, -1):
        known = batch.future_known.clone()
        known[0, :, column] = 0
        changed = (forecast(known) != before).flatten(1).any(1)
        assert changed[0]
        assert not changed[1:].any()


def test_ids_become_unknown_at_random_in_training_alone(data: PanelData, network: Informer) -> None:
    assert network.static is not None
    rows = torch.tensor([[0.0, 1.0, 1.0]]).expand(2000, -1)
    torch.manual_seed(0)
    embedding = network.static.embedding
    found, counts = torch.unique(embedding.train()(rows), dim=0, return_counts=True)
    network.eval()
    assert len(found) == 4
    assert 0.77 < int(counts.max()) / 2000 < 0.85  # neither the label nor the id is unknown
    assert len(torch.unique(embedding(rows), dim=0)) == 1


def test_a_table_is_forecast_with_the_static_inputs_of_training(data: PanelData, network: Informer) -> None:
    model, batch = forecaster(data, network), whole(data, "test")
    assert batch.series is not None
    origins = pd.DatetimeIndex(data.index[batch.origin.numpy()])
    with torch.no_grad():
        values = network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
    expected = data.original(values.numpy(), batch)[..., 0]
    table = table_with_static()
    found = model.backtest(table, origins.min(), step=1)
    for row, (name, origin) in enumerate(zip(batch.series.tolist(), origins, strict=True)):
        own = found[(found["series"] == "abc"[name]) & (found["origin"] == origin)]
        np.testing.assert_allclose(own["value"], expected[row], atol=1e-4)


def test_a_missing_or_new_value_is_unknown_and_named(data: PanelData, network: Informer) -> None:
    model, table = forecaster(data, network), table_with_static()
    known = model.predict(table)
    with pytest.warns(UserWarning, match=r"without a value for all series, unknown there: region"):
        missing = model.predict(table.drop(columns="region"))
    with pytest.warns(UserWarning, match=r"not seen in training.*'west'"):
        new = model.predict(table.assign(region="west"))
    assert not known.equals(missing)
    pd.testing.assert_frame_equal(missing, new)


@pytest.mark.filterwarnings("ignore:1 of 1 series were not in training")
def test_an_id_that_training_did_not_have_is_unknown(data: PanelData, network: Informer) -> None:
    model = forecaster(data, network)
    table = table_with_static()
    own, others = table[table["unique_id"] == "a"], []
    for name in ("x", "y"):
        others.append(model.predict(own.assign(unique_id=name))["y"])
    assert others[0].equals(others[1])
    assert not others[0].equals(model.predict(own)["y"])


def test_a_manifest_with_other_static_inputs_is_refused(data: PanelData, network: Informer) -> None:
    state, contract = data.contract().to_dict(), data.contract()
    sizes: Any = network_sizes(data)
    check_manifest(contract, sizes, None)
    state["data"]["static"]["ids"] = 2
    with pytest.raises(ValueError, match="or other ids"):
        DataContract.from_dict(state, contract.context_length, contract.horizon)
    state["data"]["static"]["ids"] = 0
    with pytest.raises(ValueError, match="static covariates have other kinds"):
        check_manifest(DataContract.from_dict(state, contract.context_length, contract.horizon), sizes, None)


def network_sizes(data: PanelData) -> Any:
    from forecast.model.presets import Sizes

    return Sizes(**data.sizes)


def test_a_named_column_that_says_nothing_is_refused() -> None:
    table = pd.DataFrame({"same": [1.0, 1.0], "size": [1.0, 2.0]})
    assert fit_static(table, named=False)[0].known == ["size"]
    with pytest.raises(InputError, match=r"data\.static_covariates: 'same' is the same in all series: leave it out"):
        fit_static(table, named=True)


def test_missing_numbers_are_the_mean_and_far_ones_are_limited() -> None:
    encoder, _ = fit_static(pd.DataFrame({"size": [1.0, 3.0, np.nan]}), named=True)
    found = Static(encoder).inputs(pd.DataFrame({"size": [np.nan, 2.0, 1e30, -1e30]}), np.arange(4))
    assert found is not None
    assert found[:, 0].tolist() == [0.0, 0.0, FURTHEST, -FURTHEST]


@pytest.mark.parametrize("word", ["data.static_covariates=[region]", "data.id_embedding=true"])
def test_an_option_of_a_long_table_is_refused_for_one_series(word: str, tmp_path: Path) -> None:
    table = table_with_static()
    path = write(tmp_path / "one.csv", table[table["unique_id"] == "a"])
    config = compose("data=csv", f"data.path={path}", "data.targets=[y]", word)
    with pytest.raises(InputError, match=r"the table has one series: name data.id_columns, or leave out data\."):
        load_source(DataSettings.parse(config["data"]))


def test_a_named_static_column_must_be_in_the_table(tmp_path: Path) -> None:
    path = write(tmp_path / "long.csv", table_with_static())
    words = ["data.targets=[y]", "data.static_covariates=[regoin]"]
    config = compose("data=csv", f"data.path={path}", *words)
    with pytest.raises(InputError, match=r"no column 'regoin' \(did you mean 'region'\?\).*data.static_covariates"):
        load_source(DataSettings.parse(config["data"]))
