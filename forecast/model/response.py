"""The response of the targets to the known inputs of a single step."""

from torch import Tensor, nn

from forecast.data.known import KnownLayout
from forecast.model.tokens import KnownEmbedding


class Response(nn.Module):
    """Network with two hidden layers from the known inputs of a step (..., F) to the targets of that step (..., C).

    The response is subtracted from the look-back of the encoder-decoder and added to its forecast. So a low price on a
    windy day does not lower the level of the days after it. The last layer starts at zero: training begins without a
    response.
    """

    def __init__(self, layout: KnownLayout, num_targets: int, width: int) -> None:
        super().__init__()
        self.embedding = KnownEmbedding(layout)
        self.hidden = nn.Sequential(
            nn.Linear(self.embedding.width, width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.head = nn.Linear(width, num_targets)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, known: Tensor) -> Tensor:
        answer: Tensor = self.head(self.hidden(self.embedding(known)))
        return answer
