"""From `module:name` to a registry, and what is wrong when there is none."""

from __future__ import annotations

import difflib
import inspect
import sys
import sysconfig
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.registry import ProviderRegistry

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGE = str(Path(__file__).parents[1])


async def load_registry(spec: str) -> ProviderRegistry:
    """Return the registry that `module:name` names, or that the function of that name returns.

    The current directory is looked in first. Raises ConfigurationError, whatever the user's module raises.
    """
    module_name, colon, name = spec.partition(":")
    if not (colon and name and all(part.isidentifier() for part in module_name.split("."))):
        raise ConfigurationError(f"{spec!r} names no registry: write module:name, as in myapp.providers:registry.")
    found = _find(_import(module_name), name, spec)
    if not isinstance(found, ProviderRegistry) and callable(found):
        found = await _call(found, spec)
        told = "returns a value of type"
    else:
        told = "is of type"
    if not isinstance(found, ProviderRegistry):
        raise ConfigurationError(
            f"{spec} {told} {type(found).__name__} and no ProviderRegistry: "
            "name a ProviderRegistry, or a function that returns one."
        )
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"There is no module {error.name!r} in {here} or on Python's path: "
                "run this where the module is, or install it."
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _find(module: ModuleType, name: str, spec: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    registries = [known for known, value in vars(module).items() if isinstance(value, ProviderRegistry)]
    near = registries or difflib.get_close_matches(name, [known for known in vars(module) if known[0] != "_"])
    hint = f"did you mean {' or '.join(near)}?" if near else "name a ProviderRegistry, or a function that returns one."
    raise ConfigurationError(f"The module {module.__name__!r} has no {name!r} ({spec}): {hint}")


async def _call(function: Any, spec: str) -> Any:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"The function {spec} cannot be called without arguments ({error}): "
            "give its parameters defaults, or name a ProviderRegistry."
        ) from error
    try:
        found = function()
        return await found if inspect.isawaitable(found) else found
    except (Exception, SystemExit) as error:
        raise _broken(spec, error) from error


def _broken(name: str, error: BaseException) -> ConfigurationError:
    told = str(error).partition("\n")[0]
    kind = type(error).__name__
    return ConfigurationError(
        f"{name} cannot be loaded: {_place_of(error)} raises {kind}{f' ({told})' if told else ''}: correct it there."
    )


def _place_of(error: BaseException) -> str:
    """Name the file and line of the user's own code that the error comes from."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {_PACKAGE}
    theirs = [f for f in frames if not f.filename.startswith(tuple(libraries))]
    place = (theirs or frames)[-1]
    return f"{place.filename}:{place.lineno}"
