# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._proto import AutoParallelOptions as AutoParallelOptions
from gpuconf.compat._proto import RewriterConfig as RewriterConfig
from gpuconf.compat._proto import ScopedAllocatorOptions as ScopedAllocatorOptions
from gpuconf.compat._proto import VerifierConfig as VerifierConfig
