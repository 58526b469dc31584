from __future__ import annotations

from grundlag_bus import errors
from grundlag_bus.telemetry.labels import CODES, OTHER, Bounded


def test_the_codes_are_those_of_every_error_that_a_call_may_end_with() -> None:
    def below(kind: type[errors.CallError]) -> set[str]:
        return {code for each in kind.__subclasses__() for code in ({getattr(each, "code", "")} | below(each))}

    assert below(errors.CallError) - {""} <= CODES


def test_what_is_known_and_the_first_others_keep_their_label_and_the_rest_share_one() -> None:
    bounded = Bounded(["a"], most=2)

    assert [bounded.of(text) for text in ("b", "c", "d", "b", "a", "e", "c")] == ["b", "c", OTHER, "b", "a", OTHER, "c"]
