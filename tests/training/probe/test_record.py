"""Findings as scalars, as a table and in a file."""

import json
import math
from typing import Any

from forecast.training.probe.layer import Findings, record, scalars, table

PLAIN: dict[str, Any] = {
    "queries": 8,
    "keys": 8,
    "sequences_seen": 2,
    "queries_seen": 8,
    "found_by_chance": None,
    "found": None,
}
SPARSE = Findings(
    **{**PLAIN, "found": [0.5, 1.0], "found_by_chance": 0.25},
    mechanism="probsparse",
    distance=[0.1, 0.3],
    distance_of_mean=[0.4, 0.5],
    entropy=[0.8, 0.6],
    entropy_of_softmax=[0.7, 0.5],
)
ALONE = Findings(
    **PLAIN,
    mechanism="full",
    distance=[0.0, math.inf],
    distance_of_mean=[0.0, 0.0],
    entropy=None,
    entropy_of_softmax=None,
)
CONTENT = record({"encoder.0.self": SPARSE, "decoder.0.self": ALONE}, 12, 3)


def test_scalars_are_finite_means_over_the_heads() -> None:
    assert scalars(CONTENT) == {
        "probe/distance/encoder.0.self": 0.2,
        "probe/entropy/encoder.0.self": 0.7,
        "probe/found/encoder.0.self": 0.75,
    }


def test_the_table_has_one_row_per_head() -> None:
    rows = table(CONTENT).splitlines()[2:]
    assert rows[0] == "| encoder.0.self | probsparse | 0 | 0.100 (0.400) | 0.800 (0.700) | 0.50 (0.25) |"
    assert rows[3] == "| decoder.0.self | full | 1 | inf (0.000) | none (none) |  |"
    assert len(rows) == 4


def test_a_record_is_plain_values() -> None:
    layers = json.loads(json.dumps(CONTENT))["layers"]
    assert layers["encoder.0.self"]["found"] == [0.5, 1.0]
    assert (CONTENT["step"], CONTENT["windows"]) == (12, 3)
