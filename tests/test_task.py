from forecast.task import SEED_STRIDE, step_seed


def test_a_process_alone_and_the_one_that_leads_draw_the_same() -> None:
    assert [step_seed(3, step, rank=0) for step in (0, 1, 99)] == [3 * SEED_STRIDE + step for step in (0, 1, 99)]


def test_each_step_of_each_process_has_a_seed_of_its_own_in_the_32_bits_that_are_read() -> None:
    places = [(seed, step, rank) for seed in (0, 1, 2) for step in range(200) for rank in range(8)]
    assert len({step_seed(*place) % 2**32 for place in places}) == len(places)
