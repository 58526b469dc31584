"""Every model that pydantic-ai knows, as a model of an agent. Needs the extra `pydantic-ai`."""

from grundlag_bus.errors import ConfigurationError

try:
    from grundlag_bus.adapters.pydantic_ai.model import PydanticAIModel
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("pydantic_ai"):
        raise
    raise ConfigurationError("PydanticAIModel needs pydantic-ai: pip install 'grundlag-bus[pydantic-ai]'.") from missing

__all__ = ["PydanticAIModel"]
