"""Every module here compiles quickly."""

from ...probes import quick_compilation  # noqa: F401
