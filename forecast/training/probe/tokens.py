"""What a token is at each attention of a network, in words."""

from forecast.model.informer import Informer
from forecast.model.patch_tokens import PatchTokens


def token_names(network: Informer, place: str) -> tuple[str, str]:
    """Give what a query and what a key is at `place`: "step", "patch", "2 steps" after distilling."""
    part, number, kind = place.split(".")
    patches = isinstance(network.tokens, PatchTokens)
    distilled = len(network.encoder.distilling)
    past = _token(patches, min(int(number), distilled) if part == "encoder" else distilled)
    if part == "encoder":
        return past, past
    future = "horizon patch" if patches else "step"
    return future, past if kind == "cross" else future


def _token(patches: bool, halvings: int) -> str:
    if patches:
        return "patch"
    return f"{2**halvings} steps" if halvings else "step"
