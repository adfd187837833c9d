# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.core.protobuf import config_pb2 as config_pb2
from gpuconf.compat.v2.core.protobuf import rewriter_config_pb2 as rewriter_config_pb2
