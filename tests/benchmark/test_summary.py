import pytest
import torch

from forecast.attention._parsing import parse
from forecast.benchmark.measure import Measured
from forecast.benchmark.report import rows_of, summarise, sweeps_of
from forecast.common.timing import Spread
from tests.benchmark.made import FACTS, LIMITS, case, sweep_rows

LENGTHS = (16, 32, 64, 128, 256)
QUADRATIC = {length: length**2 / 1e3 for length in LENGTHS}
LINEAR = {length: 64 * length / 1e3 for length in LENGTHS}


def test_a_row_compares_its_median_with_the_fused_softmax_and_the_limits() -> None:
    fused = Measured(case("full"), Spread.of([0.001, 0.002, 0.009]), 4096)
    other = Measured(case("linear"), Spread.of([0.004]), 8192)
    _, row = rows_of([fused, other], LIMITS, torch.float32, FACTS)
    assert row["times_fused"] == pytest.approx(2)
    assert (row["median_ms"], row["repetitions"], row["peak_bytes"]) == (4.0, 1, 8192)
    # 2 heads × (4 L E² + 3 L E) and 4 × L × 2 × E floats in 4 ms, at 10⁹ per second
    assert row["share_of_product"] == pytest.approx(2 * (4 * 16 * 64 + 3 * 16 * 8) / 4e6)
    assert row["share_of_copy"] == pytest.approx(4 * 16 * 2 * 8 * 4 / 4e6)
    assert (row["machine"], row["product_gflops"], row["copy_gbs"]) == ("a machine", 1.0, 1.0)


def test_a_skipped_case_has_a_reason_and_no_numbers() -> None:
    fused = Measured(case("full"), skipped="memory: none left")
    other = Measured(case("linear"), Spread.of([0.004]), 8192)
    skipped, row = rows_of([fused, other], LIMITS, torch.float32, FACTS)
    assert skipped["skipped"] == "memory: none left"
    assert {skipped[key] for key in ("median_ms", "mean_ms", "peak_bytes", "times_fused", "repetitions")} == {None}
    assert row["times_fused"] is None


def test_sweeps_are_separated_by_passes_and_causality() -> None:
    rows = sweep_rows({"full": QUADRATIC}) + sweep_rows({"full": QUADRATIC}, backward=True)
    rows += sweep_rows({"full": QUADRATIC}, causal=True)
    assert [sweep.title for sweep in sweeps_of(rows)] == ["forward", "forward+backward", "forward, causal"]
    assert all(len(sweep.rows) == len(LENGTHS) for sweep in sweeps_of(rows))
    assert not list(sweeps_of([row | {"table": "layer"} for row in rows]))


def test_the_summary_has_exponents_crossover_and_fractions_of_the_limits() -> None:
    (sweep,) = sweeps_of(
        sweep_rows({"full": QUADRATIC, "linear": LINEAR}, {length: 100 * length for length in LENGTHS})
    )
    line = summarise(sweep, parse("linear"), fit_from=32)
    assert (line["time_declared"], line["memory_declared"]) == ("O(L E²)", "O(E²)")
    for kind in ("time", "memory"):
        assert line[f"{kind}_expected"] == pytest.approx(1)
        assert line[f"{kind}_exponent"] == pytest.approx(1)
        assert (line[f"{kind}_fitted_from"], line[f"{kind}_fitted_to"]) == (32, 256)
    assert line["passes_fused_at"] == pytest.approx(64)
    assert (line["longest"], line["times_fused_at_longest"]) == (256, pytest.approx(0.25))
    fused = summarise(sweep, parse("full"), fit_from=32)
    assert (fused["time_exponent"], fused["time_expected"]) == (pytest.approx(2), pytest.approx(2))
    assert (fused["passes_fused_at"], fused["passes_fused"]) == (None, "")


def test_skipped_lengths_are_not_fitted() -> None:
    short = {length: LINEAR[length] for length in (16, 32)}
    (sweep,) = sweeps_of(sweep_rows({"full": QUADRATIC, "linear": short}))
    line = summarise(sweep, parse("linear"), fit_from=16)
    assert (line["time_exponent"], line["time_expected"], line["longest"]) == (None, None, 32)
    assert line["passes_fused"] == "not up to 32"


def test_a_mechanism_that_never_ran_has_a_summary() -> None:
    (sweep,) = sweeps_of(sweep_rows({"full": QUADRATIC, "linear": {}}))
    line = summarise(sweep, parse("linear"), fit_from=16)
    assert (line["longest"], line["times_fused_at_longest"], line["passes_fused"]) == (None, None, "not measured")
