"""The encoder: self-attention layers, with or without distilling between them."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from forecast.attention.multi_head import MultiHeadAttention
from forecast.model.activations import run_layer
from forecast.model.batch_normalization import BatchNorm
from forecast.model.dropout import Dropout


class FeedForward(nn.Sequential):
    """Two linear maps with a GELU between, on each token by itself: (..., D) to (..., D)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(d_model, d_ff), nn.GELU(), Dropout(dropout), nn.Linear(d_ff, d_model), Dropout(dropout)
        )


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
        if self.norm_first:
            added: Tensor = tokens + self.dropout(sublayer(self.norm(tokens)))
            return added
        normed: Tensor = self.norm(tokens + self.dropout(sublayer(tokens)))
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
        tokens = self.attend(tokens, lambda x: self.attention(x, x, x))
        tokens = self.transform(tokens, self.feed_forward)
        return tokens


class Distilling(nn.Module):
    """Halves the sequence: convolution, batch norm, ELU, max-pooling; (B, L, D) to (B, ceil(L / 2), D).

    Notes
    -----
    Differs from the paper in: the ends are padded by repetition, not by wrapping round, so that the
    newest step does not see the oldest.

    References
    ----------
    Zhou et al. 2021, arXiv:2012.07436, section "Encoder: self-attention distilling".
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1, padding_mode="replicate")
        self.norm = BatchNorm(d_model)
        self.activation = nn.ELU()
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    @staticmethod
    def output_length(length: int) -> int:
        """Give the number of tokens that are left of `length`."""
        return (length + 1) // 2

    def forward(self, tokens: Tensor) -> Tensor:
        channels_first = self.convolution(tokens.transpose(1, 2))  # (B, D, L)
        pooled: Tensor = self.pool(self.activation(self.norm(channels_first)))
        return pooled.transpose(1, 2)  # (B, ceil(L / 2), D)


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
