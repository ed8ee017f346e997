"""The entries from which TensorBoard makes its HParams table, one line a run.

`SummaryWriter.add_hparams` puts each entry into a folder of its own. Here the entry is in the run's folder; it has the
whole configuration, of which the table shows the columns in `SHOWN`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from forecast.common.nested import flatten

SHOWN = (
    ("attention.name", "attention", "string"),
    ("context_length", "look-back", "number"),
    ("words", "words", "string"),
)
"""The columns beside the metrics: the name, its heading and its kind."""

Value = bool | int | float | str


def table_values(config: Mapping[str, Any]) -> dict[str, Value]:
    """Give the values of a nested configuration by dotted name; lists as text, None as "null"."""
    return {name: "null" if value is None else _plain(value) for name, value in flatten(config).items()}


def session_start(config: Mapping[str, Any]) -> Any:
    """Give the summary that says under which configuration a run began."""
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
    for name, value in table_values(config).items():
        if isinstance(value, bool):
            info.hparams[name].bool_value = value
        elif isinstance(value, str):
            info.hparams[name].string_value = value
        else:
            info.hparams[name].number_value = value
    return _summary(metadata.SESSION_START_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_start_info=info))


def table_columns(scalars: Sequence[str]) -> Any:
    """Return the summary that says which columns the table has, so that the metrics are seen without scrolling.

    TensorBoard shows five hyper-parameters at first if it finds them itself, and with them no metric on a page of
    1,300 pixels.

    Parameters
    ----------
    scalars
        The metrics, the ones that are shown at first before the others.
    """
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    kinds = {"string": api_pb2.DATA_TYPE_STRING, "number": api_pb2.DATA_TYPE_FLOAT64}
    columns = [api_pb2.HParamInfo(name=name, display_name=shown, type=kinds[kind]) for name, shown, kind in SHOWN]
    metrics = [
        api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=tag.removeprefix("compare/"))
        for tag in scalars
    ]
    experiment = api_pb2.Experiment(hparam_infos=columns, metric_infos=metrics)
    return _summary(metadata.EXPERIMENT_TAG, plugin_data_pb2.HParamsPluginData(experiment=experiment))


def session_end() -> Any:
    """Give the summary that says that a run has finished."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    info = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=time.time())
    return _summary(metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=info))


def _plain(value: Any) -> Value:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _summary(tag: str, content: Any) -> Any:
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import metadata

    about = metadata.create_summary_metadata(content)
    value = summary_pb2.Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)
    return summary_pb2.Summary(value=[value])
