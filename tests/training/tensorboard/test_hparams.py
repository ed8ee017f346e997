from forecast.training.tensorboard.logger import COMPARED, session_start, table_columns, table_values


def test_a_configuration_is_flattened_to_dotted_names() -> None:
    config = {"seed": 1, "model": {"d_model": 8, "path": {"on": True, "rate": 0.1}}, "data": {"names": ["a", "b"]}}
    assert table_values({**config, "resume": None, "empty": {}}) == {
        "seed": 1,
        "model.d_model": 8,
        "model.path.on": True,
        "model.path.rate": 0.1,
        "data.names": "['a', 'b']",
        "resume": "null",
    }


def test_a_boolean_is_not_a_number_in_the_table() -> None:
    from tensorboard.plugins.hparams import metadata

    (value,) = session_start({"on": True, "rate": 0.5, "name": "full"}).value
    info = metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content)
    kinds = {name: value.WhichOneof("kind") for name, value in info.hparams.items()}
    assert kinds == {"on": "bool_value", "rate": "number_value", "name": "string_value"}


def test_the_compared_scalars_are_the_first_metric_columns_with_readable_headings() -> None:
    from tensorboard.plugins.hparams import metadata

    (value,) = table_columns(["train/loss", "speed/peak_memory_mib", "val/mse", "test/mse"]).value
    columns = metadata.parse_experiment_plugin_data(value.metadata.plugin_data.content).metric_infos
    shown = {each.name.tag: each.display_name for each in columns}
    assert shown == {
        "test/mse": "test MSE",
        "speed/peak_memory_mib": "peak memory, MiB",
        "train/loss": "train/loss",
        "val/mse": "val/mse",
    }
    assert list(shown) == ["test/mse", "speed/peak_memory_mib", "train/loss", "val/mse"]


def test_headings_of_the_compared_scalars_fit_beside_the_table() -> None:
    """The list of metrics is 265 pixels wide, about 24 characters beside the check box."""
    assert max(map(len, COMPARED.values())) <= 24


def test_a_validation_score_is_not_headed_as_a_test_score() -> None:
    """Without a test split, the tags `test/…` have scores of the validation split."""
    from tensorboard.plugins.hparams import metadata

    tags = ["test/mse", "test/mase", "test_baseline/linear_mse", "val/mse", "speed/peak_memory_mib"]
    for split in ("test", "validation"):
        (value,) = table_columns(tags, split).value
        columns = metadata.parse_experiment_plugin_data(value.metadata.plugin_data.content).metric_infos
        headings = {each.name.tag: each.display_name for each in columns}
        assert headings == {
            "test/mse": f"{split} MSE",
            "test/mase": f"{split}/mase",
            "test_baseline/linear_mse": f"{split}_baseline/linear_mse",
            "val/mse": "val/mse",
            "speed/peak_memory_mib": "peak memory, MiB",
        }
