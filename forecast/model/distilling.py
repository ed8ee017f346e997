"""What halves the sequence between encoder layers."""

from torch import Tensor, nn

from forecast.model.kernels import use_cpu_kernels
from forecast.model.kernels.batch_norm import BatchNorm
from forecast.model.kernels.distilling import distil


class Distilling(nn.Module):
    """Halves the sequence: convolution, batch norm, ELU, max-pooling; (B, L, D) to (B, ceil(L / 2), D).

    Source: Zhou et al. 2021, arXiv:2012.07436, section "Encoder: self-attention distilling". Differs from the paper in:
    the ends are padded by repetition, not by wrapping round, so that the newest step does not see the oldest.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1, padding_mode="replicate")
        self.norm = BatchNorm(d_model)
        self.activation = nn.ELU()
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    @staticmethod
    def output_length(length: int) -> int:
        """Return the number of tokens that are left of `length`."""
        return (length + 1) // 2

    def forward(self, tokens: Tensor) -> Tensor:
        if use_cpu_kernels(tokens):
            return distil(tokens, self.convolution.weight, self.convolution.bias, self.norm)
        features = self.activation(self.norm(self.convolution(tokens.transpose(1, 2))))  # (B, D, L)
        halved: Tensor = self.pool(features).transpose(1, 2)  # (B, ceil(L / 2), D)
        return halved
