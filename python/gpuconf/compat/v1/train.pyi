# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._clusters import ClusterSpec as ClusterSpec
from gpuconf.compat._train import Coordinator as Coordinator
from gpuconf.compat._train import Saver as Saver
from gpuconf.compat._clusters import replica_device_setter as replica_device_setter
from gpuconf.compat._train import start_queue_runners as start_queue_runners
