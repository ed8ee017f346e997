"""Tables that were sent, in the place of files."""

import tempfile
from pathlib import Path

import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.tables.files import Upload, read_table
from forecast.tables.writing import write_table


@pytest.mark.parametrize("ending", [".csv", ".arrow"])
def test_a_sent_table_is_read_as_its_file_is(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"sent{ending}"
    write_table(path, pd.DataFrame({"date": ["2020-01-01", "2020-01-02"], "load": [1.5, 2.0]}), index=False)
    pd.testing.assert_frame_equal(read_table(Upload("the table", path.read_bytes(), ending)), read_table(path))


@pytest.mark.parametrize("ending", [".csv", ".arrow"])
def test_a_message_on_a_sent_table_has_its_name_and_no_path(ending: str) -> None:
    with pytest.raises(InputError, match=r"^the table") as error:
        read_table(Upload("the table", b"\0\0", ending))
    assert tempfile.gettempdir() not in str(error.value)
