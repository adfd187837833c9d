"""What all other packages build on: the binary, its C symbols, the state of the process, and value types.

Nothing here imports anything of gpuconf but ``errors``.
"""
