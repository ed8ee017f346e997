"""Show what larger tables cost: `python -m benchmarks.scale`, with `forecast`, `panel`, `memory` or `reading`.

`forecast --series 100000 --steps 512` trains a small model on short series with the same ids, and forecasts a folder of
long ones by each engine, with one worker and the driver killed on Ray. The CSV has the peak, the speed and the share of
the time in the model; the files of both engines must have the same bytes.

`panel --series 30490 --steps 1941` trains on one Parquet file of daily sales whose ids are codes of a dictionary, and
forecasts all of its series.

`memory --rows 2000000 --columns 64` trains on a folder of one series and forecasts it, under a limit of memory.
`reading` reads the same folder in this process, and computes what a training needs before its first step.
"""

import argparse
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecast.common.spreadsheet import csv_bytes
from forecast.data.datamodule import ForecastData
from forecast.data.large import read_large
from forecast.data.sources import Source
from forecast.data.storage import Placing
from forecast.evaluation.scoring import limits_of_data, units_of
from forecast.runs.run import WEIGHTS
from forecast.tables.reading import Reading
from forecast.tables.roles import Roles

SHARDS = 32
"""Files of a folder."""

TRAINED = 96
"""Steps of each series of the training."""

SMALL = (
    *("trainer=smoke", "context_length=48", "horizon=12", "model.d_model=32", "model.d_ff=64", "model.num_heads=4"),
    *("logger=csv", "training.progress=false", "training.evaluation_windows=2000"),
)

SALES = (
    *("context_length=56", "horizon=28", "model.d_model=32", "model.d_ff=64", "model.num_heads=4", "logger=csv"),
    *("training.max_epochs=null", "training.max_steps=500", "training.evaluation_stride=28", "training.progress=false"),
)

FEW_WINDOWS = ("training.batch_size=8", "training.evaluation_batch_size=8")
"""A batch of many columns takes more memory than the rest of a training."""

SMALL_HEAPS = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""Variables under which RLIMIT_DATA counts memory in use: Arrow's own pool reserves 1 GiB of addresses."""

PREDICT = """
import sys, time
from forecast.predict.panel import PanelForecaster
spent = [0.0]
def timed(method):
    def call(*given):
        start = time.perf_counter()
        found = method(*given)
        spent[0] += time.perf_counter() - start
        return found
    return call
PanelForecaster._quantiles = timed(PanelForecaster._quantiles)
from forecast.predict.__main__ import main
code = main(sys.argv[1:])
print("seconds in the model:", spent[0])
sys.exit(code)
"""
"""Program that forecasts in this process and prints the time in the model."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a measurement and write its rows; return 1 if bytes differ or a command fails."""
    options = _parser().parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = {"forecast": _forecast, "panel": _panel, "memory": _memory, "reading": _reading}[options.what](options)
    headings = list(dict.fromkeys(name for row in rows for name in row))
    options.output.write_bytes(csv_bytes(rows, headings))
    print(options.output.read_text())
    return int(any(row.get("same bytes") == "no" or row.get("exit code") not in ("0", None) for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", choices=("forecast", "panel", "memory", "reading"))
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--limit", type=int, help="RLIMIT_DATA in MiB of memory (default: a quarter of the table)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("outputs/scale"), help="folder of tables and forecasts")
    parser.add_argument("--output", type=Path, default=Path("scale.csv"))
    return parser


def series_files(folder: Path, series: int, steps: int) -> Path:
    """Write hourly series, each a daily cycle with noise, with their rows in the order of time in each file."""
    if folder.exists():
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for shard in range(SHARDS):
        random, ids = np.random.default_rng(shard), np.arange(shard, series, SHARDS)
        hours = np.arange(steps)[:, None]
        level, phase = random.uniform(10, 100, len(ids)), random.uniform(0, 24, len(ids))
        values = level * (1 + 0.3 * np.sin(2 * np.pi * (hours + phase) / 24)) + random.standard_normal(
            (steps, len(ids))
        )
        times = pd.date_range("2026-01-01", periods=steps, freq="h")
        columns = {"series": np.tile(ids, steps), "date": times.repeat(len(ids)), "load": values.round(3).ravel()}
        pd.DataFrame(columns).to_parquet(partial / f"{shard:03d}.parquet", index=False)
    return partial.rename(folder)


def sales_file(path: Path, series: int, days: int) -> Path:
    """Write daily counts of many items, one after the other, with a weekly cycle; the ids are codes of a dictionary."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    names = pa.array([f"item_{place:05d}" for place in range(series)])
    times = pa.array(pd.date_range("2011-01-29", periods=days).to_numpy().astype("datetime64[ms]"))
    random, week = np.random.default_rng(0), 1 + 0.4 * np.sin(2 * np.pi * np.arange(days) / 7)
    writer = None
    for places in np.array_split(np.arange(series, dtype=np.int32), SHARDS):
        sales = random.poisson(random.gamma(0.5, 3, len(places))[:, None] * week).astype(np.float32)
        ids = pa.DictionaryArray.from_arrays(pa.array(places.repeat(days)), names)
        rows = pa.table({"item": ids, "date": pa.chunked_array([times] * len(places)), "sales": sales.ravel()})
        writer = writer or pq.ParquetWriter(f"{path}.partial", rows.schema)
        writer.write_table(rows)
    assert writer is not None
    writer.close()
    return Path(f"{path}.partial").rename(path)


def wide_files(folder: Path, rows: int, columns: int) -> Path:
    """Write one series of many columns as files in the order of time."""
    if folder.exists():
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    times = pd.date_range("1990-01-01", periods=rows, freq="min")
    for shard, places in enumerate(np.array_split(np.arange(rows), SHARDS)):
        random = np.random.default_rng(shard)
        cycle = np.sin(2 * np.pi * places / 1440)[:, None] * np.arange(1, columns + 1)
        values = pd.DataFrame(cycle + random.standard_normal(cycle.shape)).add_prefix("load").astype(np.float32)
        values.insert(0, "date", times[places])
        values.to_parquet(partial / f"{shard:03d}.parquet", index=False, row_group_size=2**16)
    return partial.rename(folder)


def measured(
    command: Sequence[str], limit: int | None = None, kills: Callable[[], bool] | None = None
) -> dict[str, str]:
    """Run a command; return its seconds, its exit code, the peak of its RssAnon and its output.

    `limit` is RLIMIT_DATA in bytes. `kills` is called until it returns True, ten times a second.
    """

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    start, peak, wanted = time.perf_counter(), 0, kills is not None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=limited, start_new_session=True)
    while process.poll() is None:
        family = [process.pid] if kills is None else _family(process.pid)
        peak = max(peak, *map(anonymous_bytes, family))
        kills = None if kills is not None and kills() else kills
        time.sleep(0.1)
    output = process.communicate()[0]
    seconds = time.perf_counter() - start
    return {
        "seconds": f"{seconds:.1f}",
        "exit code": str(process.returncode),
        "peak MiB": f"{peak / 2**20:.0f}",
        **({"killed": "no" if kills else "yes"} if wanted else {}),
        "": output,
    }


def anonymous_bytes(process: int) -> int:
    """Return the anonymous memory of a process, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 2**10 for line in lines if line.startswith("RssAnon:")), 0)


def _family(root: int) -> list[int]:
    """Return a process and those that it started, also indirectly."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for number in found:
        found += [child for child, parent in parents.items() if parent == number]
    return found


def _forecast(options: argparse.Namespace) -> list[dict[str, str]]:
    folder, count = options.folder, options.series
    table = series_files(folder / f"in-{count}-{options.steps}", count, options.steps)
    short = series_files(folder / f"in-{count}-{TRAINED}", count, TRAINED)
    run = _trained(
        folder / f"run-{count}",
        short,
        *("data.id_columns=[series]", "data.targets=[load]", "data.split_by=date"),
        "data.split={train:72,validation:12,test:12}",
    )
    words = [sys.executable, "-c", PREDICT, "--run", str(run), "--input", str(table), "--output"]
    on_ray = ["--engine", "ray", "--workers", str(options.workers)]
    rows = []
    for name, more in (("local", []), ("ray", on_ray), ("ray, a worker and the driver killed", on_ray)):
        output = folder / f"out-{count}-{name.split(',')[0]}{'-killed' * ('killed' in name)}"
        shutil.rmtree(output, ignore_errors=True)
        row = {"engine": name, "series": str(count), "steps": str(options.steps)}
        if "killed" in name:
            driver = measured([*words, str(output), *more], kills=_kill_driver_of(output))
            row["driver killed"] = driver["killed"]
            row["files before"] = str(len(list(output.glob("part-*"))))
            found = measured([*words, str(output), *more], kills=_kill_worker_of(output))
        else:
            found = measured([*words, str(output), *more])
        if "killed" in found:
            row["worker killed"] = found.pop("killed")
        inside = found.pop("").rpartition("seconds in the model: ")[2].strip()
        row |= {**found, "series per second": f"{count / float(found['seconds']):.0f}"}
        if name == "local":
            row["share in the model"] = f"{float(inside) / float(found['seconds']):.0%}"
        digest = _digest(output)
        rows.append({**row, "files": str(len(list(output.glob("part-*")))), "sha256": digest})
        rows[-1]["same bytes"] = "yes" if digest == rows[0]["sha256"] else "no"
    return rows


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.glob("part-*")):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()[:16]


def _kill_driver_of(output: Path) -> Callable[[], bool]:
    """Return a function that kills the driver once a few files are there."""

    def kill() -> bool:
        drivers = [number for number in _family(os.getpid())[1:] if str(output).encode() in _command(number)]
        if len(list(output.glob("part-*"))) < 3 or not drivers:
            return False
        os.kill(drivers[0], signal.SIGKILL)
        return True

    return kill


def _kill_worker_of(output: Path) -> Callable[[], bool]:
    """Return a function that kills a worker once more files are there than before."""
    before: list[int] = []

    def kill() -> bool:
        files = len(list(output.glob("part-*")))
        before.append(files)
        workers = [number for number in _family(os.getpid()) if _command(number).startswith(b"ray::MapWorker")]
        if files < before[0] + 3 or not workers:
            return False
        os.kill(workers[0], signal.SIGKILL)
        return True

    return kill


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _trained(folder: Path, table: Path, *words: str, limit: int | None = None) -> Path:
    """Return the run of a training on a table, and train it if there is none."""
    if not (found := list(folder.rglob("manifest.json"))):
        words = ("data=csv", f"data.path={table}", *words, *SMALL, f"output_dir={folder}")
        end = measured([sys.executable, "train.py", *words], limit)
        if end["exit code"] != "0":
            raise SystemExit(f"training ended with {end['exit code']}: {end['']}")
        found = list(folder.rglob("manifest.json"))
    return found[0].parent


def _panel(options: argparse.Namespace) -> list[dict[str, str]]:
    """Train on one file of many series and forecast each of them."""
    table = sales_file(
        options.folder / f"sales-{options.series}-{options.steps}.parquet", options.series, options.steps
    )
    folder = options.folder / f"panel-{options.series}"
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["FORECAST_MAX_TABLE_MIB"] = "4096"
    words = ["data=csv", f"data.path={table}", "data.id_columns=[item]", "data.targets=[sales]", *SALES]
    facts = {"series": str(options.series), "steps": str(options.steps)}
    train = measured([sys.executable, "train.py", *words, f"output_dir={folder}"])
    rows = [{"step": "train", **facts, **train}]
    if found := list(folder.rglob("manifest.json")):
        command = ["-m", "forecast.predict", "--run", str(found[0].parent), "--input", str(table)]
        predict = measured([sys.executable, *command, "--output", str(folder / "next.parquet")])
        speed = {"series per second": f"{options.series / float(predict['seconds']):.0f}"}
        rows.append({"step": "forecast", **facts, **predict, **speed})
    for row in rows:
        row.pop("")
    return rows


def _memory(options: argparse.Namespace) -> list[dict[str, str]]:
    """Train on a folder and forecast it under the limit, then in memory without one; compare weights and forecasts."""
    table = wide_files(options.folder / f"wide-{options.rows}-{options.columns}", options.rows, options.columns)
    size = 8 * options.rows * options.columns
    limit = size // 4 if options.limit is None else options.limit * 2**20
    names = ",".join(f"load{place}" for place in range(options.columns))
    words = ["data=csv", f"data.path={table}", f"data.targets=[{names}]", *SMALL, *FEW_WINDOWS]
    words += ["data.split={train:0.98,validation:0.01,test:0.01}", "training.precision=32-true"]
    words += ["training.evaluation_stride=12"]
    last = sorted(table.glob("*.parquet"))[-1]
    os.environ |= SMALL_HEAPS
    rows = []
    for where, bound in (("mapped", limit), ("device", None)):
        folder = options.folder / f"{where}-{options.rows}-{options.columns}"
        shutil.rmtree(folder, ignore_errors=True)
        os.environ["FORECAST_MAX_TABLE_MIB"] = str(2 * size // 2**20 if bound is None else min(256, size // 2**21))
        facts = {"table MiB": f"{size / 2**20:.0f}", "limit MiB": "" if bound is None else f"{bound / 2**20:.0f}"}
        placed = [f"training.data_placement={where}", f"output_dir={folder}"]
        train = measured([sys.executable, "train.py", *words, *placed], bound)
        train.pop("")
        rows.append({"step": "train", "placement": where, **facts, **train})
        if found := list(folder.rglob("manifest.json")):
            rows[-1]["sha256"] = _sha256(found[0].parent / WEIGHTS)
            output = folder / "next.csv"
            command = ["-m", "forecast.predict", "--run", str(found[0].parent), "--input", str(last)]
            predict = measured([sys.executable, *command, "--output", str(output)], bound)
            predict.pop("")
            digest = _sha256(output) if output.is_file() else ""
            rows.append({"step": "forecast", "placement": where, **facts, **predict, "sha256": digest})
    for row in rows:
        digests = {other.get("sha256") for other in rows if other["step"] == row["step"]}
        row["same bytes"] = "yes" if len(digests) == 1 and "" not in digests else "no"
    return rows


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _reading(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return the growth of the anonymous memory of this process at each step before a training."""
    os.environ["FORECAST_MAX_TABLE_MIB"] = "16"
    table = wide_files(options.folder / f"wide-{options.rows}-{options.columns}", options.rows, options.columns)
    roles = Roles(targets=[f"load{place}" for place in range(options.columns)])
    placing, split = Placing("mapped", folder=options.folder), {"train": 0.8, "validation": 0.1, "test": 0.1}
    lengths = {"context_length": 48, "horizon": 12, "batch_size": 32, "evaluation_batch_size": 64, "seed": 1}
    base, peak, rows, stop = anonymous_bytes(os.getpid()), [0], list[dict[str, str]](), threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], anonymous_bytes(os.getpid()))

    def note(step: str) -> None:
        grown = max(0, peak[0] - base) / 2**20
        size = 8 * options.rows * options.columns / 2**20
        facts = {"rows": options.rows, "columns": options.columns, "table MiB": f"{size:.0f}"}
        rows.append({**{name: str(value) for name, value in facts.items()}, "step": step, "grown MiB": f"{grown:.0f}"})
        peak[0] = 0

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        series = read_large(table, roles, Reading())
        note("read")
        data = ForecastData(Source(series, roles, table), split, placing=placing, **lengths)  # type: ignore[arg-type]
        note("scale and write the windows")
        limits_of_data(data)
        units_of(data)
        data.training_range()
        note("limits, units and range")
    finally:
        stop.set()
        watcher.join()
    return rows


if __name__ == "__main__":
    sys.exit(main())
