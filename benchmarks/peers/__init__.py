"""gpuconf's allocator compared with others. `make bench WHAT=allocator` runs it."""
