# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._scopes import AUTO_REUSE as AUTO_REUSE
from gpuconf.compat._facts import COMPILER_VERSION as COMPILER_VERSION
from gpuconf.compat._proto import ConfigProto as ConfigProto
from gpuconf.compat._dtypes import DType as DType
from gpuconf._core.device_spec import MutableDeviceSpec as _MutableDeviceSpec
from gpuconf.compat._facts import GIT_VERSION as GIT_VERSION
from gpuconf.compat._proto import GPUOptions as GPUOptions
from gpuconf.compat.v1._graph import Graph as Graph
from gpuconf.compat._proto import GraphDef as GraphDef
from gpuconf.compat._proto import GraphOptions as GraphOptions
from gpuconf.compat.v1._session import InteractiveSession as InteractiveSession
from gpuconf.compat._proto import NodeDef as NodeDef
from gpuconf.errors import OpError as OpError
from gpuconf.compat.v1._graph import Operation as Operation
from gpuconf.compat._proto import OptimizerOptions as OptimizerOptions
from gpuconf.compat._proto import RunMetadata as RunMetadata
from gpuconf.compat._proto import RunOptions as RunOptions
from gpuconf.compat.v1._session import Session as Session
from gpuconf.compat.v1._graph import Tensor as Tensor
from gpuconf.compat._shape import TensorShape as TensorShape
from gpuconf.compat._facts import VERSION as VERSION
from gpuconf.compat.v1._variables import Variable as Variable
from gpuconf.compat.v1._scopes import VariableScope as VariableScope
from gpuconf.compat._facts import COMPILER_VERSION as _COMPILER_VERSION
from gpuconf.compat._facts import GIT_VERSION as _GIT_VERSION
from gpuconf.compat._facts import VERSION as _VERSION
from gpuconf.compat.v1._both import abs as abs
from gpuconf.compat.v1._ops import add as add
from gpuconf.compat.v1._ops import add_n as add_n
from gpuconf.compat.v1._variables import global_variables as _global_variables
from gpuconf.compat._dtypes import as_dtype as as_dtype
from gpuconf.compat.v1._variables import assign as assign
from gpuconf.compat.v1._variables import assign_add as assign_add
from gpuconf.compat.v1._variables import assign_sub as assign_sub
from gpuconf.compat._dtypes import bfloat16 as bfloat16
from gpuconf.compat._dtypes import bool as bool
from gpuconf.compat.v1._ops import cast as cast
from gpuconf.compat._dtypes import complex128 as complex128
from gpuconf.compat._dtypes import complex64 as complex64
from gpuconf.compat.v1._both import concat as concat
from gpuconf.compat.v1._ops import constant as constant
from gpuconf.compat.v1._variables import constant_initializer as constant_initializer
from gpuconf.compat.v1._graph import control_dependencies as control_dependencies
from gpuconf.compat.v1._both import convert_to_tensor as convert_to_tensor
from gpuconf.compat.v1._graph import device as device
from gpuconf.compat._no_effect import switch as _switch
from gpuconf.compat.v1._mode import disable_eager_execution as disable_eager_execution
from gpuconf.compat.v1._mode import disable_tensor_equality as disable_tensor_equality
from gpuconf.compat.v1._mode import disable_v2_behavior as disable_v2_behavior
from gpuconf.compat.v1._ops import divide as divide
from gpuconf.compat._dtypes import double as double
from gpuconf.compat.v1._mode import enable_eager_execution as enable_eager_execution
from gpuconf.compat.v1._mode import enable_tensor_equality as enable_tensor_equality
from gpuconf.compat.v1._mode import enable_v2_behavior as enable_v2_behavior
from gpuconf.compat.v1._both import equal as equal
from gpuconf.compat.v1._mode import executing_eagerly as executing_eagerly
from gpuconf.compat.v1._mode import executing_eagerly_outside_functions as executing_eagerly_outside_functions
from gpuconf.compat.v1._both import exp as exp
from gpuconf.compat.v1._both import expand_dims as expand_dims
from gpuconf.compat.v1._both import eye as eye
from gpuconf.compat.v1._ops import fill as fill
from gpuconf.compat._dtypes import float16 as float16
from gpuconf.compat._dtypes import float32 as float32
from gpuconf.compat._dtypes import float64 as float64
from gpuconf.compat.v2._ops import function as function
from gpuconf.compat.v1._graph import get_default_graph as get_default_graph
from gpuconf.compat.v1._graph import get_default_session as get_default_session
from gpuconf.compat._logging import get_logger as get_logger
from gpuconf.compat.v1._variables import get_variable as get_variable
from gpuconf.compat.v1._variables import get_variable_scope as get_variable_scope
from gpuconf.compat.v1._variables import global_variables as global_variables
from gpuconf.compat.v1._variables import global_variables_initializer as global_variables_initializer
from gpuconf.compat.v1._variables import glorot_uniform_initializer as glorot_uniform_initializer
from gpuconf.compat.v1._both import greater as greater
from gpuconf.compat.v1._both import greater_equal as greater_equal
from gpuconf.compat.v1._ops import group as group
from gpuconf.compat._dtypes import half as half
from gpuconf.compat.v1._ops import identity as identity
from gpuconf.compat.v1._ops import tables_initializer as _tables_initializer
from gpuconf.compat.v1._variables import global_variables_initializer as _global_variables_initializer
from gpuconf.compat.v1._ops import local_variables_initializer as _local_variables_initializer
from gpuconf.compat.v1._variables import variables_initializer as _variables_initializer
from gpuconf.compat._dtypes import int16 as int16
from gpuconf.compat._dtypes import int32 as int32
from gpuconf.compat._dtypes import int64 as int64
from gpuconf.compat._dtypes import int8 as int8
from gpuconf.compat.v2._ops import is_tensor as is_tensor
from gpuconf.compat.v1._both import less as less
from gpuconf.compat.v1._both import less_equal as less_equal
from gpuconf.compat.v1._variables import local_variables as local_variables
from gpuconf.compat.v1._ops import local_variables_initializer as local_variables_initializer
from gpuconf.compat.v1._both import logical_and as logical_and
from gpuconf.compat.v1._both import logical_not as logical_not
from gpuconf.compat.v1._both import logical_or as logical_or
from gpuconf.compat.v1._ops import matmul as matmul
from gpuconf.compat.v1._both import maximum as maximum
from gpuconf.compat.v1._both import minimum as minimum
from gpuconf.compat.v1._ops import multiply as multiply
from gpuconf.compat.v1._ops import name_scope as name_scope
from gpuconf.compat.v1._ops import no_op as no_op
from gpuconf.compat.v1._both import not_equal as not_equal
from gpuconf.compat.v1._ops import ones as ones
from gpuconf.compat.v1._variables import ones_initializer as ones_initializer
from gpuconf.compat.v1._both import ones_like as ones_like
from gpuconf.compat.v1._ops import placeholder as placeholder
from gpuconf.compat.v1._both import pow as pow
from gpuconf.compat.v2._ops import print_ as _print_
from gpuconf.compat.v1._ops import random_normal as random_normal
from gpuconf.compat.v1._variables import random_normal_initializer as random_normal_initializer
from gpuconf.compat.v1._ops import random_uniform as random_uniform
from gpuconf.compat.v1._variables import random_uniform_initializer as random_uniform_initializer
from gpuconf.compat.v1._both import range as range
from gpuconf.compat.v1._both import reduce_all as reduce_all
from gpuconf.compat.v1._both import reduce_any as reduce_any
from gpuconf.compat.v1._both import reduce_max as reduce_max
from gpuconf.compat.v1._ops import reduce_mean as reduce_mean
from gpuconf.compat.v1._both import reduce_min as reduce_min
from gpuconf.compat.v1._ops import reduce_sum as reduce_sum
from gpuconf.compat.v1._graph import reset_default_graph as reset_default_graph
from gpuconf.compat.v1._both import reshape as reshape
from gpuconf.compat.v1._mode import set_random_seed as set_random_seed
from gpuconf.compat.v1._both import shape as shape
from gpuconf.compat.v1._both import sigmoid as sigmoid
from gpuconf.compat.v1._both import size as size
from gpuconf.compat.v1._both import sqrt as sqrt
from gpuconf.compat.v1._both import square as square
from gpuconf.compat.v1._both import squeeze as squeeze
from gpuconf.compat.v1._both import stack as stack
from gpuconf.compat._dtypes import string as string
from gpuconf.compat.v1._ops import subtract as subtract
from gpuconf.compat.v1._ops import tables_initializer as tables_initializer
from gpuconf.compat.v1._both import tanh as tanh
from gpuconf.compat.v1._variables import trainable_variables as trainable_variables
from gpuconf.compat.v1._both import transpose as transpose
from gpuconf.compat.v1._ops import truncated_normal as truncated_normal
from gpuconf.compat.v1._variables import truncated_normal_initializer as truncated_normal_initializer
from gpuconf.compat._dtypes import uint16 as uint16
from gpuconf.compat._dtypes import uint32 as uint32
from gpuconf.compat._dtypes import uint64 as uint64
from gpuconf.compat._dtypes import uint8 as uint8
from gpuconf.compat.v1._variables import variable_scope as variable_scope
from gpuconf.compat.v1._variables import variables_initializer as variables_initializer
from gpuconf.compat.v1._ops import zeros as zeros
from gpuconf.compat.v1._variables import zeros_initializer as zeros_initializer
from gpuconf.compat.v1._both import zeros_like as zeros_like
from gpuconf.compat.v2 import autograph as autograph
from gpuconf import compat as compat
from gpuconf import config as config
from gpuconf.compat.v2 import data as data
from gpuconf import debugging as debugging
from gpuconf.compat.v2 import distribute as distribute
from gpuconf import errors as errors
from gpuconf.compat.v2 import experimental as experimental
from gpuconf.compat.v2 import io as io
from gpuconf.compat.v2 import sysconfig as sysconfig
from gpuconf.compat.v2 import test as test
from gpuconf.compat.v2 import tpu as tpu
from gpuconf.compat.v2 import version as version
from gpuconf.compat.v1 import gfile as gfile
from gpuconf.compat.v1 import summary as summary
from gpuconf.compat.v1 import random as random
from gpuconf.compat.v1 import logging as logging
from gpuconf.compat.v1 import math as math
from gpuconf.compat.v1 import linalg as linalg
from gpuconf.compat.v1 import nn as nn
from gpuconf.compat.v1 import train as train
from gpuconf.compat.v1 import keras as keras
from gpuconf.compat.v1 import app as app
from gpuconf.compat.v1 import flags as flags

DeviceSpec = _MutableDeviceSpec
__compiler_version__ = _COMPILER_VERSION
__git_version__ = _GIT_VERSION
__version__ = _VERSION
all_variables = _global_variables
disable_control_flow_v2 = _switch
disable_resource_variables = _switch
disable_v2_tensorshape = _switch
enable_control_flow_v2 = _switch
enable_resource_variables = _switch
enable_v2_tensorshape = _switch
initialize_all_tables = _tables_initializer
initialize_all_variables = _global_variables_initializer
initialize_local_variables = _local_variables_initializer
initialize_variables = _variables_initializer
print = _print_
