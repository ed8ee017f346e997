"""The tables of the peers benchmark, and what differs between the two models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forecast.benchmark.contest import INFERENCE, TRAINING
from forecast.benchmark.models import Preset
from forecast.common.tables import Row, Sheet
from forecast.common.text import decimals, mebibytes, three_digits

HEADINGS = (
    "windows", "arithmetic", "windows/s", "theirs", "times as fast", "least to most", "peak MiB", "theirs", "share",
)  # fmt: skip


def peer_sheets(rows: Sequence[Row], differences: Sequence[str]) -> Iterator[Sheet]:
    """Give a table of training steps and one of inference; what differs stands beneath the first."""
    notes = {
        TRAINING: (
            "training step: forward, loss, backward and the update, without clipping; medians of the pairs, the least "
            "and most of their ratios; arithmetic: of ours, of theirs",
            "peak: weights, buffers and the optimizer's state, and what a pass allocates above them",
            *differences,
        ),
        INFERENCE: (
            "inference: one batch under inference_mode, in evaluation mode; theirs is `forward`, handed the future "
            "values, without which it decodes one step; it gives a distribution for each step and the loss",
            "a forecast of theirs is `generate`, which decodes step after step for each of its samples: not measured",
        ),
    }
    for passes, said in notes.items():
        shown = [row for row in rows if row["passes"] == passes]
        if shown:
            title = (
                f"{passes.capitalize()}, batch {shown[0]['batch']}: ours beside the Informer of transformers "
                f"{shown[0]['transformers']}"
            )
            yield Sheet(title, HEADINGS, [_cells(row) for row in shown], said)


def differences_of(preset: Preset, theirs: Mapping[str, Any], optimizer: Mapping[str, Any]) -> list[str]:
    """Say what the two do not have in common, and what was set so that they have more."""
    factor, start = theirs["sampling_factor"], preset.options["start_length"]
    settings = ", ".join(f"{key} {value}" for key, value in optimizer.items() if not key.startswith("_"))
    return [
        f"sizes of both: d_model {theirs['d_model']}, {theirs['encoder_attention_heads']} heads, "
        f"d_ff {theirs['encoder_ffn_dim']}, {theirs['encoder_layers']} encoder and {theirs['decoder_layers']} decoder "
        f"layers, distilling {'on' if theirs['distil'] else 'off'}, dropout {theirs['dropout']}",
        f"scoring: theirs takes the product of every query with as many sampled keys as there are keys, L² of them; "
        f"ours with {factor}·⌈ln L⌉ keys; queries computed in full: theirs {factor}·⌈ln(L + 1)⌉, ours {factor}·⌈ln L⌉",
        "cross-attention: theirs writes its scores out, ours uses torch's fused softmax",
        "head and loss: theirs gives a normal distribution (the smallest of its heads) and takes its negative "
        "log-likelihood, ours a number and its square error",
        f"decoder: ours reads {start} steps of the past, then zeros; theirs has no start token and reads the true "
        f"value of the step before each (its lag {theirs['lags_sequence'][0]}); "
        + ("both decode the horizon" if start == 0 else f"ours decodes {start} steps more than theirs"),
        "input of a step: ours three steps' values through a convolution, and the known inputs; theirs the value of "
        "the step before, the known inputs and the logarithms of its location and scale, through one linear map and "
        "a LayerNorm; positions computed (ours), a table (theirs)",
        "set so in theirs: no scaling of its own (the windows are z-scores), one lag, no layerdrop, no dropout of "
        "attention weights, dropout after the activation as in ours",
        f"the optimizer of both: AdamW with {settings}; theirs is torch's; bf16 is torch's autocast for both",
    ]


def _cells(row: Row) -> list[str]:
    return [
        f"{row['look_back']:,} → {row['horizon']:,}",
        f"{row['ours_precision']}, {row['theirs_precision']}",
        three_digits(row["ours_windows_per_s"]),
        three_digits(row["theirs_windows_per_s"]),
        decimals(row["times_as_fast"]),
        f"{decimals(row['times_as_fast_least'])} to {decimals(row['times_as_fast_most'])}",
        mebibytes(row["ours_peak_bytes"]),
        mebibytes(row["theirs_peak_bytes"]),
        decimals(row["share_of_peak"]),
    ]
