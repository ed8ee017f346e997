"""Which queries of a layer are looked at, so that a look costs little however long the sequence is."""

from dataclasses import dataclass
from math import isqrt

from torch import Tensor

from forecast.attention.base import Attention
from forecast.data.spread import spread
from forecast.training.probe.capture import Captured

BUDGET = 2**22
"""Weights of one map, heads by queries by keys over all sequences, that a look at a layer may hold (16 MiB)."""

MOST_SEQUENCES, MOST_QUERIES, LEAST_QUERIES = 8, 64, 4


@dataclass(frozen=True)
class Sample:
    """Sequences of the batch and positions of their queries, the same of each; all keys are looked at."""

    sequences: Tensor
    queries: Tensor

    @classmethod
    def of(cls, mechanism: Attention, call: Captured, budget: int = BUDGET) -> "Sample":
        """Give a sample spread over the sequences and positions of a call.

        A causal mechanism is looked at in as many of its first positions as have a square map in the
        budget: its answers there depend on nothing that comes after them.
        """
        batch, heads, length, _ = call.query.shape
        num_keys = call.key.shape[2]
        if mechanism.causal:
            length = min(length, max(1, isqrt(budget // heads)))
            queries = spread(length, MOST_QUERIES)
            held = heads * length**2
        else:
            queries = spread(length, min(MOST_QUERIES, max(LEAST_QUERIES, budget // (heads * num_keys))))
            held = heads * len(queries) * num_keys
        sequences = spread(batch, min(MOST_SEQUENCES, max(1, budget // held)))
        return cls(sequences.to(call.query.device), queries.to(call.query.device))

    def calls(self, call: Captured) -> Captured:
        """Give the call of the sampled sequences alone, with all their queries."""
        return Captured(*(tensor[self.sequences] for tensor in call))
