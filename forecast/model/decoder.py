"""The decoder: self-attention over the horizon's tokens, cross-attention to the encoder's."""

from collections.abc import Sequence

from torch import Tensor, nn

from forecast.model.activations import run_layer
from forecast.model.encoder import Residual, transform
from forecast.model.feed_forward import FeedForward
from forecast.model.multi_head import MultiHeadAttention


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward; tokens (B, M, D) and memory (B, L, D) to (B, M, D)."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        d_model: int,
        d_ff: int,
        dropout: float,
        *,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attend = Residual(d_model, dropout, norm_first=norm_first)
        self.look_back = Residual(d_model, dropout, norm_first=norm_first)
        self.transform = Residual(d_model, 0.0, norm_first=norm_first)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        tokens = self.attend(tokens, lambda x: self.self_attention(x, x, x))
        tokens = self.look_back.add(tokens, lambda x: self.cross_attention(x, memory, memory))
        return transform(tokens, self.look_back, self.transform, self.feed_forward)


class Decoder(nn.Module):
    """Layers one after the other, and a last LayerNorm."""

    def __init__(self, layers: Sequence[DecoderLayer], d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.activation_checkpointing = False

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        for layer in self.layers:
            tokens = run_layer(layer, tokens, memory, checkpointing=self.activation_checkpointing)
        normed: Tensor = self.norm(tokens)
        return normed
