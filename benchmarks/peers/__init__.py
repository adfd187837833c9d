"""gpuconf's allocator beside those of others. `make bench-allocator` runs it."""
