"""Lightning's checkpoints, written so that a crash leaves the old one or the new one."""

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from forecast.files import replacing


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes beside the target, syncs, renames; reads plain data only.

    Lightning's own writer goes by the system's temporary folder, which may be another disk, and does not
    sync.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write `checkpoint` to the local file `path`."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint without executing anything that it names."""
        content: dict[str, Any] = torch.load(path, map_location=map_location or "cpu", weights_only=True)
        return content
