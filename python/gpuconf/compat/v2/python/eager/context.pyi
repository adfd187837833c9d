# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.config import LogicalDevice as LogicalDevice
from gpuconf.config import LogicalDeviceConfiguration as LogicalDeviceConfiguration
from gpuconf.config import PhysicalDevice as PhysicalDevice
from gpuconf.compat._context import context as context
from gpuconf.compat.v2._ops import device as device
from gpuconf.compat._context import eager_mode as eager_mode
from gpuconf.compat._context import ensure_initialized as ensure_initialized
from gpuconf.compat.v1._mode import executing_eagerly as executing_eagerly
from gpuconf.debugging import get_log_device_placement as get_log_device_placement
from gpuconf.compat._context import graph_mode as graph_mode
from gpuconf.compat.v1._mode import executing_eagerly as _executing_eagerly
from gpuconf.compat._context import num_gpus as num_gpus
from gpuconf.debugging import set_log_device_placement as set_log_device_placement
from gpuconf.config import set_soft_device_placement as set_soft_device_placement

in_eager_mode = _executing_eagerly
