"""The providers of the README and of `grundlag-bus demo`: real ones, small."""

from grundlag_bus.demo.deployment import default_directory, registry, sample_calendar

__all__ = ["default_directory", "registry", "sample_calendar"]
