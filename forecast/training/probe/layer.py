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
    """Numbers of one attention, a list has one a head.

    Parameters
    ----------
    mechanism
        Its name.
    queries, keys
        How many the attention has, L and S.
    sequences_seen, queries_seen
        How many sequences, and queries of each, the numbers are of; always all of their keys.
    distance
        ‖O − O*‖₂ / ‖O*‖₂ over those queries: O is the mechanism's output before the heads are merged, O* the
        exact softmax attention's on the same query, key and value.
    distance_of_mean
        The same of the plain mean of the values: what a mechanism that ignores the query would have.
    entropy, entropy_of_softmax
        Of the explicit or implied weights, and of the exact softmax's: 0 one key, 1 all keys alike. None where
        there is one key, and where a mechanism's weights cannot be told of some queries alone.
    found, found_by_chance
        Sparse mechanisms: the share of the truly most informative queries that were chosen, and what choosing
        as many at random gives; None for others.
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
    """Return what each attention of `network` does on the windows of `batch`, by place; see `pass_by`."""
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
"""What is on the board, of `Findings`."""


def record(findings: Mapping[str, Findings], step: int, windows: int) -> dict[str, Any]:
    """Return plain values: after which step and on how many windows, and the findings by place."""
    layers = {place: asdict(found) for place, found in findings.items()}
    return {"step": step, "windows": windows, "layers": layers}


def scalars(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean over the heads of each measure of a record: `probe/distance/encoder.0.self` and the like.

    What is not finite is left out.
    """
    means = {
        f"probe/{measure}/{place}": sum(found[measure]) / len(found[measure])
        for measure in MEASURES
        for place, found in content["layers"].items()
        if found[measure] is not None
    }
    return {name: value for name, value in means.items() if math.isfinite(value)}


def table(content: Mapping[str, Any]) -> str:
    """Return a record as Markdown, a row a head."""
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
