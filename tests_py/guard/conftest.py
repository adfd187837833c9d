"""The fixtures of the guard's tests."""

from conftest_guard import driver

__all__ = ["driver"]
