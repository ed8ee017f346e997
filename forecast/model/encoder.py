"""The encoder: self-attention layers, optionally with distilling between them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from forecast.attention._masks import Mask, zero_masked
from forecast.attention._multi_head import MultiHeadAttention
from forecast.kernels import feed_forward as kernel
from forecast.kernels import use_cpu_kernels
from forecast.kernels.dropout import Dropout
from forecast.model.batch_norm import BatchNorm


class Distilling(nn.Module):
    """Convolution, batch norm, ELU and max pooling that halve the sequence: (B, L, D) to (B, ceil(L / 2), D).

    Source: Zhou et al. 2021, arXiv:2012.07436, section "Encoder: self-attention distilling". Differs from the paper in:
    replicate padding, not circular, so that the newest step does not see the oldest.

    With a mask, a hidden token is zero for the convolution, and neither batch norm nor pooling reads it.
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

    def output_mask(self, mask: Mask) -> Mask:
        """Return the mask (B, ceil(L / 2)) after distilling: a token is visible if its pooling reads a visible one."""
        return None if mask is None else self.pool(mask[:, None].float())[:, 0] > 0

    def forward(self, tokens: Tensor, mask: Mask = None, *, checkpointing: bool = False) -> Tensor:
        """Return the halved tokens; with `checkpointing`, the backward pass recomputes all but the batch norm."""
        features = zero_masked(tokens, mask).transpose(1, 2)  # (B, D, L)
        features = self.norm(run_layer(self.convolution, features, checkpointing=checkpointing), mask)
        if mask is not None:
            features = features.masked_fill(~mask[:, None], torch.finfo(features.dtype).min)
        halved = run_layer(self._halved, features, checkpointing=checkpointing)
        return halved.transpose(1, 2).contiguous()  # (B, ceil(L / 2), D)

    def _halved(self, features: Tensor) -> Tensor:
        halved: Tensor = self.activation(self.pool(features))  # the ELU rises, so it may follow, on half the elements
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


def run_layer(layer: Callable[..., Tensor], *inputs: Tensor | None, checkpointing: bool) -> Tensor:
    """Return the output of `layer`; with `checkpointing`, the backward pass recomputes it with the same random numbers.

    Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174.
    """
    if checkpointing and torch.is_grad_enabled():
        recomputable: Tensor = checkpoint(layer, *inputs, use_reentrant=False)
        return recomputable
    output: Tensor = layer(*inputs)
    return output


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: (B, L, D) to (B, L, D).

    A token that the mask (B, L) hides is neither key nor query of the attention.
    """

    def __init__(
        self, attention: MultiHeadAttention, d_model: int, d_ff: int, dropout: float, *, norm_first: bool
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attend = Residual(d_model, dropout, norm_first=norm_first)
        self.transform = Residual(d_model, 0.0, norm_first=norm_first)

    def forward(self, tokens: Tensor, mask: Mask = None) -> Tensor:
        def attend(tokens: Tensor) -> Tensor:
            attended: Tensor = self.attention(tokens, tokens, tokens, mask, mask)
            return attended

        if use_cpu_kernels(tokens):
            summed = self.attend.add(tokens, attend)
            return transform_with_kernel(summed, self.attend, self.transform, self.feed_forward)
        tokens = self.attend(tokens, attend)  # norm(tokens + attention(tokens))
        tokens = self.transform(tokens, self.feed_forward)  # norm(tokens + feed_forward(tokens))
        return tokens


class Encoder(nn.Module):
    """Encoder layers in sequence with `distilling` between them, then a LayerNorm.

    Tokens that the mask (B, L) hides do not change the visible ones.
    """

    def __init__(self, layers: Sequence[EncoderLayer], distilling: Sequence[Distilling], d_model: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.distilling = nn.ModuleList(distilling)
        self.norm = nn.LayerNorm(d_model)
        self.activation_checkpointing = False

    def output_mask(self, mask: Mask) -> Mask:
        """Return which tokens of the output are visible; None if all are."""
        for distilling in self.distilling:
            assert isinstance(distilling, Distilling)
            mask = distilling.output_mask(mask)
        return mask

    def forward(self, tokens: Tensor, mask: Mask = None) -> Tensor:
        for number, layer in enumerate(self.layers):
            tokens = run_layer(layer, tokens, mask, checkpointing=self.activation_checkpointing)
            if number < len(self.distilling):
                distilling = self.distilling[number]
                assert isinstance(distilling, Distilling)
                tokens = distilling(tokens, mask, checkpointing=self.activation_checkpointing)
                mask = distilling.output_mask(mask)
        normed: Tensor = self.norm(tokens)
        return normed
