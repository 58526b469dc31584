from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grundlag_bus.cli.registries import load_registry
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.registry import ProviderRegistry

MODULE = """
from grundlag_bus import ProviderRegistry

registry = ProviderRegistry()
number = 3

def made(revision=7):
    return ProviderRegistry(revision=revision)

async def awaited():
    return registry

def needs(settings):
    return registry

def wrong():
    return {"registry": registry}

def breaks():
    return {}["nowhere"]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's, in the current directory, under a name that no other test loaded."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return name


def write(module: str, source: str) -> None:
    Path(f"{module}.py").write_text(source)


@pytest.mark.parametrize("name", ["registry", "made", "awaited"])
async def test_a_registry_and_what_returns_one_are_taken(module: str, name: str) -> None:
    assert isinstance(await load_registry(f"{module}:{name}"), ProviderRegistry)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("number", "is of type int and no ProviderRegistry"),
        ("wrong", "returns a value of type dict and no ProviderRegistry"),
        ("needs", r"cannot be called without arguments \(missing a required argument: 'settings'\)"),
        ("breaks", r"mine_\w+\.py:20 raises KeyError \('nowhere'\)"),
        ("registri", "did you mean registry"),
    ],
)
async def test_anything_else_is_refused_by_what_it_is(module: str, name: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        await load_registry(f"{module}:{name}")


@pytest.mark.parametrize("spec", ["", "a", "a:", ":b", "a/b.py:c", "..a:b", "a b:c"])
async def test_what_is_no_module_and_name_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="module:name"):
        await load_registry(spec)


async def test_a_module_that_is_missing_and_one_that_misses_another_are_told_apart(module: str) -> None:
    write("misses", "import nowhere_at_all\n")
    with pytest.raises(ConfigurationError, match="There is no module 'nowhere_at_all'"):
        await load_registry("nowhere_at_all.sub:registry")
    with pytest.raises(ConfigurationError, match=r"misses\.py:1 raises ModuleNotFoundError"):
        await load_registry("misses:registry")


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("def f(:\n", r"\.py:1 raises SyntaxError"),
        ("import sys\nsys.exit(3)\n", r"\.py:2 raises SystemExit"),
        ("import json\n\njson.loads('{')\n", r"\.py:3 raises JSONDecodeError"),
        ("from grundlag_bus import Provider\nProvider('a b', name='A')\n", r"\.py:2 raises ConfigurationError"),
    ],
)
async def test_the_line_of_the_users_own_file_is_named_whoever_raised(module: str, source: str, place: str) -> None:
    name = f"broken_{module}"
    write(name, source)
    with pytest.raises(ConfigurationError, match=name + place):
        await load_registry(f"{name}:registry")
