from pathlib import Path

import pandas as pd
import pytest

from benchmarks.published.__main__ import main
from benchmarks.published.tables import (
    AS_OF,
    HEADLINE_BEGIN,
    HEADLINE_END,
    SCORES_BEGIN,
    SCORES_END,
    THIS,
    published,
    ranking,
    rows_of,
    standing,
    summary,
)
from tests.support.small import ROOT


def scores(model: str, recipe: str = "general") -> pd.DataFrame:
    """Return a record whose losses are those of a published model."""
    rows = published()
    own = rows[rows["model"] == model][["task", "SQL"]]
    return own.assign(
        recipe=recipe,
        training_minutes=10.0,
        forecast_minutes=0.5,
        times_scored=1,
        trainings_at_once=2,
        machine="a laptop, 1 threads",
    )


def test_the_same_losses_have_the_same_ratio_and_place() -> None:
    models = ranking(scores("PatchTST"), "general")
    assert models.loc[THIS, "ratio"] == pytest.approx(0.639, abs=5e-4)  # public_benchmarks: 0.639
    assert models.loc[THIS, "ratio"] == pytest.approx(models.loc["PatchTST", "ratio"])
    assert models.loc[THIS, "place"] == models.loc["PatchTST", "place"]
    assert models.loc[THIS, "hours"] == pytest.approx(1.5)
    assert models.loc["Seasonal Naive", "ratio"] == pytest.approx(1)
    assert "AutoARIMA" not in models.index  # it has eight of the tasks


def test_the_cores_are_those_of_all_trainings_at_once() -> None:
    assert f"| **{THIS}**, a laptop, 2 cores |" in standing(scores("PatchTST"), "general")
    assert f"| **{THIS}**, a GPU |" in standing(scores("PatchTST").assign(machine="a GPU"), "general")


def test_places_count_only_models_that_had_not_seen_the_data() -> None:
    rows = scores("TiRex-2")
    load = rows[rows["task"] == "proenfo_gfc14"]
    others = published()
    fair = others[(others["task"] == "proenfo_gfc14") & ~others["seen"]].set_index("model")["SQL"]
    assert ranking(load, "general").loc["Chronos-2", "place"] == 1 + (fair < fair["Chronos-2"]).sum() + 1
    assert pd.isna(ranking(load, "general").loc["Moirai-2.0", "place"])
    assert "| 1 of 27 |" in summary(load.assign(SQL=0.1))


def test_tasks_with_known_columns_have_the_scorings_of_general_in_a_recipe_that_starts_pretrained() -> None:
    general, joined = scores("DeepAR"), scores("TiRex-2", "joined")
    known = ["epf_np", "epf_de", "proenfo_gfc14"]
    own = rows_of(pd.concat([general, joined[~joined["task"].isin(known)]]), "joined")
    assert set(own[own["recipe"] == "general"]["task"]) == set(known)
    assert sorted(own["task"]) == sorted(general["task"])
    assert set(rows_of(pd.concat([general, joined]), "general")["recipe"]) == {"general"}


def test_a_later_scoring_is_a_column_beside_the_first_and_does_not_replace_it() -> None:
    first, later = scores("DeepAR"), scores("TiRex-2").assign(times_scored=2)
    both = pd.concat([first, later])
    ratio = ranking(later, "general").loc["this program", "ratio"]
    note = f" Each task counts with its first scoring; with the last, this program has {ratio:.3f}."
    assert standing(both, "general") == standing(first, "general") + note
    assert standing(both, "general", short=True) == standing(first, "general", short=True)
    rows, alone = summary(both).splitlines(), summary(first).splitlines()
    assert [line.split("|")[:9] for line in rows] == [line.split("|")[:9] for line in alone]
    assert [line.split("|")[9:11] for line in rows[2:]] == [[" 2 ", f" {loss:.3f} "] for loss in later["SQL"]]


def test_the_date_of_the_published_scores_is_in_the_index_and_below_both_tables() -> None:
    index = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in index.splitlines() if line.startswith("| `published/fev_bench.csv`")]
    assert f"| {AS_OF} |" in row
    for short in (False, True):
        assert f"Published scores as of {AS_OF}" in standing(scores("PatchTST"), "general", short=short)


def test_the_short_table_has_no_places() -> None:
    assert "place" in standing(scores("PatchTST"), "general")
    assert "place" not in standing(scores("PatchTST"), "general", short=True)


@pytest.mark.parametrize("model", ["TiRex-2", "PatchTST"])
def test_the_short_table_names_the_three_best_published_models_wherever_this_program_stands(model: str) -> None:
    short = standing(scores(model), "general", short=True)
    assert all(f"| {best} |" in short for best in ("TiRex-2", "Chronos-2", "TabPFN-TS-3"))
    assert f"| **{THIS}**" in short


def test_the_tables_are_written_between_their_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, page, short = tmp_path / "scores.csv", tmp_path / "page.md", tmp_path / "README.md"
    scores("PatchTST").to_csv(record, index=False)
    page.write_text(f"before\n{SCORES_BEGIN}\nold\n{SCORES_END}\nafter\n")
    short.write_text(f"{HEADLINE_BEGIN}\nold\n{HEADLINE_END}\n")
    for path in (page, short):
        assert main(["--write", str(path), "--record", str(record)]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| epf_np | general | 0.635 | 0.415 |" in text
    assert "| Moirai-2.0 † | 0.696 |" in text
    lines = short.read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")][1:] == [
        *("| TiRex-2", "| Chronos-2", "| TabPFN-TS-3", "| PatchTST", "| **this program**, a laptop, 2 cores"),
        *("| TFT", "| DeepAR", "| CatBoost", "| LightGBM", "| Seasonal Naive"),
    ]
    assert main(["--write", str(page), "--record", str(record), "--recipe", "defaults"]) == 2
    assert "has no row of defaults" in capsys.readouterr().err
