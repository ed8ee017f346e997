"""The peers benchmark: our Informer with ProbSparse attention beside that of `transformers`, in one run."""

from argparse import Namespace
from collections.abc import Sequence

from forecast.benchmark.machine import open_folder


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together, or transformers is not installed; nothing is written then.
    """
    import torch

    from forecast.attention._parsing import configured, parse
    from forecast.benchmark.contest import PASSES, hold, rows_of
    from forecast.benchmark.machine import facts_of
    from forecast.benchmark.models import Task, build_ours, our_peer, parse_preset
    from forecast.benchmark.peer_sheets import differences_of, peer_sheets
    from forecast.benchmark.report import CASES, heading_of, tell, write_record, write_unfinished
    from forecast.benchmark.request import choose_device
    from forecast.benchmark.theirs import build_theirs, configuration_of, their_peer, version
    from forecast.common.progress import progress
    from forecast.common.tables import Row

    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    preset, attention, installed = parse_preset(options.model), parse("probsparse"), version()
    tasks = [Task(past, horizon, options.batch, options.channels) for past, horizon in options.windows]
    theirs = [configuration_of(preset, attention.arguments["factor"], task) for task in tasks]
    ours = [build_ours(preset, attention, task) for task in tasks]
    facts = {"transformers": installed, **facts_of(device, " and ".join(options.dtypes), arguments)}
    folder = open_folder(options.output)
    rows: list[Row] = []
    with progress(len(tasks) * len(PASSES), quiet=options.quiet) as (say, advance):
        for task, network, configuration in zip(tasks, ours, theirs, strict=True):
            drawn = task.draw(device)
            peers = our_peer(network, drawn), their_peer(build_theirs(configuration), drawn)
            for passes in PASSES:
                say(f"{task.label}: {passes}")
                rows += [row | facts for row in rows_of(hold(task, passes, peers, options.dtypes, options.pairs))]
                write_unfinished(folder, rows)
                advance(1)
    sheets = list(peer_sheets(rows, differences_of(preset, theirs[0], configured("optimizer", "adamw"))))
    said = f"{options.pairs} pairs of passes, strictly in turn, their order turned with each round."
    write_record(folder, heading_of("Peers: the same model elsewhere", facts, said), sheets, {CASES: rows})
    tell(folder, sheets, quiet=options.quiet)
