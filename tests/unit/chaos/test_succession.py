import random
from dataclasses import replace

from grundlag_bus.chaos.history import Ended, Record
from grundlag_bus.chaos.succession import Legacy, Unfinished, take_over
from tests.support.made_up_calls import MadeUp


def test_the_first_caller_takes_over_nothing() -> None:
    assert take_over([]) == Legacy(1, (), ())


def test_what_has_ended_is_left_alone() -> None:
    assert take_over(MadeUp().records) == Legacy(2, (), ())


def test_what_may_be_called_again_is() -> None:
    assert take_over([MadeUp(kept=True).attempted]) == Legacy(2, (Unfinished(1),), ())
    assert take_over([MadeUp(kind="again").attempted]) == Legacy(2, (Unfinished(1),), ())


def test_what_may_not_be_called_again_has_ended() -> None:
    assert take_over([MadeUp().attempted]) == Legacy(2, (), ("c1",))


def test_a_question_that_was_not_answered_is() -> None:
    asked, first = asking()
    assert take_over(first) == Legacy(2, (Unfinished(1, asked.asks, "c1"),), ())


def test_an_answer_without_an_end_is_given_again_where_it_may_be() -> None:
    asked, first = asking(kept=True)
    answer = answering(kept=True)
    assert take_over([*first, answer]) == Legacy(2, (Unfinished(1, asked.asks, "c1"),), ())


def test_an_answer_without_an_end_has_ended_where_it_may_not_be_given_again() -> None:
    _, first = asking()
    assert take_over([*first, answering()]) == Legacy(2, (), ("c2",))


def test_the_order_of_records_does_not_matter() -> None:
    _, first = asking(kept=True)
    records = [*first, answering(kept=True), *MadeUp("c3", kept=True).records]
    for _ in range(10):
        shuffled = random.sample(records, len(records))
        assert take_over(shuffled) == take_over(records)


def asking(*, kept: bool = False) -> tuple[Ended, list[Record]]:
    made_up = MadeUp(kind="asking", kept=kept, how="interrupted")
    asked = made_up.ended(asks={"interruptId": "i", "state": "s"})
    return asked, [made_up.attempted, asked]


def answering(*, kept: bool = False) -> Record:
    return replace(MadeUp("c2", kind="asking", kept=kept).attempted, answers="c1")
