"""The base of all other packages: the compiled core, its C symbols, the state of the process, and value types.

Modules in this package import nothing else of gpuconf except ``errors``.
"""
