from pathlib import Path

import pytest

from benchmarks.accuracy.record import Record
from benchmarks.accuracy.tables import BEGIN, EMPTY, END, tables, write_tables
from forecast.common.errors import InputError
from tests.benchmarks.accuracy.made import row

SEEDS = [row(mse, seed=seed) for seed, mse in (("1", 0.36), ("2", 0.37), ("3", 0.38))]
BEST = "| best published, not run here | 0.351 (SegRNN) | 0.390 (SegRNN) | 0.414 (DUET) | 0.426 (SRSNet) | 0.395 |  |"


def lines(*rows: Record) -> list[str]:
    return tables(rows).splitlines()


def cells(text: list[str], label: str) -> list[str]:
    (found,) = [line for line in text if line.startswith(f"| {label} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def test_an_empty_record_is_one_sentence() -> None:
    assert tables([]) == EMPTY


def test_a_cell_has_mean_spread_and_number_of_seeds_and_is_empty_without_runs() -> None:
    text = lines(*SEEDS, row(0.4, attention="probsparse"))
    assert text[0] == ("**ETTh1**, look-back 512, all 2,785 test windows, MSE / MAE on z-scores:")
    assert text[2:4] == ["| forecast | 96 | 192 | 336 | 720 | mean | machine |", "|---|---|---|---|---|---|---|"]
    assert cells(text, "`full`") == ["0.370 ± 0.0100 / 0.420 ± 0.0100 (3)", "", "", "", "", "AMD EPYC"]
    assert cells(text, "`probsparse`")[0] == "0.400 / 0.450"
    assert cells(text, "linear (ridge)") == ["0.500 / 0.600", "", "", "", "", "AMD EPYC"]
    assert BEST in text
    assert not [line for line in text if "everywhere" in line or "ladder" in line or "ETTh2**" in line]


def test_rows_are_in_order_with_controls_and_averages() -> None:
    others = [row(0.4, attention=name) for name in ("mean", "taylor", "efficient")]
    apart = [row(0.45, attention="mean", recipe="mean_everywhere"), row(0.35, seed="1+2+3", recipe="ensemble")]
    text = lines(*others, *apart, *SEEDS)
    labels = [line.split(" | ")[0][2:] for line in text if line.startswith("| ")][1:]
    assert labels == [
        *("linear (ridge)", "`full`", "`full`, forecasts of three seeds averaged", "`efficient`", "`taylor`"),
        *("`mean`, the control", "`mean` everywhere", "best published, not run here"),
    ]
    assert cells(text, "`full`, forecasts of three seeds averaged")[0] == "0.350 / 0.400"
    assert cells(text, "`full`")[0].startswith("0.370")  # the average of forecasts is not one of the seeds


def test_full_has_a_line_of_its_own_for_the_machine_of_the_other_mechanisms() -> None:
    own = row(0.37, dataset="ettm1", recipe="gpu", machine="NVIDIA H200")
    text = lines(row(0.36, dataset="ettm1"), own, row(0.4, dataset="ettm1", attention="linear"))
    assert cells(text, "`full` on a GPU, as the others")[0] == "0.370 / 0.420"
    assert cells(text, "`full`")[0] == "0.360 / 0.410"
    assert not [line for line in lines(row(0.36, dataset="ettm1")) if "`full` on" in line]


def test_a_row_names_each_processor_once_without_threads_and_trade_marks() -> None:
    names = ["Intel(R) Xeon(R) Processor, 1 threads", "Intel(R) Xeon(R) Processor, 2 threads", "NVIDIA H100 80GB HBM3"]
    text = lines(*(row(0.3, seed=str(seed), machine=name) for seed, name in enumerate(names)))
    assert cells(text, "`full`")[-1] == "Intel Xeon, NVIDIA H100"


def test_a_line_has_the_mean_only_if_every_horizon_has_a_run() -> None:
    whole = [row(mse, horizon=horizon) for mse, horizon in ((0.3, 96), (0.4, 192), (0.5, 336), (0.6, 720))]
    text = lines(*whole)
    assert cells(text, "`full`")[-2] == "0.450 / 0.500"
    assert cells(text, "linear (ridge)")[-2] == "0.500 / 0.600"
    assert cells(lines(*whole[:3]), "`full`")[-2] == ""


def test_full_is_compared_with_the_ridge_over_the_cells_with_runs() -> None:
    rows = [*SEEDS, row(0.53, horizon=192), row(0.2, dataset="pjme"), row(0.1, attention="mean", horizon=336)]
    assert lines(*rows)[-1] == (
        "`full` and the ridge over 2 cells of ETTh1 and ETTh2: "
        "mean MSE 0.4500 and 0.5000, `full` lower in 1. Mean MAE 0.5000 and 0.6000, `full` lower in 2."
    )
    assert "PJM East" in tables(rows)
    alike = row(0.5 * (1 - 1e-12), attention="full", horizon=720)
    assert "`full` lower in 1. Mean MAE" in lines(*rows, alike)[-1]  # the ridge, summed in another order


def test_the_attention_table_has_a_line_per_variant_and_a_column_per_mechanism() -> None:
    rows = [
        row(0.36),
        row(0.37, attention="mean"),
        row(0.4, recipe="no_linear_path"),
        row(0.41, attention="probsparse", recipe="no_linear_path"),
        row(0.5, attention="mean", recipe="no_linear_path_mean_everywhere"),
        row(0.39, attention="mean", recipe="mean_everywhere"),
        row(0.42, horizon=192),
    ]
    text = lines(*rows)
    assert "| run | `full` | `probsparse` | `mean` | `mean` everywhere |" in text
    assert cells(text, "ETTh1-96, the data set's recipe") == ["0.360", "", "0.370", "0.390"]
    assert cells(text, "ETTh1-96, without the linear path") == ["0.400", "0.410", "", "0.500"]
    assert not [line for line in text if line.startswith("| ETTh1-192")]


def test_the_ladder_has_the_steps_that_were_run_and_ends_at_the_recipe() -> None:
    rounded = row(0.88, attention="probsparse", recipe="ladder_informer", precision="bf16-mixed")
    steps = [row(0.85, recipe="ladder_informer"), rounded]
    text = lines(*SEEDS, *steps, row(0.42, recipe="ladder_channels"))
    ladder = text[text.index("| change | attention | MSE | MAE | validation MSE | minutes | machine |") + 2 :]
    assert [line.split(" | ")[1:3] for line in ladder] == [
        ["`full`", "0.850"],
        ["`probsparse`", "0.880"],
        ["`full`", "0.420"],
        ["`full`", "0.360"],
    ]
    assert ladder[2].startswith("| + independent channels | ")
    assert ladder[0].endswith(" | 1.5 | AMD EPYC |")
    assert ["in bf16" in line for line in ladder] == [False, True, False, False]


def test_a_file_gets_the_tables_between_its_marks(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_tables(file, SEEDS)
    assert file.read_text(encoding="utf-8") == f"before\n{BEGIN}\n{tables(SEEDS)}\n{END}\nafter\n"


def test_a_file_without_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        write_tables(tmp_path / "none.md", SEEDS)
    (tmp_path / "notes.md").write_text("no marks\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no place for the tables"):
        write_tables(tmp_path / "notes.md", SEEDS)
