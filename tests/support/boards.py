"""Read event files with TensorBoard's reader, and as its HParams tab shows them."""

import io
from pathlib import Path
from typing import Any

from PIL import Image
from tensorboard import context
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.plugins.hparams.list_session_groups import Handler


def events(folder: Path) -> EventAccumulator:
    """Return the content of the event files of one run folder."""
    accumulator = EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0})
    accumulator.Reload()
    return accumulator


def curve(folder: Path, tag: str) -> dict[int, float]:
    """Return a scalar by step; fail if a step is repeated or out of order, or if TensorBoard's readers differ."""
    points = events(folder).Scalars(tag)
    steps = [point.step for point in points]
    assert steps == sorted(set(steps)), f"{tag}: {steps}"
    other = plugin_event_accumulator.EventAccumulator(str(folder), tensor_size_guidance={"scalars": 0})
    other.Reload()
    assert [point.step for point in other.Tensors(tag)] == steps, tag
    return {point.step: point.value for point in points}


def last_scalars(folder: Path) -> dict[str, float]:
    """Return each scalar's last value."""
    entries = events(folder)
    return {tag: entries.Scalars(tag)[-1].value for tag in entries.Tags()["scalars"]}


def images(folder: Path, tag: str) -> dict[int, Image.Image]:
    """Return the pictures under a tag by step."""
    entries = events(folder).Images(tag)
    return {image.step: Image.open(io.BytesIO(image.encoded_image_string)).convert("RGB") for image in entries}


def texts(folder: Path, tag: str) -> dict[int, str]:
    """Return the texts under a tag by step."""
    entries = events(folder).Tensors(tag)
    return {entry.step: entry.tensor_proto.string_val[0].decode() for entry in entries}


def hparams_tab(folder: Path) -> dict[str, tuple[dict[str, Any], dict[str, float]]]:
    """Return the lines of the HParams tab of all runs below `folder`: run → (hyper-parameters, metrics)."""
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    backend = Context(TBContext(data_provider=MultiplexerDataProvider(multiplexer, str(folder)), logdir=str(folder)))
    status = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS]
    request = api_pb2.ListSessionGroupsRequest(allowed_statuses=status, slice_size=100)
    response = Handler(context.RequestContext(), backend, "", request).run()
    lines = {}
    for group in response.session_groups:
        assert len(group.sessions) == 1, group.name
        values = {name: getattr(value, str(value.WhichOneof("kind"))) for name, value in group.hparams.items()}
        lines[group.name] = (values, {metric.name.tag: metric.value for metric in group.metric_values})
    return lines
