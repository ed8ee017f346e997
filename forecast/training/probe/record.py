"""What the probe found, as the board and `result.json` have it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from forecast.training.probe.layer import Findings

MEASURES = ("distance", "entropy", "found")
"""What is on the board, of `Findings`."""


def record(findings: Mapping[str, Findings], step: int, windows: int) -> dict[str, Any]:
    """Give plain values: after which step and on how many windows, and the findings by place."""
    layers = {place: asdict(found) for place, found in findings.items()}
    return {"step": step, "windows": windows, "layers": layers}


def scalars(content: Mapping[str, Any]) -> dict[str, float]:
    """Give the mean over the heads of each measure of a record: `probe/distance/encoder.0.self` and the like.

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
    """Give a record as Markdown, a row a head."""
    head = "| attention | mechanism | head | distance (mean's) | entropy (softmax's) | found (by chance) |"
    return "\n".join([head, "|---|---|---:|---:|---:|---:|", *_rows(content["layers"])])


def _rows(layers: Mapping[str, Any]) -> Iterator[str]:
    for place, found in layers.items():
        for head, distance in enumerate(found["distance"]):
            cells = [
                *(place, found["mechanism"], str(head)),
                f"{distance:.3f} ({found['distance_of_mean'][head]:.3f})",
                f"{_of(found['entropy'], head)} ({_of(found['entropy_of_softmax'], head)})",
                "" if found["found"] is None else f"{found['found'][head]:.2f} ({found['found_by_chance']:.2f})",
            ]
            yield f"| {' | '.join(cells)} |"


def _of(numbers: list[float] | None, head: int) -> str:
    return "none" if numbers is None else f"{numbers[head]:.3f}"
