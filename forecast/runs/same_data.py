"""Which runs forecast the same thing: only their errors can be compared."""

import json
from typing import Any

NOT_SCORED = ("name", "path", "file_name", "url", "about", "sha256", "time_column", "targets")
"""Keys of `data` that say where a table comes from, or are told better by the result."""

INPUTS = ("past_covariates", "known_covariates", "calendar")
"""Keys of `data` that say what a model is given beside the targets; they differ between settings, not data."""


def data_key(result: dict[str, Any]) -> str:
    """Give what runs have in common that forecast the same series of the same table, as far and as often ahead."""
    data, config = result["data"], result["config"]["data"]
    told = {key: value for key, value in config.items() if key not in (*NOT_SCORED, *INPUTS)}
    if not told.get("missing_values"):
        told.pop("missing_values", None)  # runs of earlier versions had none and do not say so
    stride = data.get("evaluation_stride", 1)
    facts = [data["name"], result["config"]["horizon"], data["targets"], data.get("sha256"), stride, told]
    return json.dumps(facts, sort_keys=True)
