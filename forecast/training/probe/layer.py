"""Comparison of every attention of a network with exact softmax attention."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from forecast.attention.base import Attention, sparse_queries
from forecast.common.tables import Table
from forecast.data.windows import Batch
from forecast.model.informer import Informer
from forecast.training.probe.capture import Captured, capture_calls, sample_of
from forecast.training.probe.measures import (
    allowed_keys,
    entropy,
    implied_rows,
    mean_rows,
    query_recall,
    relative_distance,
    softmax_rows,
)


@dataclass(frozen=True)
class Findings:
    """Measures of one attention; lists have one entry per head.

    Attributes
    ----------
    queries, keys
        Numbers of queries and keys, L and S.
    sequences_seen, queries_seen
        Sampled sequences, and sampled queries of each; all keys are used.
    distance
        ‖O − O*‖₂ / ‖O*‖₂ of the output O before the heads are merged. O* is the output of exact softmax attention.
    distance_of_mean
        The same for the mean of the values, which is the output of a mechanism that ignores the query.
    entropy, entropy_of_softmax
        Entropy of the explicit or implied weights, and of the exact softmax. 0: one key, 1: uniform. None if there is
        one key, or if the weights of the sampled queries depend on other queries.
    found, found_by_chance
        Fraction of the most informative queries that a sparse mechanism chooses, and that a random choice of the same
        size would contain. None for other mechanisms.
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
    """Return the findings of each attention of `network` on `batch`, by place; see `capture_calls`."""
    findings: dict[str, Findings] = {}

    def on_call(place: str, mechanism: Attention, call: Captured) -> None:
        findings[place] = compare_with_softmax(mechanism, call)

    capture_calls(network, batch, on_call)
    return findings


def compare_with_softmax(mechanism: Attention, call: Captured) -> Findings:
    """Compare a call with exact softmax attention, on a sample of its queries; see `sample_of`."""
    sequences, queries = sample_of(mechanism, call)
    seen, causal = call.rows(sequences), mechanism.causal
    exact = softmax_rows(seen, queries, causal)
    values = seen.value.to(exact.dtype)
    output, mean = exact @ values, mean_rows(seen, queries, causal) @ values
    rows = implied_rows(mechanism, seen, queries, exact)
    num_keys = allowed_keys(seen, queries, causal).sum(dim=-1)[:, 0]  # (1, n) or (B, n)
    sparse = sparse_queries(mechanism)
    recall = None if sparse is None else query_recall(sparse, call)
    return Findings(
        mechanism=mechanism.name,
        queries=call.query.shape[2],
        keys=call.key.shape[2],
        sequences_seen=len(sequences),
        queries_seen=len(queries),
        distance=relative_distance(seen.output[:, :, queries], output).tolist(),
        distance_of_mean=relative_distance(mean, output).tolist(),
        entropy=None if rows is None else _list_or_none(entropy(rows, num_keys)),
        entropy_of_softmax=_list_or_none(entropy(exact, num_keys)),
        found=None if recall is None else recall[0].tolist(),
        found_by_chance=None if recall is None else recall[1],
    )


def _list_or_none(numbers: Tensor) -> list[float] | None:
    return None if bool(numbers.isnan().any()) else numbers.tolist()


MEASURES = ("distance", "entropy", "found")
"""Fields of `Findings` that are logged."""


def record(findings: Mapping[str, Findings], step: int, windows: int) -> dict[str, Any]:
    """Return the findings by place as plain values, with the step and the number of windows."""
    layers = {place: asdict(values) for place, values in findings.items()}
    return {"step": step, "windows": windows, "layers": layers}


def scalars(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite means of the measures over the heads, by tags such as `probe/distance/encoder.0.self`."""
    means = {
        f"probe/{measure}/{place}": sum(layer[measure]) / len(layer[measure])
        for measure in MEASURES
        for place, layer in content["layers"].items()
        if layer[measure] is not None
    }
    return {name: value for name, value in means.items() if math.isfinite(value)}


def table(content: Mapping[str, Any]) -> str:
    """Return a record as a Markdown table with one row per head."""
    headings = "attention", "mechanism", "head", "distance (of mean)", "entropy (of softmax)", "found (by chance)"
    cells = [
        [
            *(place, layer["mechanism"], str(head)),
            f"{distance:.3f} ({layer['distance_of_mean'][head]:.3f})",
            f"{_format(layer['entropy'], head)} ({_format(layer['entropy_of_softmax'], head)})",
            "" if layer["found"] is None else f"{layer['found'][head]:.2f} ({layer['found_by_chance']:.2f})",
        ]
        for place, layer in content["layers"].items()
        for head, distance in enumerate(layer["distance"])
    ]
    return Table("", headings, cells, words=2).to_markdown()


def _format(numbers: list[float] | None, head: int) -> str:
    return "none" if numbers is None else f"{numbers[head]:.3f}"
