from __future__ import annotations

import pytest

from grundlag_bus import Completed, Failed, errors
from grundlag_bus.gateway.status import STATUS_OF, status_of


def codes() -> set[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CallError)]
    return {kind.code for kind in kinds}


def test_every_code_of_ours_has_a_status() -> None:
    assert codes() <= STATUS_OF.keys()


@pytest.mark.parametrize(("code", "status"), [("sold_out", 422), ("forbidden", 403), ("internal", 502)])
def test_a_code_that_is_not_ours_is_an_action_s(code: str, status: int) -> None:
    assert status_of(Failed(code, "")) == status


def test_what_completed_is_ok() -> None:
    assert status_of(Completed(1)) == 200
