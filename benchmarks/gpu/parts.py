"""The parts: each measures a group of the figures, on shapes of a GPU or on small ones."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO

import torch

from benchmarks.accuracy.record import key_of, read_record
from benchmarks.gpu import targets
from benchmarks.gpu.record import RECORDS, ROOT
from benchmarks.gpu.targets import TARGETS, Target
from benchmarks.gpu.timing import Clock, has_kernels, in_form
from benchmarks.models import Task, build_ours, our_peer, parse_preset
from benchmarks.step import measure_step
from benchmarks.whole_models import PAPER
from forecast.attention._parsing import parse
from forecast.benchmark.case import Case, Shape, prepare
from forecast.common.configuration import compose_words, plain_values
from forecast.common.errors import InputError
from forecast.evaluation.crossing import crossing
from forecast.training.steps import training_step
from forecast.training.train import train

HEADS, WIDTH = 8, 64
LONGEST_TESTS = 240
"""Seconds after which the tests are given up."""

QUICK = [
    *("context_length=48", "horizon=12", "model.patch_length=12", "model.d_model=8", "model.d_ff=16"),
    *("data=synthetic", "data.rows=700", "training.max_steps=20", "training.batch_size=16"),
    *("training.max_epochs=null", "training.evaluation_stride=12"),
]
"""Overrides of a small training."""


@dataclass(frozen=True)
class Bench:
    """Device, clock, and the sizes: those of the targets, or small ones."""

    device: torch.device
    clock: Clock
    small: bool

    def size(self, whole: int, small: int) -> int:
        """Return the size to measure."""
        return small if self.small else whole

    def attention(self, name: str, length: int, *, backward: bool, kernels: bool) -> Callable[[], object]:
        """Return a pass of a mechanism in bf16, batch 1, 8 heads of 64 (small: 2 heads of 16), in one of its forms."""
        heads, width = self.size(HEADS, 2), self.size(WIDTH, 16)
        shape = Shape(length, 1, heads, width, backward=backward)
        module = Case(parse(name), shape).build().to(self.device, torch.bfloat16)
        return in_form(prepare(module, *shape.draw(self.device, torch.bfloat16)), kernels)

    def train(self, *words: str) -> Mapping[str, float]:
        """Return the test MSE and the speed of a training on this device, whose run is not kept."""
        with tempfile.TemporaryDirectory() as folder:
            place = [f"output_dir={folder}", f"trainer.accelerator={'gpu' if self.device.type == 'cuda' else 'cpu'}"]
            fixed = ["training.progress=false", "logger=null", *(QUICK if self.small else [])]
            with redirect_stdout(StringIO()):
                _, result = train(plain_values(compose_words([*words, *place, *fixed])))
        return {"mse": result["test"]["scaled"]["mse"], **result["speed"]}


Values = Mapping[str, float]


@dataclass(frozen=True)
class Part:
    """A group of figures that are measured together, with an estimate of the seconds on a GPU."""

    targets: Sequence[Target]
    seconds: float
    measure: Callable[[Bench], Values]

    @property
    def label(self) -> str:
        """Name of the part and its cases."""
        return f"{self.targets[0].part}: {', '.join(target.case for target in self.targets)}"


def copy_share(name: str, bench: Bench) -> Values:
    """Measure a forward pass against an operation that reads query, key and value and writes the output."""
    length = bench.size(16_384, 64)
    shape = Shape(length, 1, bench.size(HEADS, 2), bench.size(WIDTH, 16))
    (query, key, value), _ = shape.draw(bench.device, torch.bfloat16)
    output = torch.empty_like(value)
    copy = partial(torch.addcmul, query, key, value, out=output)
    forward = bench.attention(name, length, backward=False, kernels=True)
    return {name: 1 / bench.clock.ratio(forward, copy)}


def against_plain(name: str, bench: Bench) -> Values:
    """Measure both passes in the kernels' form against the plain form."""
    if not has_kernels():
        raise InputError("this version has no kernels: nothing to compare")
    length = bench.size(16_384, 64)
    plain, kernels = (bench.attention(name, length, backward=True, kernels=form) for form in (False, True))
    return {name: bench.clock.ratio(plain, kernels)}


def crossings(passes: str, bench: Bench) -> Values:
    """Return the length from which each mechanism is faster than the fused softmax; infinite if it never is."""
    names = ("full", *targets.SUMS, "probsparse")
    lengths = (32, 64) if bench.small else (256, 512, 1024, 2048, 4096, 8192, 16_384)
    times: dict[str, dict[int, float]] = {name: {} for name in names}
    for length in lengths:
        build = partial(bench.attention, length=length, backward=passes == "both", kernels=True)
        for name, seconds in bench.clock.medians({name: build(name) for name in names}).items():
            times[name][length] = seconds
    found = {name: crossing(times[name], times["full"]) for name in names[1:]}
    return {f"{name}, {passes}": float("inf") if length is None else length for name, length in found.items()}


def long_step(bench: Bench) -> Values:
    """Measure a training step with one token a step, `linear` against `full`."""
    task = Task(bench.size(2880, 48), bench.size(96, 12), bench.size(8, 2), 1)
    preset = parse_preset(f"patch_informer:patch_length=1,level=window,d_model={bench.size(64, 16)}")
    peers = {name: our_peer(build_ours(preset, parse(name), task), task.draw(bench.device)) for name in FIRST_TWO}
    steps = {name: in_form(training_step(peer, "bf16"), kernels=True) for name, peer in peers.items()}
    return {"linear against full": bench.clock.ratio(steps["full"], steps["linear"])}


FIRST_TWO = ("full", "linear")


def compiled(bench: Bench) -> Values:
    """Train the default model with and without compiling; return the ratio of windows per second."""
    words = ["training.batch_size=512", "training.max_steps=400", "training.max_epochs=null"]
    eager, graphs = (bench.train(*words, f"training.compile={word}") for word in ("false", "true"))
    speed = "train_windows_per_s"
    return {"against eager": graphs[speed] / eager[speed], "recompilations": graphs["recompiles"]}


def product_share(bench: Bench) -> Values:
    """Measure a training step of the paper's model against its fastest matrix product."""
    task = Task(bench.size(720, 48), bench.size(168, 12), bench.size(32, 2), bench.size(7, 2))
    preset = parse_preset(f"{PAPER},d_model=16,d_ff=32" if bench.small else f"{PAPER},d_model=512")
    network = build_ours(preset, parse("full"), task)
    peer = our_peer(network, task.draw(bench.device))
    figures, _ = measure_step(network, peer, preset, "bf16", repetitions=bench.clock.rounds)
    return {"training step": figures.share}


def accuracy(name: str, bench: Bench) -> Values:
    """Train the recipe of ETTh1 at horizon 96 in bf16; return how far its test MSE is from the CPU's record."""
    key = ("etth1", "96", name, "1", "main")
    (row,) = [row for row in read_record(RECORDS / "accuracy" / "results.csv") if key_of(row) == key]
    words = [] if bench.small else ["experiment=etth1", "horizon=96"]
    trained = bench.train(*words, f"attention={name}", "seed=1", "training.precision=bf16-mixed")
    return {name: abs(trained["mse"] / float(row["test_mse"]) - 1)}


def gpu_tests(bench: Bench) -> Values:
    """Run the tests marked for a GPU; return the number of failures."""
    words = ["-m", "gpu", "--all", "-q", "-p", "no:cacheprovider", "--tb=line"]
    if bench.small:
        words += ["tests/training/test_finite.py"]
    command = [sys.executable, "-m", "pytest", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_TESTS)
    if ran.returncode > 1:  # neither passed nor failed
        raise InputError(f"pytest ended with code {ran.returncode}: {ran.stdout[-150:]}")
    return {"failures": float(sum(line.startswith(("FAILED", "ERROR")) for line in ran.stdout.splitlines()))}


def parts() -> Iterator[Part]:
    """Yield the parts, the most important first."""

    def of(part: str, *cases: str) -> list[Target]:
        return [target for target in TARGETS if target.part == part and (not cases or target.case in cases)]

    yield Part(of(targets.TESTS), 90, gpu_tests)
    for name in targets.SUMS:
        yield Part(of(targets.COPY, name), 10, partial(copy_share, name))
    for name in targets.SUMS:
        yield Part(of(targets.BOTH, name), 15, partial(against_plain, name))
    for passes in targets.PASSES:
        names = [f"{name}, {passes}" for name in (*targets.SUMS, "probsparse")]
        yield Part(of(targets.CROSSING, *names), 30, partial(crossings, passes))
    yield Part(of(targets.STEP), 15, long_step)
    yield Part(of(targets.COMPILED), 120, compiled)
    yield Part(of(targets.PRODUCTS), 15, product_share)
    for target in of(targets.ACCURACY):
        yield Part([target], 40, partial(accuracy, target.case))
