"""The decoder: self-attention over tokens of the horizon, cross-attention to the encoder's tokens."""

from collections.abc import Sequence

from torch import Tensor, nn

from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention.base import Mask
from forecast.kernels import use_cpu_kernels
from forecast.model.encoder import FeedForward, Residual, run_layer, transform_with_kernel


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward. Maps tokens (B, M, D) and memory (B, L, D) to (B, M, D).

    A token that its mask, (B, M) or (B, L), hides is neither key nor query of the attention.
    """

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

    def forward(self, tokens: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None) -> Tensor:
        def cross_attend(tokens: Tensor) -> Tensor:
            attended: Tensor = self.cross_attention(tokens, memory, memory, memory_mask, mask)
            return attended

        # norm(tokens + self_attention(tokens))
        tokens = self.attend(tokens, lambda x: self.self_attention(x, x, x, mask, mask))
        if use_cpu_kernels(tokens):
            summed = self.look_back.add(tokens, cross_attend)
            return transform_with_kernel(summed, self.look_back, self.transform, self.feed_forward)
        tokens = self.look_back(tokens, cross_attend)  # norm(tokens + cross_attention(tokens, memory))
        tokens = self.transform(tokens, self.feed_forward)  # norm(tokens + feed_forward(tokens))
        return tokens


class Decoder(nn.Module):
    """Decoder layers in sequence, then a LayerNorm."""

    def __init__(self, layers: Sequence[DecoderLayer], d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.activation_checkpointing = False

    def forward(self, tokens: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None) -> Tensor:
        for layer in self.layers:
            tokens = run_layer(layer, tokens, memory, mask, memory_mask, checkpointing=self.activation_checkpointing)
        normed: Tensor = self.norm(tokens)
        return normed
