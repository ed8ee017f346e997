"""The Informer of the public copies, whose ProbSparse mixes up its output, against the same with the output in order.

`python -m benchmarks.studies.parity mixed_up` and `python -m benchmarks.studies.parity in_order` train
`experiment=informer` on ETTh1, each with ProbSparse in all three places, a sample for each query, the measure divided
by all keys, and in the decoder a running sum for the queries that are not chosen, as there; further words are those of
`train.py`.

References
----------
`ProbAttention` of zhouhaoyi/Informer2020 before April 2021, and of thuml/Time-Series-Library since: it gives
(B, H, L, E), which the layer around it reads as (B, L, H, E).
"""

import sys

from torch import Tensor

from forecast.attention._sampling import take_rows
from forecast.attention.full import fused_softmax
from forecast.attention.probsparse import ProbSparseAttention
from forecast.training.command_line import main

WORDS = (
    *("data=etth1", "experiment=informer", "attention=probsparse", "attention@cross_attention=probsparse"),
    *(f"{place}.sampling=per_query" for place in ("attention", "cross_attention")),
    *(f"{place}.measure=published" for place in ("attention", "cross_attention")),
    "~callbacks.probe",
)


def in_order(
    self: ProbSparseAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
) -> Tensor:
    """Attend as published, (B, H, L, E); the decoder's queries that are not chosen have the sum of what was."""
    chosen = self.choose_active_queries(query, key, mask, query_mask)
    rows = fused_softmax(take_rows(query, chosen), key, value, self._allowed(chosen, mask, key.shape[2]))
    length = query.shape[2]
    rest = value.cumsum(2) if self.causal else value.mean(2, keepdim=True).expand(-1, -1, length, -1)
    return self._scatter(rest.clone(), rows.to(rest.dtype), chosen, query_mask)


def mixed_up(
    self: ProbSparseAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
) -> Tensor:
    """Attend as published, and let the layer read (B, H, L, E) as (B, L, H, E)."""
    output = in_order(self, query, key, value, mask, query_mask)
    batch, heads, length, width = output.shape
    return output.contiguous().view(batch, length, heads, width).transpose(1, 2)


if __name__ == "__main__":
    ways = {"in_order": in_order, "mixed_up": mixed_up}
    way, *words = sys.argv[1:] or [""]
    if way not in ways:
        sys.exit("say mixed_up or in_order first")
    ProbSparseAttention.attend = ways[way]  # type: ignore[method-assign]
    sys.argv[1:] = [*WORDS, *words]
    main()
