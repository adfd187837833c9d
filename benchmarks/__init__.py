"""What gpuconf costs, measured. `make bench` runs all and writes docs/benchmarks.md."""
