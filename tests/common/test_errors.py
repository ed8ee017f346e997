"""Messages that quote files of others."""

from forecast.common.errors import LONGEST, InputError


def test_a_message_has_no_control_characters() -> None:
    assert str(InputError("runs/\x1b[31mred\u202e: no run\x07")) == r"runs/\x1b[31mred\u202e: no run\x07"


def test_a_long_message_keeps_its_beginning_and_its_cure() -> None:
    text = str(InputError(f"manifest.json: {'a' * 100_000!r} is not a name: copy it again"))
    assert len(text) < LONGEST + 40
    assert text.startswith("manifest.json: 'aaa")
    assert text.endswith("aaa' is not a name: copy it again")
    assert " … (100,045 characters) … " in text
    assert str(InputError("a" * LONGEST)) == "a" * LONGEST
