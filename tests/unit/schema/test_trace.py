from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus.schema.trace import Trace

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("parent", [PARENT, PARENT[:-2] + "00", f"cc{PARENT[2:]}", f"cc{PARENT[2:]}-what-is-to-come"])
def test_a_traceparent_is_passed_on_as_it_is_also_one_of_a_version_to_come(parent: str) -> None:
    trace = Trace.of(parent)
    assert trace == Trace(parent)
    assert trace.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "parent",
    [
        None,
        7,
        "",
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        f"cc{PARENT[2:]}.more",
        f"cc{PARENT[2:]}-\x7f",
        PARENT.upper(),
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT[:-1],
        f" {PARENT}",
        f"{PARENT}\n",
        f"{PARENT}\r\nX-User-Id: eve",
        PARENT.replace("4", "\N{FULLWIDTH DIGIT FOUR}"),
    ],
)
def test_a_malformed_traceparent_is_dropped_with_its_state(parent: Any) -> None:
    assert Trace.of(parent, "rojo=1") is None
    assert Trace.from_json({"traceparent": parent, "tracestate": "rojo=1"}) is None


@pytest.mark.parametrize("data", [None, [], "x", {}, {"tracestate": "rojo=1"}])
def test_what_is_no_trace_is_none(data: Any) -> None:
    assert Trace.from_json(data) is None


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"),
        ("rojo=1 ,\tcongo=t61rcWkgMzE,", "rojo=1,congo=t61rcWkgMzE"),
        ("tenant@system=a b", "tenant@system=a b"),
        ("", None),
        (None, None),
        ("rojo", None),
        ("rojo=", None),
        ("rojo=1,Congo=2", None),
        ("rojo=a=b", None),
        ("rojo=1\r\nX-User-Id: eve", None),
        (",".join(f"k{number}=1" for number in range(33)), None),
        ("k=" + "x" * 200 + ",l=" + "x" * 200 + ",m=" + "x" * 200, None),
    ],
)
def test_a_malformed_state_is_left_out(state: Any, kept: str | None) -> None:
    assert Trace.of(PARENT, state) == Trace(PARENT, kept)


def test_it_is_read_as_it_is_written() -> None:
    for trace in (Trace(PARENT), Trace(PARENT, "rojo=1")):
        assert Trace.from_json(trace.to_json()) == trace
