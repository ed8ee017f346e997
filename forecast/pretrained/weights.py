"""The weights in the package, and the card that says what they were trained on."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save_file

from forecast.common.errors import InputError
from forecast.common.files import read_json, sha256, write_json
from forecast.model.informer import Informer
from forecast.runs.run import DAMAGE, Architecture

NAME = "pretrained"
"""What a command line calls these weights."""

FOLDER = Path(__file__).parent / "weights"

WEIGHTS, CARD = "weights.safetensors", "card.json"


@dataclass(frozen=True)
class Pretrained:
    """The network of the weights in a folder, in evaluation mode, its architecture, and its card."""

    network: Informer
    architecture: Architecture
    card: dict[str, Any]
    folder: Path


@cache
def open_pretrained(folder: Path = FOLDER) -> Pretrained:
    """Return the weights of a folder; raise InputError if they are not those of its card."""
    card, path = read_json(folder / CARD), folder / WEIGHTS
    if card is None or not path.is_file():
        raise InputError(f"{folder}: has no {CARD} and {WEIGHTS}: install the program again")
    content = path.read_bytes()
    if sha256(path) != card["sha256"]:
        raise InputError(f"{path}: not the file of its card (its SHA-256 differs): install the program again")
    try:
        architecture = Architecture.from_dict(card["architecture"])
        network = architecture.build()
        network.load_state_dict({name: value.to(torch.float32) for name, value in load(content).items()})
    except DAMAGE as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{folder}: {CARD} and {WEIGHTS} do not fit ({reason}): install the program again") from None
    return Pretrained(network.eval().requires_grad_(False), architecture, card, folder)


def write_pretrained(folder: Path, network: Informer, facts: dict[str, Any]) -> None:
    """Write the weights of a network as bfloat16, and a card with `facts`, the architecture among them."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = {name: value.to(torch.bfloat16).contiguous() for name, value in network.state_dict().items()}
    save_file(rounded, folder / WEIGHTS)
    write_json(folder / CARD, {**facts, "sha256": sha256(folder / WEIGHTS)})
