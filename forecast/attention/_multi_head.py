"""Multi-head attention around one mechanism."""

from torch import Tensor, nn

from forecast.attention._few_queries import attend_from_tokens
from forecast.attention._masks import check_rank, without_padded_queries, zero_masked
from forecast.attention.base import Attention
from forecast.common.errors import InputError


class MultiHeadAttention(nn.Module):
    """Multi-head attention: project to heads, attend in each head, merge the heads and project back.

    Heads are split and merged only here; `kernels/few_queries` has no keys and values to split.

    Parameters
    ----------
    d_model
        Width D of the tokens.
    num_heads
        Number of heads H.
    attention
        The mechanism, built for the same `num_heads` and `head_dim`.
    head_dim
        Width E of one head of query and key; None: D / H.
    value_head_dim
        Width V of one head of the values; None: `head_dim`. The models use one width for all; this is for Python.
    bias
        Whether the four projections add a bias.
    normalize_output
        Whether a LayerNorm follows the last projection, as in a published form of efficient attention. The models have
        their own LayerNorm around the layer; this is for Python.

    Raises
    ------
    InputError
        If H does not divide D and `head_dim` is None, or `value_head_dim` is below 1.
    ValueError
        If the mechanism was built for other heads.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: Attention,
        head_dim: int | None = None,
        *,
        value_head_dim: int | None = None,
        bias: bool = True,
        normalize_output: bool = False,
    ) -> None:
        super().__init__()
        if head_dim is None and d_model % num_heads:
            raise InputError(f"d_model {d_model} is not divisible by num_heads {num_heads}: set head_dim")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        self.value_head_dim = self.head_dim if value_head_dim is None else value_head_dim
        if self.value_head_dim < 1:
            raise InputError(f"value_head_dim {value_head_dim} must be at least 1, or None for head_dim")
        if (attention.num_heads, attention.head_dim) != (self.num_heads, self.head_dim):
            raise ValueError(
                f"{attention.name} was built for {attention.num_heads} heads of {attention.head_dim}, "
                f"the layer has {self.num_heads} of {self.head_dim}"
            )
        width, value_width = num_heads * self.head_dim, num_heads * self.value_head_dim
        self.attention = attention
        self.query_projection = nn.Linear(d_model, width, bias=bias)
        self.key_projection = nn.Linear(d_model, width, bias=bias)
        self.value_projection = nn.Linear(d_model, value_width, bias=bias)
        self.output_projection = nn.Linear(value_width, d_model, bias=bias)
        self.output_norm = nn.LayerNorm(d_model) if normalize_output else None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        query_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the output (B, L, D) for query (B, L, D), key and value (B, S, D).

        Masks are as in `Attention.forward`, the same for all heads. ValueError names the shape that is expected.
        """
        self._check(query, key, value)
        self.attention.check_masks(query.shape[0], query.shape[1], key.shape[1], mask, query_mask)
        if query is key and key is value and mask is None and query_mask is None:
            projections = self.query_projection, self.key_projection, self.value_projection, self.output_projection
            if (attended := attend_from_tokens(query, self.attention, projections)) is not None:
                return self._normalized(attended)
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
        merged = heads.transpose(1, 2).flatten(2)  # (B, H, L, V) → (B, L, H·V)
        return self._normalized(self.output_projection(merged))

    def _normalized(self, output: Tensor) -> Tensor:
        return output if self.output_norm is None else self.output_norm(output)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, tensor, length in (("query", query, "L"), ("key", key, "S"), ("value", value, "S")):
            check_rank(name, tensor, f"B, {length}, D")
            if tensor.shape[2] != self.d_model:
                raise ValueError(f"{name} must have width D = {self.d_model}, not {tuple(tensor.shape)}")
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            shapes = ", ".join(map(str, (tuple(query.shape), tuple(key.shape), tuple(value.shape))))
            raise ValueError(f"query (B, L, D), key (B, S, D) and value (B, S, D) do not match: {shapes}")

    def _split(self, projected: Tensor) -> Tensor:
        # (B, N, H·E) → (B, H, N, E)
        batch, length, width = projected.shape
        return projected.reshape(batch, length, self.num_heads, width // self.num_heads).transpose(1, 2)
