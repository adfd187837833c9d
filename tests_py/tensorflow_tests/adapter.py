"""Modules that TensorFlow's tests import, made of gpuconf.

The tests import TensorFlow's private modules. Here these hold gpuconf's public functions under TensorFlow's private
names. Everything else is :class:`Absent`: using it ends the test with :class:`NeedsTensorFlow`, which makes it out of
scope.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import unittest
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf2
import numpy as np
from gpuconf.compat import _proto
from gpuconf.compat.v1 import _device_attributes, _graph
from gpuconf.compat.v2.python.client import device_lib
from gpuconf.compat.v2.python.eager import context as eager_context
from gpuconf.compat.v2.python.framework import config as framework_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class NeedsTensorFlow(BaseException):
    """A test uses what gpuconf does not have on purpose."""


class Absent:
    """Something of TensorFlow that gpuconf does not have."""

    def __init__(self, name: str) -> None:
        self.__name = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NeedsTensorFlow(self.__name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name}.{name}")

    def __str__(self) -> str:
        return self.__name

    def _used(self, *_: Any) -> Any:
        raise NeedsTensorFlow(self.__name)

    __enter__ = __getitem__ = __index__ = __instancecheck__ = __int__ = __float__ = __iter__ = __len__ = _used


class Module(types.ModuleType):
    """A module of TensorFlow. What it does not hold is absent."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if any(known == full or known.startswith(f"{full}.") for known in MODULES):
            return import_module(full)
        return Absent(full.removeprefix("tensorflow.python."))


class Finder(Loader):
    """Finds TensorFlow's modules, and those of Abseil and six that its tests need."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ("tensorflow", "absl", "six", "google"):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(MODULES.get(module.__name__, {}))


# tensorflow.python.eager.context.

_POLICIES = {None: 2, "explicit": 0, "warn": 1, "silent": 2, "silent_for_int32": 3}


class Context:
    """TensorFlow's context, as far as its tests read settings from it."""

    @property
    def device_policy(self) -> int:
        return _POLICIES[gpuconf.config.experimental.get_device_policy()]

    @property
    def execution_mode(self) -> int:
        return 0 if gpuconf.config.experimental.get_synchronous_execution() else 1

    @property
    def soft_device_placement(self) -> bool:
        return gpuconf.config.get_soft_device_placement()

    @property
    def log_device_placement(self) -> bool:
        return gpuconf.debugging.get_log_device_placement()

    @log_device_placement.setter
    def log_device_placement(self, enabled: bool) -> None:
        gpuconf.debugging.set_log_device_placement(enabled)

    @property
    def intra_op_parallelism_threads(self) -> int:
        return gpuconf.config.threading.get_intra_op_parallelism_threads()

    @property
    def inter_op_parallelism_threads(self) -> int:
        return gpuconf.config.threading.get_inter_op_parallelism_threads()

    @property
    def config(self) -> Any:
        return eager_context.context().config

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_config":  # its public form
            reset_context()
            tf1.enable_eager_execution(config=value)
        elif name != "_physical_devices":  # which the line above lists anew
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        known = {**_public(gpuconf.config), **_public(gpuconf.config.experimental), **_optimizer}
        return known[name] if name in known else Absent(f"context().{name}, which is private")


def _public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


_optimizer = {
    name.replace("et_", "et_optimizer_", 1): function for name, function in _public(gpuconf.config.optimizer).items()
}


def reset_context(*_: Any) -> None:
    """Start over, as TensorFlow's private function of that name does."""
    _graph.sessions.entered.clear()  # those that a test left open
    tf1.reset_default_graph()
    try:
        gpuconf.reset()
    except (
        gpuconf.errors.FailedPreconditionError
    ):  # an exception on its way holds tensors: the runner resets afterwards
        if sys.exc_info()[1] is None or sys.exc_info()[1].__context__ is None:
            raise


def _context() -> dict[str, Any]:
    return {
        "ASYNC": 1,
        "DEVICE_PLACEMENT_EXPLICIT": 0,
        "DEVICE_PLACEMENT_SILENT": 2,
        "DEVICE_PLACEMENT_SILENT_FOR_INT32": 3,
        "DEVICE_PLACEMENT_WARN": 1,
        "LogicalDevice": gpuconf.config.LogicalDevice,
        "LogicalDeviceConfiguration": gpuconf.config.LogicalDeviceConfiguration,
        "PhysicalDevice": gpuconf.config.PhysicalDevice,
        "SYNC": 0,
        "_context": True,
        "_reset_context": reset_context,
        "_reset_jit_compiler_flags": lambda: None,
        "context": Context,
        "ensure_initialized": gpuconf.config.list_logical_devices,
        "executing_eagerly": tf2.executing_eagerly,
        "get_log_device_placement": gpuconf.debugging.get_log_device_placement,
        "graph_mode": lambda: tf1.Graph().as_default(),
        "set_log_device_placement": gpuconf.debugging.set_log_device_placement,
    }


# Tensors.


def _typed(dtype: Any) -> Any:
    """Return a type that gpuconf computes with."""
    if isinstance(dtype, Absent):
        raise NeedsTensorFlow(str(dtype))
    if dtype is not None and np.dtype(dtype).name not in ("float32", "float64", "int32"):
        raise NeedsTensorFlow(f"dtypes.{np.dtype(dtype).name}")
    return dtype


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Any:
    """Create a constant of a type that gpuconf computes with."""
    dtype = _typed(dtype)
    kind = getattr(value, "dtype", None)
    if dtype is None and kind is None:
        kind = np.asarray(value).dtype
        kind = {"float64": "float32", "int64": "int32"}.get(kind.name, kind)  # Python's numbers
    if dtype is None and kind is not None:
        _typed(np.dtype("O") if isinstance(kind, Absent) else ("str" if np.dtype(kind).kind in "SU" else kind))
    return tf2.constant(value, dtype, shape, name)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """Create a placeholder of a type that gpuconf computes with."""
    return tf1.placeholder(_typed(dtype), shape, name)


# Test cases.


class TestCase(unittest.TestCase):
    """The parts of TensorFlow's and Abseil's TestCase that these tests use."""

    def evaluate(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.evaluate, value))
        if isinstance(value, (tf1.Tensor, tf1.Operation, tf1.Variable)):
            session = tf1.get_default_session()
            if session is None:
                raise NeedsTensorFlow("a session of the test case")
            return session.run(value)
        return value.numpy() if isinstance(value, gpuconf.Tensor) else value

    def _array(self, value: Any) -> Any:
        return np.asarray(self.evaluate(value))

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        if a is None or b is None:
            assert a is b, msg
            return
        try:
            a, b = self._array(a), self._array(b)
        except ValueError:  # ragged
            assert str(self.evaluate(a)) == str(self.evaluate(b)), msg
        else:
            np.testing.assert_array_equal(a, b, err_msg=msg or "")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:  # noqa: N802
        np.testing.assert_allclose(self._array(a), self._array(b), rtol=rtol, atol=atol)

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:  # noqa: N802
        assert len(container), msg

    def assertLen(self, container: Any, length: int, msg: str | None = None) -> None:  # noqa: N802
        assert len(container) == length, msg

    @contextmanager
    def assertRaisesWithPredicateMatch(self, kind: type[BaseException], wanted: Any) -> Iterator[None]:  # noqa: N802
        try:
            yield
        except kind as error:
            text = str(error)
            matches = wanted(error) if callable(wanted) else __import__("re").search(wanted, text) is not None
            if not matches:
                self.fail(f"{type(error).__name__}: {text}")
        else:
            self.fail(f"{kind.__name__} not raised")

    def assertRaisesOpError(self, wanted: Any) -> Any:  # noqa: N802
        return self.assertRaisesWithPredicateMatch(gpuconf.errors.OpError, wanted)

    def checkedThread(self, target: Any, args: Any = None, kwargs: Any = None) -> Any:  # noqa: N802
        return CheckedThread(self, target, args or (), kwargs or {})

    @contextmanager
    def session(self, graph: Any = None, config: Any = None, **_: Any) -> Iterator[Any]:
        with (graph or tf1.Graph()).as_default(), tf1.Session(config=config) as made:
            yield made

    cached_session = session

    def __getattr__(self, name: str) -> Any:
        if name.startswith("assert"):
            return Absent(f"TestCase.{name}")
        raise AttributeError(name)


in_threads: list[BaseException] = []  # what ended threads of this test, which may wait for them forever


class CheckedThread(threading.Thread):
    """A thread whose exception reaches the test that joins it."""

    def __init__(self, case: TestCase, target: Any, args: Any, kwargs: Any) -> None:
        super().__init__(target=target, args=args, kwargs=kwargs, daemon=True)
        self._caught: BaseException | None = None
        self._case = case

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:
            self._caught = error
            in_threads.append(error)

    def join(self, timeout: float | None = 30) -> None:
        super().join(timeout)
        if self._caught is not None:
            raise self._caught


def gpu_only(function: Any) -> Any:
    """Skip a test on a machine without GPUs."""

    @functools.wraps(function)
    def wrapped(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not tf2.test.is_gpu_available():
            self.skipTest("Test requires GPU")
        return function(self, *arguments, **keywords)

    return wrapped


def gpu_or_tpu(function: Any) -> Any:
    """Run a test for GPUs, if there is one."""
    return gpu_only(lambda self: function(self, "GPU"))


def graph_mode_only(function: Any) -> Any:
    """Run a test where operations build a graph."""

    @functools.wraps(function)
    def wrapped(self: Any) -> Any:
        with tf1.Graph().as_default():
            return function(self)

    return wrapped


def without_gpu_kernel(name: str, **_: Any) -> Any:
    """Run an operation that has no kernel for GPUs, as the one of this name in TensorFlow's tests."""
    return tf2.matmul(tf2.constant([[1]]), tf2.constant([[1]]), name=name)


def named_parameters(*cases: Any) -> Any:
    """Make a test of each case: a tuple that begins with its name, or a dict."""

    def decorate(function: Any) -> Any:
        function.named_cases = cases
        return function

    return decorate


class Parameterized:
    """``absl.testing.parameterized.TestCase``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, function in list(vars(cls).items()):
            for case in getattr(function, "named_cases", ()):
                if isinstance(case, dict):
                    suffix, arguments, keywords = (
                        case["testcase_name"],
                        (),
                        {k: v for k, v in case.items() if k != "testcase_name"},
                    )
                else:
                    suffix, arguments, keywords = case[0], case[1:], {}

                def test(
                    self: Any, function: Any = function, arguments: Any = arguments, keywords: Any = keywords
                ) -> Any:
                    return function(self, *arguments, **keywords)

                setattr(cls, f"{name}{'' if suffix.startswith('_') else '_'}{suffix}", test)
            if hasattr(function, "named_cases"):
                delattr(cls, name)


def decorator(*_: Any, **__: Any) -> Any:
    """Return a decorator that changes nothing."""
    return lambda function: function


def merge_device(spec: Any) -> Any:
    """Do what TensorFlow's private function of this name does."""
    raise NeedsTensorFlow("framework.device.merge_device, which is private")


def canonical_name(device: Any) -> str:
    """Return the canonical form of a device string."""
    return "" if device is None else gpuconf.DeviceSpec.from_string(str(device)).to_string()


def check_valid(device: Any) -> None:
    """Raise ValueError for a malformed device string."""
    gpuconf.DeviceSpec.from_string(device)


def _framework_config() -> dict[str, Any]:
    threads = _public(gpuconf.config.threading)
    public = {**_public(gpuconf.config), **_public(gpuconf.config.experimental), **threads, **_optimizer}
    return {**public, **_public(framework_config)}


def _messages(*names: str) -> dict[str, Any]:
    return {name: getattr(_proto, name) for name in names}


_TEST = {
    "TensorFlowTestCase": TestCase,
    "TestCase": TestCase,
    "is_built_with_cuda": tf2.test.is_built_with_cuda,
    "is_built_with_rocm": tf2.test.is_built_with_rocm,
    "is_gpu_available": tf2.test.is_gpu_available,
}

MODULES: dict[str, dict[str, Any]] = {
    "absl.testing.parameterized": {"TestCase": Parameterized, "named_parameters": named_parameters},
    "six": {"binary_type": bytes, "string_types": (str,), "text_type": str},
    "tensorflow.core.protobuf.cluster_pb2": _messages("ClusterDef", "JobDef"),
    "tensorflow.core.protobuf.config_pb2": _messages("ConfigProto", "GPUOptions", "GraphOptions", "OptimizerOptions"),
    "tensorflow.core.protobuf.rewriter_config_pb2": _messages("RewriterConfig"),
    "tensorflow.core.lib.core.error_codes_pb2": {"INVALID_ARGUMENT": tf2.errors.INVALID_ARGUMENT},
    "google.protobuf.text_format": {"MessageToString": str},
    "tensorflow.python.client.device_lib": _public(device_lib),
    "tensorflow.python.platform.tf_logging": _public(tf1.logging),
    "tensorflow.python.eager.def_function": {"function": tf2.function},
    "tensorflow.python.framework.test_ops": {"test_attr": without_gpu_kernel},
    "tensorflow.python.client.session": {
        "InteractiveSession": tf1.InteractiveSession,
        "Session": tf1.Session,
        "_DeviceAttributes": _device_attributes.DeviceAttributes,
    },
    "tensorflow.python.eager.context": _context(),
    "tensorflow.python.eager.test": _TEST,
    "tensorflow.python.framework.config": _framework_config(),
    "tensorflow.python.framework.constant_op": {"constant": constant},
    "tensorflow.python.framework.device": {
        "DeviceSpec": tf1.DeviceSpec,
        "canonical_name": canonical_name,
        "check_valid": check_valid,
        "merge_device": merge_device,
    },
    "tensorflow.python.framework.device_spec": {"DeviceSpecV1": tf1.DeviceSpec, "DeviceSpecV2": gpuconf.DeviceSpec},
    "tensorflow.python.framework.dtypes": {name: np.dtype(name) for name in ("float32", "float64", "int32")},
    "tensorflow.python.framework.errors": _public(gpuconf.errors),
    "tensorflow.python.framework.ops": {
        "Graph": tf1.Graph,
        "NullContextmanager": __import__("contextlib").nullcontext,
        "Tensor": tf2.Tensor,
        "_default_graph_stack": Absent("ops._default_graph_stack, which is private"),
        "control_dependencies": tf2.control_dependencies,
        "device": tf2.device,
        "enable_eager_execution_internal": lambda: None,
        "get_default_graph": tf1.get_default_graph,
        "get_default_session": tf1.get_default_session,
        "reset_default_graph": tf1.reset_default_graph,
    },
    "tensorflow.python.framework.stack": {
        "_default_session_stack": types.SimpleNamespace(
            get_default=tf1.get_default_session, reset=_graph.sessions.entered.clear
        ),
    },
    "tensorflow.python.framework.test_util": {
        **_TEST,
        "IsMklEnabled": lambda: False,
        "deprecated_graph_mode_only": graph_mode_only,
        "disable_eager_op_as_function": decorator,
        "disable_tfrt": decorator,
        "run_gpu_only": gpu_only,
        "run_gpu_or_tpu": gpu_or_tpu,
        "run_v1_only": decorator,
        "with_eager_op_as_function": lambda cls: cls,
    },
    "tensorflow.python.ops.array_ops": {
        "fill": tf2.fill,
        "identity": lambda value, name=None: tf2.identity(value, name),
        "ones": tf2.ones,
        "placeholder": placeholder,
        "zeros": tf2.zeros,
    },
    "tensorflow.python.ops.control_flow_ops": {"no_op": tf1.no_op},
    "tensorflow.python.ops.math_ops": {
        "add": tf2.add,
        "add_n": tf2.add_n,
        "matmul": tf2.matmul,
        "multiply": tf2.multiply,
    },
    "tensorflow.python.ops.variables": {
        "Variable": tf1.Variable,
        "global_variables_initializer": tf1.global_variables_initializer,
        "variables_initializer": tf1.variables_initializer,
    },
    "tensorflow.python.ops.state_ops": {"assign": tf1.assign, "assign_add": tf1.assign_add},
    "tensorflow.python.ops.variable_v1": {"VariableV1": tf1.Variable},
    "tensorflow.python.ops.random_ops": {"random_uniform": tf2.random.uniform},
    "tensorflow.python.platform.googletest": _TEST,
    "tensorflow.python.platform.test": _TEST,
    "tensorflow.python.util.compat": {"as_bytes": lambda text: text.encode() if isinstance(text, str) else text},
}


def install() -> None:
    """Let ``import tensorflow`` in this process find these modules."""
    sys.meta_path.insert(0, Finder())


def hide() -> None:
    """Forget the modules, which a test file has imported by now: gpuconf passes its settings on to a TensorFlow that is
    loaded.
    """
    for name in [each for each in sys.modules if each.partition(".")[0] == "tensorflow"]:
        del sys.modules[name]
