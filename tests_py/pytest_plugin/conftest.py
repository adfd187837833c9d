"""Suites run on simulated GPUs."""

from suites import suite

__all__ = ["suite"]
