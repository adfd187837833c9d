"""Measurements of gpuconf's cost. `make bench` runs all of them and writes benchmarks/reports/benchmarks.md."""
