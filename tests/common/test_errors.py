"""Messages that quote files of others."""

from forecast.common.errors import LONG_WORD, LONGEST, InputError


def test_a_message_has_no_control_characters() -> None:
    assert str(InputError("runs/\x1b[31mred\u202e: no run\x07")) == r"runs/\x1b[31mred\u202e: no run\x07"
    assert str(InputError("of a command:\nit is wrong\t")) == "of a command:\nit is wrong\\t"


def test_a_long_value_loses_its_middle_and_the_cure_stays() -> None:
    text = str(InputError(f"manifest.json: {'a' * 100_000!r} is not a name: copy it again"))
    assert len(text) < LONG_WORD + 100
    assert text.startswith("manifest.json: 'aaa")
    assert text.endswith("aaa' is not a name: copy it again")
    assert " … (100,002 characters) … " in text
    assert len(str(InputError("a b " * 100_000))) < LONGEST + 50


def test_a_command_with_many_names_stays_whole() -> None:
    command = f"train with data.targets=[{','.join(f'sensor_{number}' for number in range(1000))}]"
    assert str(InputError(command)) == command
