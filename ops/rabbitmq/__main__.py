"""RabbitMQ without Docker: `python -m ops.rabbitmq install` and `python -m ops.rabbitmq run`."""

from __future__ import annotations

import argparse
import signal
import sys

from ops.rabbitmq.node import Node
from ops.rabbitmq.roots import SUITES, BrokerUnavailableError, Installation, broker_root, installed_broker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.rabbitmq", description="RabbitMQ without Docker.")
    parser.add_argument("command", choices=["install", "run"])
    parser.add_argument("--version", choices=list(SUITES), default="4.3", help="the broker's version")
    parser.add_argument("--port", type=int, default=5672, help="where it listens, on 127.0.0.1")
    options = parser.parse_args()
    try:
        found = installed_broker(options.version) or broker_root(options.version)
        if options.command == "install":
            print(f"RabbitMQ {found.version} in {found.root}")
        else:
            _run(found, options.port)
    except BrokerUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(installation: Installation, port: int) -> None:
    """Run a node with a home of its own until Ctrl-C or SIGTERM."""
    signals = {signal.SIGINT, signal.SIGTERM}
    node = Node(installation, port=port)
    try:
        node.start()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        print(f"RabbitMQ {node.version} serves at {node.url} (Ctrl-C ends it, and its data)", flush=True)
        signal.sigwait(signals)
        node.stop()
    finally:
        node.close()


if __name__ == "__main__":
    sys.exit(main())
