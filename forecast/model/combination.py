"""How the encoder-decoder's forecast and the linear path's become one."""

import torch
from torch import Tensor, nn


class Sum(nn.Module):
    """Adds to the linear path what `decoded` changes in its `level`: it learns what the path leaves, both as one."""

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + (decoded - level)


class WeightedMean(nn.Module):
    """Gives the weighted mean of two forecasts that are each trained by themselves, but for one limit on the gradient.

    The encoder-decoder's weight is `share`, between 0 and 1, a part of what validation likes best: it begins at 0,
    the linear path alone. What forecasts by itself errs in its own way, and the errors of the two partly cancel;
    what learns the other's residuals learns their noise as well.

    References
    ----------
    Bates and Granger, "The Combination of Forecasts", Operational Research Quarterly 20 (1969).
    """

    share: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("share", torch.zeros(()))

    def forward(self, decoded: Tensor, linear: Tensor, level: Tensor) -> Tensor:
        return linear + self.share * (decoded - linear)
