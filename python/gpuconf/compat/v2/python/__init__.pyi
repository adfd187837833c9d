# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.python import util as util
from gpuconf.compat.v2.python import platform as platform
from gpuconf.compat.v2.python import framework as framework
from gpuconf.compat.v2.python import client as client
from gpuconf.compat.v2.python import eager as eager
