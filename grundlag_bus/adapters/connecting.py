"""From an address, or a registry, to a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.adapters.bus import Bus, RegistryBus, TransportBus
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.registry import ProviderRegistry
from grundlag_bus.telemetry import Hook, ignore
from grundlag_bus.transport import MemoryTransport, Topology, named_bus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def connect(
    source: str | ProviderRegistry,
    *,
    namespace: str = "grundlag",
    credentials: Callable[[], tuple[str, str] | Awaitable[tuple[str, str]]] | None = None,
    token: str | Callable[[str | None], str | Awaitable[str]] | None = None,
    hook: Hook = ignore,
) -> Bus:
    """Make a bus of an address or of a registry, to be entered with `async with`.

    source: `amqp://` or `amqps://` for RabbitMQ, `memory://` for a bus of its own in this process, `memory://name` for
    one that is shared within the process, `http://` or `https://` for an HTTP host (with the extra `http`), or a
    registry, whose actions then run in this process without a bus.
    credentials: gives user and password for each attempt to connect to RabbitMQ, in place of those of the address;
    called in a thread unless it is a coroutine function. token: says who calls to an HTTP host, or is a function that
    gives the token for a user id (None for what is asked on nobody's behalf): called in the loop for each request.
    hook: told which replies come too late or cannot be read, which happens on a bus with a transport alone.
    Raises ConfigurationError; entering it raises BusUnreachableError and TopologyMismatchError.
    """
    if not isinstance(source, str | ProviderRegistry):
        raise ConfigurationError(
            f"connect() takes an address or a ProviderRegistry, and was given {type(source).__name__}: make a "
            "ProviderRegistry([provider]) of a provider, call the function that makes one, or see whether the variable "
            "that holds the address is set."
        )
    if credentials is not None and not (isinstance(source, str) and source.startswith("amqp")):
        raise ConfigurationError("Only RabbitMQ asks for credentials: leave them out, or use amqp:// or amqps://.")
    if token is not None and not (isinstance(source, str) and source.startswith("http")):
        raise ConfigurationError("Only an HTTP host asks for a token: leave it out, or use https:// or http://.")
    if isinstance(source, ProviderRegistry):
        return RegistryBus(source, namespace=Topology(namespace).namespace)
    scheme, _, rest = source.partition("://")
    if scheme == "memory":
        bus = named_bus(rest) if rest else None
        return TransportBus(MemoryTransport(namespace=namespace, bus=bus), hook=hook)
    if scheme in ("amqp", "amqps"):
        from grundlag_bus.transport.rabbitmq import RabbitTransport  # noqa: PLC0415  its client is slow to import

        return TransportBus(RabbitTransport(source, namespace=namespace, credentials=credentials), hook=hook)
    if scheme in ("http", "https"):
        return _http_bus(source, token)
    if "://" not in source:
        raise ConfigurationError(
            "The address of the bus does not say what is there: begin it with http:// for an HTTP host, as in "
            "http://localhost:8080, or with amqp:// for RabbitMQ, as in amqp://guest:guest@localhost/."
        )
    raise ConfigurationError(
        f"No bus has an address that begins with {scheme[:10]}://: use amqp://, amqps://, http://, https:// or "
        "memory://, as in amqp://guest:guest@localhost/."
    )


def _http_bus(url: str, token: str | Callable[[str | None], str | Awaitable[str]] | None) -> Bus:
    try:
        from grundlag_bus.adapters.http import HttpBus, HttpCaller  # noqa: PLC0415  it is an extra
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise ConfigurationError(
            "An HTTP host is reached with httpx2, which is not installed: pip install 'grundlag-bus[http]'."
        ) from error
    return HttpBus(HttpCaller(url, token=token))
