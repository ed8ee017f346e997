"""The name of a user's data comes from the file."""

from pathlib import Path

import pytest

from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.data.settings import name_of, named
from forecast.training.sweep.overrides import check_words
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import changed, hourly, quick, write


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/data/aep_hourly.csv", "aep_hourly"),
        ("aep_hourly.csv.gz", "aep_hourly"),
        ("AEP.Hourly.CSV", "AEP.Hourly"),
        ("x.parquet", "x"),
        ("my file [1].csv", "my-file-1"),
        ("../Ström $(rm).csv", "Str-m-rm"),
        (".csv", "table"),
        ("№.csv", "table"),
        ("sweeps.csv", "sweeps-data"),
        ("benchmark.pq", "benchmark-data"),
        ("x" * 240 + ".csv", "x" * 100),
    ],
)
def test_the_name_is_that_of_the_file_in_letters_that_a_folder_may_have(file: str, name: str) -> None:
    assert name_of(Path(file)) == name


def composed(*words: str) -> str | None:
    name: str | None = named(plain_values(compose_words(words)))["data"]["name"]
    return name


def test_own_data_are_named_and_data_name_overrides() -> None:
    assert composed("data=csv", "data.path=/a/aep_hourly.csv.gz") == "aep_hourly"
    assert composed("data=csv", "data.path=/a/aep_hourly.csv.gz", "data.name=mine") == "mine"
    assert composed("data=etth1", "data.path=/a/mine.csv") == "etth1"


def test_the_folder_is_called_by_the_file_and_auto_finds_it_again(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiny_run.path.parent.name == "hours"
    source = write(tmp_path / "aep_hourly.csv", hourly(300))
    config = quick(tmp_path / "outputs", "data=csv", f"data.path={source}", "training.max_steps=1")
    assert config["data"]["name"] is None
    run, result = train(config)
    assert run.path.parent.name == result["data"]["name"] == "aep_hourly"
    assert capsys.readouterr().out.startswith("aep_hourly: ")
    for again in (changed(config, resume="auto"), changed(config, resume=str(run.path))):
        assert train(again)[0].path == run.path
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["aep_hourly"]


def test_a_name_is_required_without_a_path() -> None:
    config = quick(Path("outputs"))
    with pytest.raises(InputError, match=r"^data.name=null: set a name"):
        train(changed(config, data__name=None))


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("data=/path/my.csv", "data=csv data.path=/path/my.csv"),
        ("data=my.csv.gz", "data=csv data.path=my.csv.gz"),
        ("data=~/a b.parquet", "data=csv 'data.path=\"~/a b.parquet\"'"),
        ("resume=outputs/etth1/2026,", "ends in a comma: use resume=outputs/etth1/2026"),
    ],
)
def test_a_word_that_means_another_names_it(word: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        check_words(["horizon=24", word])
    assert str(caught.value).startswith(f"{word}: ")
    assert str(caught.value).endswith(meant)


def test_sets_of_data_and_folders_are_words_as_they_are() -> None:
    check_words(["data=etth1", "data=etth1,etth2", "data=csv", "data.path=/a/b.csv", "resume=auto", "resume=a,b"])
