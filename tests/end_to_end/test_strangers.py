"""An untrusted run folder runs no code, and reads, fetches and writes nothing elsewhere."""

import json
import os
import pickle
import shlex
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from forecast.common.configuration import compose_words
from forecast.common.errors import InputError, Interrupted
from forecast.common.targets import resolve_name
from forecast.data.sources import described_data, resume_command, resume_words
from forecast.report.__main__ import main as report
from forecast.runs.integrity import NAMES, check_stored
from forecast.runs.summary import summary
from forecast.training.command_line import main
from forecast.training.task import ForecastTask
from forecast.training.train import train
from tests.report.made import result_of, write_run
from tests.support.small import changed, compose, hourly, quick, snapshot, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")

PAYLOAD = "open({mark!r}, 'w').close()\nfrom lightning.pytorch.callbacks import Callback\n\n\nclass X(Callback): pass\n"


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the list of requested addresses; every request fails."""
    requests: list[object] = []

    def refuse(_: object, address: object, *__: object, **___: object) -> None:
        requests.append(address)
        raise OSError("no requests in this test")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    return requests


def folder_of(place: Path, **values: Any) -> Path:
    """Write and return a started run folder with a changed configuration."""
    folder = place / "outputs" / "evil"
    folder.mkdir(parents=True)
    content = changed(quick(place / "outputs"), **values)
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def resume(folder: Path, *words: str) -> dict[str, Any]:
    """Resume a folder as `python train.py resume=<folder> <words>` does."""
    named = [f"resume={folder}", *words]
    return train({**compose(*named), "output_dir": str(folder.parent)}, overrides=named)[1]


# --- code


@pytest.mark.parametrize("where", ["callbacks__x", "optimizer", "scheduler", "logger"])
def test_nothing_that_a_folder_names_is_imported(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "PWNED"
    folder = folder_of(tmp_path, **{where: {"_target_": "outputs.evil.payload.X"}})
    (folder / "payload.py").write_text(PAYLOAD.format(mark=str(mark)))
    monkeypatch.syspath_prepend(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"_target_=outputs\.evil\.payload\.X: a folder may name") as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
    assert not mark.exists()
    assert not [name for name in sys.modules if name.startswith("outputs")]
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("group", "node"),
    [
        ("optimizer", {"_target_": "torch.optim.AdamW", "lr": {"_target_": "os.getpid"}}),
        ("optimizer", {"_target_": "torch.optim.AdamW", "_args_": [1]}),
        ("optimizer", {"_target_": "torch.optim.Optimizer"}),
        ("scheduler", {"_target_": "forecast.training.schedule.deepcopy"}),
        ("logger", {"_target_": "lightning.pytorch.loggers.CSVLogger"}),
        ("logger", {"_target_": []}),
        ("callbacks", {"x": {"_target_": "lightning.pytorch.callbacks.OnExceptionCheckpoint", "dirpath": "/"}}),
        ("callbacks", {"x": 1}),
        ("attention", {"name": "full", "x": [{"_target_": "os.getpid"}]}),
    ],
)
def test_a_folder_may_name_classes_of_the_closed_list_only(group: str, node: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=group):
        check_stored({**compose(), group: node}, Path("config.json"))


def test_the_closed_list_has_all_defaults_and_every_name_exists() -> None:
    for words in ([], ["scheduler=cosine"], ["scheduler=halving"], ["optimizer._target_=torch.optim.SGD"]):
        check_stored(compose(*words), Path("config.json"))
    for name in sorted(set.union(*map(set, NAMES.values()))):
        assert callable(resolve_name(name))


def test_the_command_line_may_replace_a_class_of_the_folder(tmp_path: Path) -> None:
    target = "lightning.pytorch.loggers.CSVLogger"
    folder = folder_of(tmp_path, logger={"_target_": "mlflow.Logger", "name": "../../escaped"})
    words = [f"logger._target_={target}", "+logger.name=csv", "training.max_steps=1"]
    result = resume(folder, *words)
    assert result["config"]["logger"] == {"_target_": target, "name": "csv"}
    assert (folder / "csv").is_dir()


# --- places


@pytest.mark.parametrize("name", ["../../../ESCAPED", "/ESCAPED", "${oc.env:MY_SECRET_TOKEN}"])
@pytest.mark.parametrize("kind", ["CSVLogger", "TensorBoardLogger"])
def test_a_folder_s_logger_writes_nowhere_and_reads_no_environment(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "secret")
    place = tmp_path / "deep" / "er"
    folder = folder_of(place, logger={"_target_": f"lightning.pytorch.loggers.{kind}", "name": name})
    before = snapshot(tmp_path)
    with pytest.raises(InputError) as caught:
        resume(folder, "training.max_steps=1")
    assert "secret" not in str(caught.value)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("place", ["data__name", "optimizer__lr", "output_dir", "data__targets"])
def test_no_interpolation_of_a_folder_is_resolved(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "secret")
    text = "${oc.env:MY_SECRET_TOKEN}"
    folder = folder_of(tmp_path, **{place: [text] if place == "data__targets" else text})
    with pytest.raises(InputError, match="interpolations of a run folder are not resolved") as caught:
        resume(folder)
    assert text in str(caught.value)


def test_an_interpolation_of_an_absent_variable_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, output_dir="${oc.env:ABSENT}")
    with pytest.raises(InputError, match="interpolations"):
        resume(folder)


# --- data


@pytest.mark.parametrize("name", ["../../x/sitecustomize.py", "/ABSENT/authorized_keys", "..", "a/b.csv", "own.csv"])
def test_no_address_of_a_folder_is_requested_and_nothing_is_written_elsewhere(
    name: str, tmp_path: Path, requested: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    evil = {"path": None, "file_name": name, "url": "https://127.0.0.1:9/x", "sha256": "0" * 64}
    folder = folder_of(tmp_path, data={**compose("data=csv", "data.path=x")["data"], **evil})
    before = snapshot(tmp_path)
    with pytest.raises(InputError) as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
    assert requested == []
    assert snapshot(tmp_path) == before


def test_the_address_of_a_preset_comes_from_conf_only(requested: list[object], tmp_path: Path) -> None:
    preset = compose("data=etth1")["data"]
    for change, url in [
        ({}, preset["url"]),
        ({"url": "https://127.0.0.1:9/x"}, preset["url"]),
        ({"sha256": "0" * 64}, None),
        ({"file_name": "ETTh2.csv"}, None),
        ({"name": "../etth1"}, None),
    ]:
        assert described_data({**preset, **change}, tmp_path, str)["url"] == url
    assert requested == []


@pytest.mark.parametrize("kind", ["absolute", "dots", "link"])
def test_a_folder_reads_no_file_elsewhere_and_the_error_has_the_command_that_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "my hours.csv", hourly())
    link = tmp_path / "outputs" / "evil" / "input.csv"
    path = {"absolute": source, "dots": "data/../my hours.csv", "link": link}[kind]
    data = {**compose("data=csv", "data.path=x")["data"], "path": str(path)}
    folder = folder_of(tmp_path, data=data, training__max_steps=1)
    link.symlink_to(source)
    with pytest.raises(InputError) as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(f": {resume_command(folder, str(path))}")


def test_a_file_in_the_data_folder_or_run_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = compose("data=csv", "data.path=x")["data"]
    for place in ("data", "named", "run"):
        Path(place).mkdir()
        Path(place, "my.csv").touch()
    monkeypatch.setenv("FORECAST_DATA_DIR", "named")
    Path("data", "link.csv").symlink_to(tmp_path / "elsewhere.csv")  # the user's own
    for path in ("data/my.csv", str(tmp_path / "named" / "my.csv"), "run/my.csv", "data/link.csv"):
        assert described_data({**data, "path": path}, Path("run"), str)["path"] == path
        assert resume_words(Path("run"), {**data, "path": path}) == "resume=run"
    assert resume_words(Path("out/run"), {**data, "path": "my.csv"}) == "resume=out/run data.path=my.csv"


def test_a_run_on_a_file_elsewhere_is_resumed_by_the_printed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path / "my [hours].csv", hourly())
    data = compose("data=csv", "data.path=x", "data.past_covariates=[air]")["data"]
    folder = folder_of(tmp_path, data={**data, "path": "/moved.csv"}, training__max_steps=1)
    monkeypatch.setattr(sys, "argv", ["train.py", f"resume={folder}", f'data.path="{source}"'])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    result = json.loads((folder / "result.json").read_text())
    assert result["data"]["path"] == str(source)
    assert result["config"]["data"]["past_covariates"] == ["air"]
    assert result["command"].count("data=") == 0
    write(source, hourly(seed=1))
    with pytest.raises(SystemExit) as end:  # finished: the named file is compared with the recorded hash
        main()
    assert end.value.code == 2


@pytest.mark.parametrize(
    "name", ["my.csv", "a b.csv", 'a"b.csv', "a\\b.csv", "a\\", "[1],{2}.csv", "it's=1~.csv", "ü", "1.5", "nan", "NULL"]
)
def test_the_printed_command_quotes_the_file_name(name: str) -> None:
    *_, word = shlex.split(resume_command(Path("outputs/a"), name))
    assert compose_words(["data=csv", word]).data.path == name


def test_the_interrupt_message_names_folder_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    source = write(tmp_path / "hours.csv", hourly())
    step = ForecastTask.training_step

    def interrupted(self: ForecastTask, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 1:
            signal.raise_signal(signal.SIGTERM)
        return step(self, batch, batch_idx)

    monkeypatch.setattr(ForecastTask, "training_step", interrupted)
    with pytest.raises(Interrupted) as caught:
        train(quick(tmp_path / "outputs", "data=csv", f"data.path={source}"))
    (folder,) = (file.parent for file in (tmp_path / "outputs").rglob("config.json"))
    assert str(caught.value).endswith(f"resume={folder} data.path={source}")


# --- words for Hydra


class Marks:
    """Object that makes a folder when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize(
    "words",
    [
        ["--experimental-rerun", "{folder}/rerun.pickle"],
        ["--experimental-rer={folder}/rerun.pickle"],
        ["--hydra-help", "--experimental-rerun", "{folder}/rerun.pickle"],
        ["--config-path", "{folder}"],
        ["--config-name", "elsewhere"],
        ["-cp", "{folder}", "-cn", "elsewhere"],
        ["hydra.run.dir={folder}/elsewhere"],
        ["++hydra.run.dir={folder}/elsewhere"],
        ["hydra.output_subdir={folder}/elsewhere"],
        ["hydra.sweep.dir={folder}/elsewhere"],
        ["hydra.searchpath=[pkg://evil_configuration]"],
        ["+hydra.callbacks.x._target_=evil_configuration.X"],
        ["hydra.job_logging={{handlers: {{x: {{'()': evil_configuration.X}}}}}}"],
        ["hydra/job_logging=default"],
        ["hydra={{launcher: {{_target_: os.getpid}}}}"],
        ["-m", "seed=1,2", "hydra.launcher._target_=os.getpid"],
        ["-m", "seed=1,2", "hydra.sweeper._target_=os.getpid"],
        ["-m", "seed=1,2", "+hydra.launcher.more={{_target_: evil_configuration.X}}"],
        ["-m", "seed=1,2", "--config-dir", "{folder}", "+own=launcher"],
    ],
)
def test_an_option_that_makes_hydra_run_code_or_write_elsewhere_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rerun.pickle").write_bytes(pickle.dumps(Marks(str(tmp_path / "PWNED"))))
    (tmp_path / "evil_configuration").mkdir()
    (tmp_path / "evil_configuration" / "__init__.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "launcher.yaml").write_text("# @package _global_\nhydra: {launcher: {_target_: os.getpid}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", *(word.format(folder=tmp_path) for word in words)])
    with pytest.raises(SystemExit) as end:
        main()
    out, error = capsys.readouterr()
    assert (end.value.code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("error: ")
    assert snapshot(tmp_path) == before
    assert "evil_configuration" not in sys.modules


# --- names in reports


def test_a_name_makes_no_tag_link_or_picture_in_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", lambda _: [])
    name = "<script>alert(1)</script> ![x](https://127.0.0.1:9/x.png) `<b>` [x](javascript:x)"
    result = result_of(config={"data.name": name})
    write_run(tmp_path / "full", result)
    write_run(tmp_path / "linear", result_of("linear", config={"data.name": name}))
    assert report(["--runs", str(tmp_path), "--quiet"]) == 0
    page, text = ((tmp_path / f"report.{end}").read_text(encoding="utf-8") for end in ("html", "md"))
    for document in (page, text, summary(result)):
        assert "<b>" not in document
        assert document.count("<script>") == (document is page)
    for document in (text, summary(result)):
        assert "](https://127" not in document
        assert "](javascript" not in document


# --- missing packages


def test_a_logger_without_its_package_is_refused_in_one_line(tmp_path: Path) -> None:
    if find_spec("wandb") is not None:
        pytest.skip("wandb is installed")
    target = "lightning.pytorch.loggers.WandbLogger"
    with pytest.raises(InputError, match=f"^logger: {target}: .*wandb") as caught:
        train({**quick(tmp_path / "outputs", "training.max_steps=1"), "logger": {"_target_": target}})
    assert "\n" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.name not in ("outputs", "synthetic")] == []
