"""The encoder: self-attention layers, optionally with distilling between them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from forecast.model.kernels import feed_forward as kernel
from forecast.model.kernels import use_cpu_kernels
from forecast.model.kernels.batch_norm import BatchNorm
from forecast.model.kernels.distilling import distil
from forecast.model.kernels.dropout import Dropout
from forecast.model.multi_head import MultiHeadAttention


class Distilling(nn.Module):
    """Convolution, batch norm, ELU and max pooling that halve the sequence: (B, L, D) to (B, ceil(L / 2), D).

    Source: Zhou et al. 2021, arXiv:2012.07436, section "Encoder: self-attention distilling". Differs from the paper in:
    replicate padding, not circular, so that the newest step does not see the oldest.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1, padding_mode="replicate")
        self.norm = BatchNorm(d_model)
        self.activation = nn.ELU()
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    @staticmethod
    def output_length(length: int) -> int:
        """Return the number of tokens after distilling `length` tokens."""
        return (length + 1) // 2

    def forward(self, tokens: Tensor) -> Tensor:
        if use_cpu_kernels(tokens):
            return distil(tokens, self.convolution.weight, self.convolution.bias, self.norm)
        features = self.activation(self.norm(self.convolution(tokens.transpose(1, 2))))  # (B, D, L)
        halved: Tensor = self.pool(features).transpose(1, 2)  # (B, ceil(L / 2), D)
        return halved


class Residual(nn.Module):
    """Residual connection with a LayerNorm before the sub-layer (`norm_first`) or after the sum.

    Sources: after the sum, Vaswani et al. 2017; before the sub-layer, Xiong et al., "On Layer Normalization in the
    Transformer Architecture", ICML 2020.
    """

    def __init__(self, d_model: int, dropout: float, *, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, tokens: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        summed = self.add(tokens, sublayer)
        return summed if self.norm_first else self.norm(summed)

    def add(self, tokens: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the sum, without the LayerNorm after it."""
        added: Tensor = self.dropout(sublayer(self.norm(tokens) if self.norm_first else tokens))
        return tokens + added


class FeedForward(nn.Sequential):
    """Two linear maps with a GELU between them, applied to each token: (..., D) to (..., D)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(d_model, d_ff), nn.GELU(), Dropout(dropout), nn.Linear(d_ff, d_model), Dropout(dropout)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        *inner, dropout = self
        assert isinstance(dropout, Dropout)
        keep = dropout.draw(tokens)  # drawn first, as in the kernel
        for layer in inner:
            tokens = layer(tokens)
        return dropout.drop(tokens, keep)


def transform_with_kernel(summed: Tensor, before: Residual, residual: Residual, feed_forward: FeedForward) -> Tensor:
    """Apply `residual` with `feed_forward` by the CPU kernel, including the pending LayerNorm of `before`."""
    into, _, _, out_of, dropout = feed_forward
    assert isinstance(into, nn.Linear)
    assert isinstance(out_of, nn.Linear)
    assert isinstance(dropout, Dropout)
    p = dropout.p if feed_forward.training else 0.0
    if residual.norm_first:
        return kernel.transform(summed, residual.norm, into, out_of, p, adds_normed=False)
    normed: Tensor = residual.norm(kernel.transform(summed, before.norm, into, out_of, p, adds_normed=True))
    return normed


def run_layer(layer: nn.Module, *tokens: Tensor, checkpointing: bool) -> Tensor:
    """Return the output of `layer`; with `checkpointing`, the backward pass recomputes it with the same random numbers.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174.
    """
    if checkpointing and torch.is_grad_enabled():
        recomputable: Tensor = checkpoint(layer, *tokens, use_reentrant=False)
        return recomputable
    output: Tensor = layer(*tokens)
    return output


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: (B, L, D) to (B, L, D)."""

    def __init__(
        self, attention: MultiHeadAttention, d_model: int, d_ff: int, dropout: float, *, norm_first: bool
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attend = Residual(d_model, dropout, norm_first=norm_first)
        self.transform = Residual(d_model, 0.0, norm_first=norm_first)

    def forward(self, tokens: Tensor) -> Tensor:
        if use_cpu_kernels(tokens):
            summed = self.attend.add(tokens, self._attend)
            return transform_with_kernel(summed, self.attend, self.transform, self.feed_forward)
        tokens = self.attend(tokens, self._attend)  # norm(tokens + attention(tokens))
        tokens = self.transform(tokens, self.feed_forward)  # norm(tokens + feed_forward(tokens))
        return tokens

    def _attend(self, tokens: Tensor) -> Tensor:
        attended: Tensor = self.attention(tokens, tokens, tokens)
        return attended


class Encoder(nn.Module):
    """Encoder layers in sequence with `distilling` between them, then a LayerNorm."""

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
