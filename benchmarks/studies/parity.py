"""Compare the public Informer, whose ProbSparse attention swaps two axes of its output, with a corrected version.

`python -m benchmarks.studies.parity mixed_up` and `python -m benchmarks.studies.parity in_order` train
`experiment=informer` on ETTh1. As in the public code, all three attentions are ProbSparse, each query has its own
sample, the measure is divided by the number of all keys, and in the decoder inactive queries get a cumulative sum.
Further arguments are overrides of `train.py`.

References
----------
`ProbAttention` of zhouhaoyi/Informer2020 before April 2021, and of thuml/Time-Series-Library since: it returns
(B, H, L, E), which the layer reads as (B, L, H, E).
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
    """Attend as published, (B, H, L, E); inactive queries of the decoder get the cumulative sum of the values."""
    chosen = self.choose_active_queries(query, key, mask, query_mask)
    rows = fused_softmax(take_rows(query, chosen), key, value, self._allowed(chosen, mask, key.shape[2]))
    length = query.shape[2]
    rest = value.cumsum(2) if self.causal else value.mean(2, keepdim=True).expand(-1, -1, length, -1)
    return self._scatter(rest.clone(), rows.to(rest.dtype), chosen, query_mask)


def mixed_up(
    self: ProbSparseAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, query_mask: Tensor | None
) -> Tensor:
    """Attend as published, so that the layer reads (B, H, L, E) as (B, L, H, E)."""
    output = in_order(self, query, key, value, mask, query_mask)
    batch, heads, length, width = output.shape
    return output.contiguous().view(batch, length, heads, width).transpose(1, 2)


if __name__ == "__main__":
    variants = {"in_order": in_order, "mixed_up": mixed_up}
    name, *words = sys.argv[1:] or [""]
    if name not in variants:
        sys.exit("the first argument must be mixed_up or in_order")
    ProbSparseAttention.attend = variants[name]  # type: ignore[method-assign]
    sys.argv[1:] = [*WORDS, *words]
    main()
