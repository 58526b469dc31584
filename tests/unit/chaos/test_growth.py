from grundlag_bus.chaos.growth import ENOUGH, Growth, growths
from grundlag_bus.chaos.history import Memory


def life(sizes: dict[int, int], *, process: str = "worker-1", number: int = 1) -> list[Memory]:
    return [Memory(0.0, process, number, calls, size) for calls, size in sizes.items()]


def test_it_goes_from_a_tenth_of_the_calls_to_all_of_them() -> None:
    samples = life({0: 50, 1000: 105, 1500: 100, 5000: 400, 9500: 110, 10_000: 130})
    assert growths(samples) == [Growth("worker-1", 10_000, 100, 110)]


def test_the_longest_life_of_a_process_tells() -> None:
    samples = [*life({0: 1, 10: 1, 100: 9}), *life({0: 1, 100: 2, 1000: 3}, number=2)]
    assert growths(samples) == [Growth("worker-1", 1000, 2, 3)]


def test_a_process_without_a_sample_at_a_tenth_tells_nothing() -> None:
    assert growths(life({0: 10, 1000: 20})) == []
    assert growths(life({0: 0, 10: 0, 100: 0})) == []


def test_growth_is_judged_where_there_were_calls_enough() -> None:
    assert Growth("a", ENOUGH, 100, 106).too_much
    assert not Growth("a", ENOUGH, 100, 105).too_much
    assert not Growth("a", ENOUGH - 1, 100, 200).too_much
