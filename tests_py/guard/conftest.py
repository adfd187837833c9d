"""The fixtures of the guard's tests."""

from conftest_guard import client, driver

__all__ = ["client", "driver"]
