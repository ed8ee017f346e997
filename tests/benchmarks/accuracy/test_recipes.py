import shlex
from collections.abc import Iterator
from itertools import product

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from benchmarks.accuracy.recipes import ENDS, FEW, FINE, HORIZONS, Cell, all_cells, sweep_words, sweeps
from forecast.attention import available
from forecast.common.conf_files import configuration_folder


def of(cells: list[Cell], turn: int) -> set[Cell]:
    return {cell for cell in cells if cell.turn == turn}


def test_full_comes_first_everywhere_then_the_others_at_both_ends_and_averages_last() -> None:
    cells = all_cells()
    assert [cell.turn for cell in cells] == sorted(cell.turn for cell in cells)
    everywhere = {(name, horizon) for name, horizons in HORIZONS.items() for horizon in horizons}
    first = [(cell.dataset, cell.horizon) for cell in cells[: len(everywhere)]]
    assert set(first) == everywhere
    assert {(cell.attention, cell.seed, cell.recipe) for cell in of(cells, 0)} == {("full", "1", "main")}
    second = of(cells, 1)
    assert {cell.attention for cell in second if cell.dataset == "etth1"} == {*available()} - {"full"}
    assert {cell.attention for cell in second if cell.dataset == "weather"} == {*FEW} - {"full"}
    assert all(cell.horizon in ENDS[cell.dataset] for cell in second)
    assert {(cell.attention, cell.seed) for cell in of(cells, 2)} == {("full", "2"), ("full", "3")}
    assert {cell.recipe for cell in of(cells, 5)} == {"ensemble"}


@pytest.mark.parametrize("dataset", FINE)
def test_a_data_set_with_many_rows_has_all_mechanisms_at_both_ends_with_the_same_seeds(dataset: str) -> None:
    for horizon in ENDS[dataset]:
        seeds = {"1", "2", "3"} if (dataset, horizon) == ("ettm1", 96) else {"1"}
        found: dict[tuple[str, str], set[str]] = {}
        for cell in all_cells():
            if (cell.dataset, cell.horizon) == (dataset, horizon):
                found.setdefault((cell.attention, cell.recipe), set()).add(cell.seed)
        assert found.pop(("full", "main")) == {"1"}
        own = {("full", "gpu")} if dataset != "weather" else set()  # all of Weather ran on a GPU
        others = {(name, "main") for name in FEW if name != "full"}
        assert found == dict.fromkeys(own | others | {("mean", "mean_everywhere")}, seeds)


def test_no_two_rows_share_a_key() -> None:
    cells = all_cells()
    assert len({cell.key for cell in cells}) == len(cells) > 100


def test_the_command_of_a_run_names_its_recipe() -> None:
    cell = Cell("etth1", 192, "full", "2", "main")
    assert cell.command == "python train.py experiment=etth1 horizon=192 attention=full seed=2"
    variant = Cell("etth1", 96, "mean", "1", "mean_everywhere")
    assert variant.command.endswith("attention=mean seed=1 attention@cross_attention=mean")


def test_an_average_is_of_the_main_runs_of_its_seeds() -> None:
    cell = Cell("etth2", 96, "full", "1+2+3", "ensemble")
    assert cell.members == [Cell("etth2", 96, "full", seed, "main") for seed in ("1", "2", "3")]
    assert cell.command.startswith("python -m benchmarks.accuracy --recipe ensemble --dataset etth2 --horizon 96")


def kinds() -> Iterator[Cell]:
    """Yield one run of each recipe and each data set."""
    seen: set[str] = set()
    for cell in all_cells():
        if not {cell.dataset, cell.recipe} <= seen and not cell.members:
            seen |= {cell.dataset, cell.recipe}
            yield cell


@pytest.mark.parametrize("cell", list(kinds()), ids=lambda cell: cell.name)
def test_every_command_composes_to_the_row_it_names(cell: Cell) -> None:
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        config = compose("config", shlex.split(cell.command)[2:])
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    found = (plain["data"]["name"], plain["horizon"], plain["attention"]["name"], str(plain["seed"]))
    assert found == (cell.dataset, cell.horizon, cell.attention, cell.seed)
    assert (plain["cross_attention"]["name"] == "mean") == cell.recipe.endswith("mean_everywhere")


def jobs(words: list[str]) -> set[tuple[str, str, str]]:
    """Return the horizon, mechanism and seed of each job of a sweep."""
    values = {}
    for name in ("horizon", "attention", "seed"):
        (word,) = [word for word in words if word.startswith(f"{name}=")]
        values[name] = word.partition("=")[2].removeprefix("choice(").removesuffix(")").split(",")
    return set(product(*values.values()))


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_the_sweeps_have_one_job_for_each_missing_run(step: int) -> None:
    cells = all_cells()[::step]
    groups = list(sweeps(cells))
    assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in cells)
    for group in groups:
        wanted = {member.key[1:4] for cell in group for member in cell.members or [cell]}
        assert jobs(sweep_words(group)) == wanted
    assert len(groups) < len(cells)


def test_a_sweep_has_the_words_of_its_recipe() -> None:
    cells = [Cell("etth2", horizon, "mean", "1", "mean_everywhere") for horizon in (96, 720)]
    average = Cell("pjme", 96, "full", "1+2+3", "ensemble")
    assert [sweep_words(group) for group in sweeps([*cells, average])] == [
        [
            *("experiment=etth2", "horizon=96,720", "attention=choice(mean)", "seed=choice(1)"),
            *("attention@cross_attention=mean", "sweep.name=mean_everywhere_etth2"),
        ],
        ["experiment=pjme", "horizon=choice(96)", "attention=choice(full)", "seed=1,2,3", "sweep.name=main_pjme"],
    ]
