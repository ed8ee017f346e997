"""The probe of every attention of a network."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from forecast.attention.base import Attention, sparse_queries
from forecast.common.tables import Table
from forecast.data.windows import Batch
from forecast.model.informer import Informer
from forecast.training.probe.capture import Captured, Sample, pass_by
from forecast.training.probe.measures import (
    entropy,
    found_share,
    implied_rows,
    mean_rows,
    relative_distance,
    softmax_rows,
)


@dataclass(frozen=True)
class Findings:
    """Numbers of one attention; a list has one entry per head.

    `queries` and `keys` are L and S. The numbers are over `sequences_seen` sequences and `queries_seen` queries of
    each, always with all keys. `distance` is ‖O − O*‖₂ / ‖O*‖₂. O is the mechanism's output before the heads are
    merged, O* the exact softmax attention's for the same query, key and value. `distance_of_mean` is that of the plain
    mean of the values, as of a mechanism that ignores the query.

    `entropy` is that of the explicit or implied weights, `entropy_of_softmax` the exact softmax's: 0 one key, 1 all
    keys alike. None where there is one key, and where a mechanism's weights for the sampled queries depend on other
    queries. `found`, for sparse mechanisms only, is the share of the truly most informative queries that were chosen;
    `found_by_chance` is that of a random choice of the same size.
    """

    mechanism: str
    queries: int
    keys: int
    sequences_seen: int
    queries_seen: int
    distance: list[float]
    distance_of_mean: list[float]
    entropy: list[float] | None
    entropy_of_softmax: list[float] | None
    found: list[float] | None
    found_by_chance: float | None


def probe(network: Informer, batch: Batch) -> dict[str, Findings]:
    """Return the findings of each attention of `network` on `batch`, by place; see `pass_by`."""
    found: dict[str, Findings] = {}

    def see(place: str, mechanism: Attention, call: Captured) -> None:
        found[place] = look_at(mechanism, call)

    pass_by(network, batch, see)
    return found


def look_at(mechanism: Attention, call: Captured) -> Findings:
    """Compare a call with exact softmax attention, on a sample of its queries; see `Sample`."""
    sample = Sample.of(mechanism, call)
    seen, queries, causal = sample.calls(call), sample.queries, mechanism.causal
    exact = softmax_rows(seen, queries, causal)
    values = seen.value.to(exact.dtype)
    output, mean = exact @ values, mean_rows(exact, queries, causal) @ values
    rows = implied_rows(mechanism, seen, queries, exact)
    num_keys = queries + 1 if causal else torch.full_like(queries, values.shape[2])
    sparse = sparse_queries(mechanism)
    found = None if sparse is None else found_share(sparse, call)
    return Findings(
        mechanism=mechanism.name,
        queries=call.query.shape[2],
        keys=call.key.shape[2],
        sequences_seen=len(sample.sequences),
        queries_seen=len(queries),
        distance=_plain(relative_distance(seen.output[:, :, queries], output)),
        distance_of_mean=_plain(relative_distance(mean, output)),
        entropy=None if rows is None else _known(entropy(rows, num_keys)),
        entropy_of_softmax=_known(entropy(exact, num_keys)),
        found=None if found is None else _plain(found[0]),
        found_by_chance=None if found is None else found[1],
    )


def _plain(numbers: Tensor) -> list[float]:
    return [float(number) for number in numbers.tolist()]


def _known(numbers: Tensor) -> list[float] | None:
    return None if bool(numbers.isnan().any()) else _plain(numbers)


MEASURES = ("distance", "entropy", "found")
"""Fields of `Findings` that are on the board."""


def record(findings: Mapping[str, Findings], step: int, windows: int) -> dict[str, Any]:
    """Return plain values: the step, the number of windows, and the findings by place."""
    layers = {place: asdict(found) for place, found in findings.items()}
    return {"step": step, "windows": windows, "layers": layers}


def scalars(content: Mapping[str, Any]) -> dict[str, float]:
    """Return each measure's mean over the heads by name, such as `probe/distance/encoder.0.self`, if it is finite."""
    means = {
        f"probe/{measure}/{place}": sum(found[measure]) / len(found[measure])
        for measure in MEASURES
        for place, found in content["layers"].items()
        if found[measure] is not None
    }
    return {name: value for name, value in means.items() if math.isfinite(value)}


def table(content: Mapping[str, Any]) -> str:
    """Return a record as Markdown, one row per head."""
    headings = "attention", "mechanism", "head", "distance (mean's)", "entropy (softmax's)", "found (by chance)"
    cells = [
        [
            *(place, found["mechanism"], str(head)),
            f"{distance:.3f} ({found['distance_of_mean'][head]:.3f})",
            f"{_of(found['entropy'], head)} ({_of(found['entropy_of_softmax'], head)})",
            "" if found["found"] is None else f"{found['found'][head]:.2f} ({found['found_by_chance']:.2f})",
        ]
        for place, found in content["layers"].items()
        for head, distance in enumerate(found["distance"])
    ]
    return Table("", headings, cells, words=2).to_markdown()


def _of(numbers: list[float] | None, head: int) -> str:
    return "none" if numbers is None else f"{numbers[head]:.3f}"
