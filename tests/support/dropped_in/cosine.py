import math
from typing import ClassVar

import torch

from forecast.attention.base import Attention, Cost, allowed_pairs, at_least_float32, full_precision


class CosineAttention(Attention):
    """Weights ReLU(q)·ReLU(k) cos(π(i - j)/2M), as in cosFormer, arXiv:2202.08791."""

    causal_ability = "strict"
    weights_may_vanish = True
    time_cost: ClassVar = {"": Cost(length=1, width=2), "causal": Cost(length=2, width=1)}
    memory_cost: ClassVar = {"": Cost(length=1, width=1), "causal": Cost(length=2)}

    def __init__(self, *, period, **from_the_layer):
        super().__init__(**from_the_layer)
        self.period = self.positive_integer("period", period)

    def features(self, rows):
        if rows.shape[2] > self.period:
            raise ValueError(f"{self.name} has period {self.period}, shorter than {rows.shape[2]}")
        rows = rows.relu().to(at_least_float32(rows))
        angle = torch.arange(rows.shape[2], device=rows.device, dtype=rows.dtype)[:, None] * (math.pi / 2 / self.period)
        return torch.cat([rows * angle.cos(), rows * angle.sin()], dim=-1)

    def attention_weights(self, query, key, mask, query_mask):
        with full_precision(query):
            weights = self.features(query) @ self.features(key).transpose(-1, -2)
            allowed = allowed_pairs(query, key, mask, self.causal)
            weights = weights if allowed is None else weights.masked_fill(~allowed, 0)
            total = weights.sum(dim=-1, keepdim=True)
            return weights / total.where(total > 0, 1)

    def attend(self, query, key, value, mask, query_mask):
        with full_precision(query):
            if self.causal:
                weights = self.attention_weights(query, key, mask, query_mask)
                return weights @ value.to(weights.dtype)
            queries, keys = self.features(query), self.features(key)
            products = queries @ (keys.transpose(-1, -2) @ value.to(keys.dtype))
            total = queries @ keys.sum(dim=2).unsqueeze(-1)
            return products / total.where(total > 0, 1)


def formula(query, key, value, allowed, period, **arguments):
    """Return the output in the plainest form; a query whose weights are all 0 gets zeros."""
    row, column = torch.arange(query.shape[2]).double(), torch.arange(key.shape[2]).double()
    distance = (row[:, None] - column).to(query.device)
    weights = query.relu() @ key.relu().transpose(-1, -2) * (math.pi * distance / (2 * period)).cos()
    weights = weights.masked_fill(~allowed, 0)
    total = weights.sum(dim=-1, keepdim=True)
    return weights @ value / total.where(total > 0, 1)
