"""Tokens of one time step and all channels, as in the Informer paper."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from forecast.model.dropout import Dropout
from forecast.model.embedding import positions


class StepEmbedding(nn.Module):
    """Gives one token a step: values by a convolution over three steps, known inputs, position.

    Notes
    -----
    Differs from the paper in: the convolution reads the step and the two before it (the oldest step
    repeated), not its two neighbours with the ends joined, so that no step sees a later one; known inputs
    are the project's calendar cycles, through one linear map.
    """

    def __init__(self, num_channels: int, num_known: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.values = nn.Conv1d(num_channels, d_model, 3, bias=False)
        self.known = nn.Linear(num_known, d_model, bias=False) if num_known else None
        self.dropout = Dropout(dropout)

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        padded = torch.cat([values[:, :1], values[:, :1], values], 1)  # (B, L + 2, C)
        steps = torch.cat([padded[:, :-2], padded[:, 1:-1], values], 2)  # (B, L, 3 C)
        weight = self.values.weight.transpose(1, 2).flatten(1)  # (D, 3 C): one product in place of a convolution
        if self.known is not None:
            steps, weight = torch.cat([steps, known], 2), torch.cat([weight, self.known.weight], 1)
        tokens = functional.linear(steps, weight)  # (B, L, D)
        tokens = tokens + positions(tokens.shape[1], tokens.shape[2], tokens)
        dropped: Tensor = self.dropout(tokens)
        return dropped


class StepTokens(nn.Module):
    """Makes the encoder's tokens from the context, the decoder's from a start token and zeros.

    Parameters
    ----------
    num_targets, num_past_covariates, num_known
        C_out, C_in - C_out, and F.
    context_length, horizon
        T and h.
    start_length
        Last steps of the context that the decoder begins with.
    """

    def __init__(
        self,
        *,
        num_targets: int,
        num_past_covariates: int,
        num_known: int,
        context_length: int,
        horizon: int,
        d_model: int,
        dropout: float,
        start_length: int,
    ) -> None:
        super().__init__()
        channels = num_targets + num_past_covariates
        self.horizon = horizon
        self.start_length = start_length
        self.source_length = context_length
        self.query_length = start_length + horizon
        self.past = StepEmbedding(channels, num_known, d_model, dropout)
        self.future = StepEmbedding(channels, num_known, d_model, dropout)
        self.head = nn.Linear(d_model, num_targets)

    def source(self, past: Tensor, past_known: Tensor) -> Tensor:
        """Give the encoder's tokens (B, T, D)."""
        tokens: Tensor = self.past(past, past_known)
        return tokens

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Give the decoder's tokens (B, start_length + h, D): known past, then zeros."""
        first = past.shape[1] - self.start_length
        values = functional.pad(past[:, first:], (0, 0, 0, self.horizon))
        tokens: Tensor = self.future(values, torch.cat([past_known[:, first:], future_known], 1))
        return tokens

    def read_out(self, decoded: Tensor) -> Tensor:
        """Give the forecast (B, h, C_out) from the decoder's last h tokens."""
        forecast: Tensor = self.head(decoded[:, -self.horizon :])
        return forecast
