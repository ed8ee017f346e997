import math

import torch

from forecast.attention.base import Attention, Cost, allowed_pairs
from forecast.attention.full import softmax_weights


class WindowAttention(Attention):
    """Softmax over the keys at most `reach` positions away."""

    causal_ability = "strict"
    accepts_pair_mask = True
    cross = False
    local = True
    time_cost = Cost(length=2, width=1)
    memory_cost = Cost(length=2)

    def __init__(self, *, reach, **from_the_layer):
        super().__init__(**from_the_layer)
        self.reach = self.positive_integer("reach", reach)

    def attention_weights(self, query, key, mask, query_mask):
        position = torch.arange(query.shape[2], device=query.device)
        near = ((position[:, None] - position).abs() <= self.reach)[None, None]
        allowed = allowed_pairs(query, key, mask, self.causal)
        return softmax_weights(query, key, near if allowed is None else near & allowed)

    def attend(self, query, key, value, mask, query_mask):
        return self.attention_weights(query, key, mask, query_mask).to(value.dtype) @ value


def formula(query, key, value, allowed, reach, **arguments):
    """Return the output in the plainest form; a query without a key in reach gets zeros."""
    position = torch.arange(query.shape[2], device=query.device)
    allowed = allowed & ((position[:, None] - position).abs() <= reach)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -1e300).softmax(dim=-1).masked_fill(~allowed, 0)
    return weights @ value
