"""Several heads around one mechanism."""

import torch
from torch import Tensor, nn

from forecast.attention.base import Attention, hide, is_autocast, without_padded_queries
from forecast.common.errors import InputError
from forecast.model._few import Projections, attend_few, pays, sampled_scores, transformed


class MultiHeadAttention(nn.Module):
    """Project to heads, attend in each, merge and project back.

    All heads come from one projection by view and transpose. This is the only place where heads are split
    and merged, but for self-attention of few queries (`_few`), which has no keys and values to split.

    Parameters
    ----------
    d_model : int
        Width D of what comes in and goes out.
    num_heads : int
        Heads H, as many as `attention` was built for.
    attention : Attention
        The mechanism.
    head_dim : int or None
        Width E of a head; d_model / num_heads when None. It need not divide d_model.

    Raises
    ------
    InputError
        If d_model is no multiple of num_heads and head_dim is not given.
    ValueError
        If the mechanism was built for other heads.
    """

    def __init__(self, d_model: int, num_heads: int, attention: Attention, head_dim: int | None = None) -> None:
        super().__init__()
        if head_dim is None and d_model % num_heads:
            raise InputError(f"d_model {d_model} is no multiple of num_heads {num_heads}: change one, or give head_dim")
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
        """Attend with all heads.

        Parameters
        ----------
        query : Tensor
            Shape (B, L, D).
        key, value : Tensor
            Shape (B, S, D).
        mask, query_mask : Tensor, optional
            Boolean, as in `Attention.forward`, the same for all heads.

        Returns
        -------
        Tensor
            Shape (B, L, D).

        Raises
        ------
        ValueError
            As `Attention.forward`.
        """
        self.attention.check_masks(query.shape[0], query.shape[1], key.shape[1], mask, query_mask)
        if query is key and key is value and mask is None and query_mask is None:
            attended = self._of_few(query)
            if attended is not None:
                return attended
        mask = without_padded_queries(mask, query_mask)
        # Before the projections, too: their weights would get 0 × NaN as a gradient from padding.
        query, key, value = hide(query, query_mask), hide(key, mask), hide(value, mask)
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

    def _of_few(self, tokens: Tensor) -> Tensor | None:
        """Attend from tokens to themselves where few queries do and that is less work; else None.

        Its weights are read and neither the projections nor the mechanism are called. So they have to be what
        this class built: whoever hooks, replaces or wraps one of them gets the general way, which calls it.
        """
        length = tokens.shape[1]
        few = self.attention.few(length) if tokens.numel() else None
        half = tokens.dtype.itemsize < 4 or is_autocast(tokens)  # scores are taken in float32 at least
        if few is None or half or not pays(length, few, self.head_dim):
            return None
        layers = (self.query_projection, self.key_projection, self.value_projection, self.output_projection)
        if transformed() or not (all(map(_is_plain, layers)) and _is_own(self.attention)):
            return None
        weights = Projections(*(each for layer in layers for each in (layer.weight, layer.bias)))
        chosen = self.attention.choose_few(
            length, tokens.device, lambda positions: sampled_scores(tokens, weights, positions, self.num_heads)
        )
        return attend_few(tokens, weights, chosen)

    def _split(self, projected: Tensor) -> Tensor:
        # (B, N, H·E) → (B, H, N, E)
        batch, length, _ = projected.shape
        return projected.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)


def _is_plain(layer: nn.Module) -> bool:
    """Return whether a call of the layer is its weight, its bias and nothing else."""
    if type(layer) is not nn.Linear or layer.bias is None or _is_hooked(layer):
        return False
    if torch.compiler.is_compiling():
        return True
    # a quantized or distributed weight is a tensor with rules of its own
    return type(layer.weight) in (nn.Parameter, Tensor) and "forward" not in vars(layer)


def _is_own(mechanism: Attention) -> bool:
    """Return whether `few` describes the mechanism: its class declares it, and no call of it shows or changes more."""
    if "few" not in vars(type(mechanism)) or _is_hooked(mechanism):
        return False
    return torch.compiler.is_compiling() or not {"forward", "attend"} & vars(mechanism).keys()


def _is_hooked(module: nn.Module) -> bool:
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(own) or bool(nn.modules.module._has_any_global_hook())
