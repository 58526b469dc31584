"""The public API: what stands in `__all__`, loaded when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import grundlag_bus

STUB = Path(grundlag_bus.__file__).with_suffix(".pyi")
NAMES: list[str] = vars(grundlag_bus)["__all__"]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(grundlag_bus, name) is not None


def test_names_are_sorted_and_stand_once() -> None:
    names = NAMES[1:]
    assert names == sorted(set(names))
    assert set(dir(grundlag_bus)) == set(NAMES)


def test_the_types_name_the_same() -> None:
    imported = {
        alias.asname or alias.name
        for statement in ast.parse(STUB.read_text()).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert imported == set(NAMES)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'grundlag_bus' has no attribute 'Nothing'"):
        grundlag_bus.Nothing  # type: ignore[attr-defined]  # noqa: B018  asking is the test


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter, and return the modules that it loads."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_that_is_installed() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("import grundlag_bus")}
    assert loaded - sys.stdlib_module_names == {"grundlag_bus"}


def test_tools_in_this_process_load_neither_broker_nor_database() -> None:
    loaded = loaded_by("from grundlag_bus import AgentRun, Provider, ProviderRegistry, ToolContext, connect, testing")
    assert {"pydantic", "grundlag_bus.providers.local"} <= loaded
    assert not {"aiormq", "aio_pika", "pamqp", "sqlalchemy", "alembic", "typer"} & loaded


def test_every_error_of_the_package_is_one_of_its_own() -> None:
    for name in NAMES:
        value = getattr(grundlag_bus, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, grundlag_bus.GrundlagError), name
    assert not issubclass(grundlag_bus.ToolInterrupt, Exception)
