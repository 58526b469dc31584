"""How much of what authors write runs as it was written."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grundlag_bus import Bus, connect, testing
from grundlag_bus.demo import registry
from tests.support.corpus import CorpusScript, corpus

CORPUS = corpus()
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

BEYOND_THE_LANGUAGE = {
    "029_dataclass_records": "dataclasses.asdict",
    "053_re_sub_function": "a function as the replacement of re.sub",
    "069_first_common_slot": "fractions in a timedelta",
    "080_reduce_and_partial": "methods of builtin types as functions (str.strip)",
    "083_parse_ics_duration": "re.VERBOSE",
    "084_workdays_between": "date.isocalendar",
    "086_state_machine": "Literal outside of annotations",
}
"""The scripts that do not run, and what each needs."""


@pytest.fixture(params=["kept", "replayed"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    async with connect(registry(tmp_path)) as opened:
        if request.param == "kept":
            yield opened
            return
        with testing.forced_replay():
            yield opened


@pytest.mark.parametrize("script", CORPUS, ids=lambda script: script.name)
async def test_a_script_runs_as_it_was_written(bus: Bus, script: CorpusScript) -> None:
    complaint = await script.complaint(await bus.to_tools())
    if script.name in BEYOND_THE_LANGUAGE:
        assert complaint is not None, "it runs: take it from the list, and tell so in the README"
    else:
        assert complaint is None


def test_the_readme_tells_the_figure() -> None:
    running = len(CORPUS) - len(BEYOND_THE_LANGUAGE)
    assert running >= 0.85 * len(CORPUS)
    (told,) = re.findall(r"(\d+) of (\d+) scripts", README)
    assert (int(told[0]), int(told[1])) == (running, len(CORPUS))
