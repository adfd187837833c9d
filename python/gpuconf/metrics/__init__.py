# SPDX-License-Identifier: Apache-2.0
"""Metrics of GPU memory for Prometheus and OpenTelemetry.

A program adds its own pools to its registry with :func:`register` (needs prometheus-client: ``pip install
'gpuconf[prometheus]'``), or to its meter with :func:`instrument` (needs the OpenTelemetry SDK: ``pip install
'gpuconf[otel]'``). ``gpuconf export`` serves those of a whole machine. Nothing is initialized or allocated for it: a
program that has not used a GPU yet has no series. Sizes are in bytes.
"""

from __future__ import annotations

from .._missing import watch
from ._otel import instrument
from ._prometheus import MachineCollector, ProcessCollector, register

__all__ = ["MachineCollector", "ProcessCollector", "instrument", "register"]

watch(globals())
