import gzip
import hashlib
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.download import locate
from forecast.tables.formats.unpacking import LIMIT, content_sha256
from tests.support.small import compose

ROWS = b"date,load\n" + b"".join(b"2016-07-01 %02d:00:00,%d\n" % (hour, hour) for hour in range(24))
SHA256 = hashlib.sha256(ROWS).hexdigest()


def test_a_compressed_table_is_found_by_the_name_and_the_hash_of_its_content(tmp_path: Path) -> None:
    file = tmp_path / "load.csv.gz"
    file.write_bytes(gzip.compress(ROWS))
    assert locate("load.csv", url=None, sha256=SHA256, data_dir=tmp_path) == file
    (tmp_path / "load.csv").write_bytes(ROWS)
    assert locate("load.csv", url=None, sha256=SHA256, data_dir=tmp_path) == tmp_path / "load.csv"


@pytest.mark.parametrize("digest", [SHA256, SHA256.upper()])
def test_a_compressed_table_at_a_path_is_accepted_with_either_hash(tmp_path: Path, digest: str) -> None:
    file = tmp_path / "load.csv.gz"
    file.write_bytes(gzip.compress(ROWS))
    for known in (digest, hashlib.sha256(file.read_bytes()).hexdigest()):
        config = compose("data=csv", f"data.path={file}", f"data.sha256={known}")["data"]
        assert len(load_source(DataSettings.parse(config)).series.frame) == 24
    with pytest.raises(InputError, match=r"its sha256 is not data\.sha256"):
        load_source(DataSettings.parse({**config, "sha256": "0" * 64}))


def test_another_compressed_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "load.csv.gz").write_bytes(gzip.compress(ROWS + b"2016-07-02,1\n"))
    with pytest.raises(InputError, match=r"load\.csv\.gz is not the expected file"):
        locate("load.csv", url=None, sha256=SHA256, data_dir=tmp_path)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_damaged_compressed_table_is_an_error_of_one_line(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "load.csv.gz"
    file.write_bytes(gzip.compress(ROWS)[:-cut])
    with pytest.raises(InputError, match="is not a complete gzip file"):
        content_sha256(file)
    file.write_bytes(b"date,load\n")
    with pytest.raises(InputError, match="is not a complete gzip file"):
        content_sha256(file)


def test_unpacking_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "3")
    file = tmp_path / "load.csv.gz"
    file.write_bytes(gzip.compress(bytes(50 << 20)))
    with pytest.raises(InputError, match="unpacked, it exceeds the limit of 3 MiB"):
        content_sha256(file)
