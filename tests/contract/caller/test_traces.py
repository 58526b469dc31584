"""Traces: a call belongs where its caller says, on every host, and so do the calls that its action makes."""

from __future__ import annotations

import pytest

from grundlag_bus import ToolContext, Trace
from tests.support.hosts import Host

TRACE = Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")


@pytest.mark.parametrize("action", ["trace", "traceWithin", "traceInThread"])
async def test_the_trace_of_a_call_is_that_of_its_action_and_of_what_it_calls(host: Host, action: str) -> None:
    assert await host.execute(action, {}, ToolContext(trace=TRACE)) == TRACE.to_json()


async def test_a_call_without_a_trace_has_none_after_one_with_a_trace_either(host: Host) -> None:
    await host.execute("trace", {}, ToolContext(trace=TRACE))
    assert await host.execute("trace") is None
