"""The transport over RabbitMQ."""

from grundlag_bus.transport.rabbitmq.address import Address
from grundlag_bus.transport.rabbitmq.administration import RabbitAdministration
from grundlag_bus.transport.rabbitmq.transport import RabbitTransport

__all__ = ["Address", "RabbitAdministration", "RabbitTransport"]
