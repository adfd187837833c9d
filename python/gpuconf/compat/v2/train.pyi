# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._clusters import ClusterSpec as ClusterSpec
