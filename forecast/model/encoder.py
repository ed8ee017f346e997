"""The encoder: self-attention layers, with or without distilling between them."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from forecast.model.activations import run_layer
from forecast.model.distilling import Distilling
from forecast.model.dropout import Dropout
from forecast.model.feed_forward import FeedForward
from forecast.model.multi_head import MultiHeadAttention


class Residual(nn.Module):
    """Adds what a sub-layer gives to its input, with a LayerNorm before the sub-layer or after the sum.

    References
    ----------
    Vaswani et al. 2017 (after the sum); Xiong et al., "On Layer Normalization in the Transformer
    Architecture", ICML 2020 (before the sub-layer).
    """

    def __init__(self, d_model: int, dropout: float, *, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, tokens: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        summed = self.add(tokens, sublayer)
        if self.norm_first:
            return summed
        normed: Tensor = self.norm(summed)
        return normed

    def add(self, tokens: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the sum, without the norm that may follow it."""
        added: Tensor = self.dropout(sublayer(self.norm(tokens) if self.norm_first else tokens))
        return tokens + added


def transform(tokens: Tensor, before: Residual, residual: Residual, feed_forward: FeedForward) -> Tensor:
    """Return what `residual` makes of `feed_forward`; `tokens` are those that `before` has summed."""
    if residual.norm_first:
        return feed_forward.after(residual.norm, tokens, adds_normed=False)
    normed: Tensor = residual.norm(feed_forward.after(before.norm, tokens, adds_normed=True))
    return normed


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward map; (B, L, D) to (B, L, D)."""

    def __init__(
        self, attention: MultiHeadAttention, d_model: int, d_ff: int, dropout: float, *, norm_first: bool
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attend = Residual(d_model, dropout, norm_first=norm_first)
        self.transform = Residual(d_model, 0.0, norm_first=norm_first)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.attend.add(tokens, lambda x: self.attention(x, x, x))
        return transform(tokens, self.attend, self.transform, self.feed_forward)


class Encoder(nn.Module):
    """Layers one after the other, `distilling` between them, and a last LayerNorm."""

    def __init__(self, layers: Sequence[EncoderLayer], distilling: Sequence[Distilling], d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.distilling = nn.ModuleList(distilling)
        self.norm = nn.LayerNorm(d_model)
        self.activation_checkpointing = False

    def forward(self, tokens: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            tokens = run_layer(layer, tokens, checkpointing=self.activation_checkpointing)
            if number < len(self.distilling):
                tokens = self.distilling[number](tokens)
        normed: Tensor = self.norm(tokens)
        return normed
