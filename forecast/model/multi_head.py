"""Multi-head attention around one mechanism."""

from torch import Tensor, nn

from forecast.attention._masks import without_padded_queries, zero_masked
from forecast.attention.base import Attention
from forecast.common.errors import InputError
from forecast.model.kernels.few_queries import attend_from_tokens


class MultiHeadAttention(nn.Module):
    """Multi-head attention: project to heads, attend in each head, merge the heads and project back.

    Heads are split and merged only here; `kernels/few_queries` has no keys and values to split. `head_dim` is the width
    E of a head, by default d_model / num_heads. `attention` must be built for the same `num_heads` and `head_dim`.
    """

    def __init__(self, d_model: int, num_heads: int, attention: Attention, head_dim: int | None = None) -> None:
        super().__init__()
        if head_dim is None and d_model % num_heads:
            raise InputError(f"d_model {d_model} is not divisible by num_heads {num_heads}: set head_dim")
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        if (attention.num_heads, attention.head_dim) != (self.num_heads, self.head_dim):
            raise ValueError(
                f"{attention.name} was built for {attention.num_heads} heads of {attention.head_dim}, "
                f"the layer has {self.num_heads} of {self.head_dim}"
            )
        width = self.num_heads * self.head_dim
        self.attention = attention
        self.query_projection = nn.Linear(d_model, width)
        self.key_projection = nn.Linear(d_model, width)
        self.value_projection = nn.Linear(d_model, width)
        self.output_projection = nn.Linear(width, d_model)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        query_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the output (B, L, D) for query (B, L, D), key and value (B, S, D).

        Masks are as in `Attention.forward`, the same for all heads.
        """
        self.attention.check_masks(query.shape[0], query.shape[1], key.shape[1], mask, query_mask)
        if query is key and key is value and mask is None and query_mask is None:
            projections = self.query_projection, self.key_projection, self.value_projection, self.output_projection
            if (attended := attend_from_tokens(query, self.attention, projections)) is not None:
                return attended
        mask = without_padded_queries(mask, query_mask)
        # Masked before the projections as well: NaN in padding would give their weights NaN gradients.
        query, key, value = zero_masked(query, query_mask), zero_masked(key, mask), zero_masked(value, mask)
        heads = self.attention(
            self._split(self.query_projection(query)),
            self._split(self.key_projection(key)),
            self._split(self.value_projection(value)),
            mask,
            query_mask,
        )
        merged = heads.transpose(1, 2).flatten(2)  # (B, H, L, E) → (B, L, H·E)
        output: Tensor = self.output_projection(merged)
        return output

    def _split(self, projected: Tensor) -> Tensor:
        # (B, N, H·E) → (B, H, N, E)
        batch, length, _ = projected.shape
        return projected.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)
