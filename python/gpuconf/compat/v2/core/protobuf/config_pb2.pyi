# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._proto import ConfigProto as ConfigProto
from gpuconf.compat._proto import GPUOptions as GPUOptions
from gpuconf.compat._proto import GraphOptions as GraphOptions
from gpuconf.compat._proto import OptimizerOptions as OptimizerOptions
from gpuconf.compat._proto import RPCOptions as RPCOptions
from gpuconf.compat._proto import SessionMetadata as SessionMetadata
from gpuconf.compat._proto import ThreadPoolOptionProto as ThreadPoolOptionProto
