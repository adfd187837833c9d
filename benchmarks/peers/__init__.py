"""gpuconf's allocator compared with others. `make bench-allocator` runs it."""
