"""`python -m grundlag_bus` is `grundlag-bus`."""

from grundlag_bus.cli import main

main()
