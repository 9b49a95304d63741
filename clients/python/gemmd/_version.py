"""The version of the package, which is that of the daemon it came with."""

__version__ = "0.1.0"
