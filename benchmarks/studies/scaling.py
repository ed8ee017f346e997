"""Show why attention divides its scores by √E: variance, saturation and gradient of the softmax by head width E.

`python -m benchmarks.studies.scaling` prints the table. With `--write docs/explanation/attention.md` it writes the
table between two marks of that page.

References
----------
Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from forecast.common.cli import finish
from forecast.common.tables import Table, write_between
from forecast.common.text import per_cent, three_digits

BEGIN = "<!-- scaling: written by python -m benchmarks.studies.scaling --write docs/explanation/attention.md -->"
END = "<!-- /scaling -->"

WIDTHS = (4, 16, 64, 256, 1024)
NUM_QUERIES, NUM_KEYS = 1024, 256
SEED = 0

SMALL = 0.01
"""Norm of the derivative below which a row hardly learns, a tenth of the norm with scaled scores."""


class Saturation(NamedTuple):
    """The softmax over one set of scores, each number a mean over the queries.

    `variance` is that of the scores. `largest` is the largest weight of a row. `entropy` is the entropy of a row over
    its maximum ln S: 1 for equal weights, 0 for a single key. `gradient` is the Frobenius norm of the derivative of a
    row of weights by its scores, `vanished` the share of rows in which it is below `SMALL`.
    """

    variance: float
    largest: float
    entropy: float
    gradient: float
    vanished: float


def draw(width: int) -> tuple[Tensor, Tensor]:
    """Return standard normal queries (NUM_QUERIES, E) and keys (NUM_KEYS, E) in float64, the same at each call."""
    generator = torch.Generator().manual_seed(SEED)
    query, key = (
        torch.randn(rows, width, generator=generator, dtype=torch.float64) for rows in (NUM_QUERIES, NUM_KEYS)
    )
    return query, key


def saturation(scores: Tensor) -> Saturation:
    """Measure the softmax over each row of `scores`, shape (L, S)."""
    weights = scores.softmax(dim=-1)
    norm = gradient_norm(weights)
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1) / math.log(scores.shape[-1])
    return Saturation(
        variance=scores.var().item(),
        largest=weights.amax(dim=-1).mean().item(),
        entropy=entropy.mean().item(),
        gradient=norm.mean().item(),
        vanished=(norm < SMALL).double().mean().item(),
    )


def gradient_norm(weights: Tensor) -> Tensor:
    """Return the Frobenius norm of diag(p) - p pᵀ, the derivative of each row p of `weights` (L, S), shape (L,)."""
    second, third = weights.square().sum(dim=-1), weights.pow(3).sum(dim=-1)
    return (second - 2 * third + second.square()).clamp_min(0).sqrt()


def comparison_table() -> Table:
    """Return the table: each width with unscaled scores, and with scores divided by √E."""
    cells = []
    for width in WIDTHS:
        query, key = draw(width)
        scores = query @ key.T
        for name, divisor in (("QKᵀ", 1.0), ("QKᵀ/√E", math.sqrt(width))):
            *numbers, vanished = saturation(scores / divisor)
            cells.append([f"{width:,}", name, *map(three_digits, numbers), per_cent(vanished)])
    headings = ("E", "scores", "variance", "largest weight", "entropy / ln S", "gradient", "% vanished")
    return Table("", headings, cells, words=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it into a page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="page with the marks of the table")
    options = parser.parse_args(arguments)

    def run() -> None:
        text = comparison_table().to_markdown()
        if options.write is None:
            print(text)
        else:
            write_between(options.write, BEGIN, END, text)

    return finish(run)


if __name__ == "__main__":
    sys.exit(main())
