# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._graph import Graph as Graph
from gpuconf.compat.v1._graph import Operation as Operation
from gpuconf.compat.v2._ops import Tensor as Tensor
from gpuconf.compat.v2._ops import control_dependencies as control_dependencies
from gpuconf.compat.v2._ops import convert_to_tensor as convert_to_tensor
from gpuconf.compat.v2._ops import device as device
from gpuconf.compat.v1._mode import disable_eager_execution as disable_eager_execution
from gpuconf.compat.v1._mode import enable_eager_execution as enable_eager_execution
from gpuconf.compat.v1._mode import executing_eagerly as executing_eagerly
from gpuconf.compat.v1._mode import executing_eagerly_outside_functions as executing_eagerly_outside_functions
from gpuconf.compat.v1._graph import get_default_graph as get_default_graph
from gpuconf.compat.v1._graph import get_default_session as get_default_session
from gpuconf.compat.v2._variable import name_scope as name_scope
from gpuconf.compat.v1._graph import reset_default_graph as reset_default_graph
