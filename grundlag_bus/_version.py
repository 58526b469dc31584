"""The package's version, read by packaging tools and the command line."""

__version__ = "0.1.0"
