# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._facts import COMPILER_VERSION as COMPILER_VERSION
from gpuconf.compat._facts import GIT_VERSION as GIT_VERSION
from gpuconf.compat._facts import GRAPH_DEF_VERSION as GRAPH_DEF_VERSION
from gpuconf.compat._facts import GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER
from gpuconf.compat._facts import GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER
from gpuconf.compat._facts import VERSION as VERSION
