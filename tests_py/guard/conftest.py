"""The fixtures of the guard's tests."""

from conftest_guard import both, client, driver

__all__ = ["both", "client", "driver"]
