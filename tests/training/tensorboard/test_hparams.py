from forecast.training.tensorboard.logger import session_start, table_values


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
