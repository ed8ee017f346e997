"""The encoder-decoder of the Informer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor, nn

from forecast.model.decoder import Decoder
from forecast.model.encoder import Encoder
from forecast.model.linear_path import LinearPath, Sum, WeightedMean
from forecast.model.normalization import Statistics, forward_fill


class Tokens(Protocol):
    """What makes tokens of a window and a forecast of tokens: `StepTokens`, `PatchTokens`."""

    def source(self, past: Tensor, past_known: Tensor) -> Tensor:
        """Return the encoder's tokens."""

    def queries(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Return the decoder's tokens."""

    def read_out(self, decoded: Tensor) -> Tensor:
        """Return the forecast (B, h, C_out)."""


class Normalization(Protocol):
    """What takes a window's level off and puts it back."""

    def normalize(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Statistics]:
        """Return the context as the model sees it."""

    def restore(self, forecast: Tensor, statistics: Statistics) -> Tensor:
        """Return the forecast as z-scores of the training part."""


class Informer(nn.Module):
    """Maps a context to a forecast; the future is no argument, so it cannot leak.

    `tokens` makes the input of `encoder` and `decoder` and reads out the forecast. `combination` joins it with that
    of `linear_path`, if any. `num_targets` is C_out.

    Source: Zhou et al., "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting", AAAI 2021,
    arXiv:2012.07436.
    """

    tokens: Tokens
    normalization: Normalization

    def __init__(
        self,
        *,
        tokens: nn.Module,
        encoder: Encoder,
        decoder: Decoder,
        normalization: nn.Module,
        linear_path: LinearPath | None,
        combination: Sum | WeightedMean,
        num_targets: int,
    ) -> None:
        super().__init__()
        self.add_module("tokens", tokens)
        self.encoder = encoder
        self.decoder = decoder
        self.add_module("normalization", normalization)
        self.linear_path = linear_path
        self.combination = combination
        self.num_targets = num_targets

    def forward(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> Tensor:
        """Return the forecast (B, h, C_out) from `past` (B, T, C_in), targets first; z-scores of the training part.

        `past_known` (B, T, F) and `future_known` (B, h, F) are known in advance. `past_observed` (B, T, C_in) is False
        where `past` is not to be read; None reads all of it. There the encoder-decoder takes the window's mean, the
        linear path the last value before it in the window, if any.
        """
        seen, statistics = self.normalization.normalize(past, past_observed)
        decoded = self.normalization.restore(self._decode(seen, past_known, future_known), statistics)
        if self.linear_path is None:
            return decoded
        linear = self.forward_linear_path(past, past_observed)
        forecast: Tensor = self.combination(decoded, linear, statistics.level[..., : self.num_targets])
        return forecast

    @property
    def is_weighted(self) -> bool:
        """Whether the encoder-decoder and the linear path are trained by themselves, and their mean weighted."""
        return isinstance(self.combination, WeightedMean)

    @property
    def share(self) -> float | None:
        """The encoder-decoder's weight in that mean; None where there is none."""
        return round(float(self.combination.share), 6) if isinstance(self.combination, WeightedMean) else None

    def forward_apart(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the forecasts of the encoder-decoder and of the linear path, (B, h, C_out) each; it must have one."""
        seen, statistics = self.normalization.normalize(past, past_observed)
        decoded = self._decode(seen, past_known, future_known)
        return self.normalization.restore(decoded, statistics), self.forward_linear_path(past, past_observed)

    def learners(
        self, past: Tensor, past_known: Tensor, future_known: Tensor, past_observed: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the forecasts (B, h, C_out) that learn, each from its own loss.

        For a weighted mean: the encoder-decoder's and, unless its weights are fixed, the linear path's.
        """
        if not self.is_weighted:
            return (self(past, past_known, future_known, past_observed),)
        assert self.linear_path is not None
        apart = self.forward_apart(past, past_known, future_known, past_observed)
        return apart if self.linear_path.weight.requires_grad else apart[:1]

    def _decode(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        memory = self.encoder(self.tokens.source(past, past_known))
        queries = self.tokens.queries(past, past_known, future_known)
        return self.tokens.read_out(self.decoder(queries, memory))

    def checkpoint_activations(self, wanted: bool) -> None:
        """Have the backward pass compute each layer again, in place of holding all that it computed on its way."""
        self.encoder.activation_checkpointing = wanted
        self.decoder.activation_checkpointing = wanted

    def forward_linear_path(self, past: Tensor, past_observed: Tensor | None = None) -> Tensor:
        """Return the forecast of the linear path alone (B, h, C_out); the model must have one."""
        assert self.linear_path is not None
        whole = past if past_observed is None else forward_fill(past, past_observed)
        forecast: Tensor = self.linear_path(whole[..., : self.num_targets])
        return forecast


@contextmanager
def in_evaluation(network: nn.Module) -> Iterator[None]:
    """Put `network` in evaluation mode; each of its modules is left in the mode that it was found in."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
