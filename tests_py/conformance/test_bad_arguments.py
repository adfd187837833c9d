"""For any arguments, a public function succeeds or raises one of a few exceptions, and an error changes nothing."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gpuconf as tf
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .helpers import PD, L, gpus, initialize, limits, refused, reserved_by_first_allocation

if TYPE_CHECKING:
    from collections.abc import Callable

# What a public function may raise. MemoryError only for requests of memory.
ALLOWED = (
    tf.errors.GpuconfError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    NotImplementedError,
)


class Nasty:
    """An object with one special method that raises ``RuntimeError``."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _do(self, method: str) -> None:
        if method == self.method:
            raise RuntimeError(f"this object's {method} was called")

    def __repr__(self) -> str:
        self._do("__repr__")
        return f"Nasty({self.method!r})"

    def __str__(self) -> str:
        self._do("__str__")
        return "nasty"

    def __eq__(self, other: object) -> bool:
        self._do("__eq__")
        return self is other

    def __hash__(self) -> int:
        self._do("__hash__")
        return 7

    def __index__(self) -> int:
        self._do("__index__")
        raise TypeError("no index")

    def __float__(self) -> float:
        self._do("__float__")
        raise TypeError("no float")

    def __bool__(self) -> bool:
        self._do("__bool__")
        return True

    def __iter__(self) -> Any:
        self._do("__iter__")
        return iter([self])

    def __getattr__(self, name: str) -> Any:
        self._do("__getattr__")
        raise AttributeError(name)


class NastyText(str):
    """A string with unusual behavior."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("this text's __eq__ was called")

    def __hash__(self) -> int:
        raise RuntimeError("this text's __hash__ was called")

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError("this text's encode was called")


class NastyInt(int):
    """An int with unusual behavior."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("this int's __eq__ was called")

    def __hash__(self) -> int:
        raise RuntimeError("this int's __hash__ was called")

    def __int__(self) -> int:
        raise RuntimeError("this int's __int__ was called")

    def __index__(self) -> int:
        raise RuntimeError("this int's __index__ was called")

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("this int's __lt__ was called")


class UnequalInt(int):
    """An int that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("this int's __eq__ was called")

    def __ne__(self, other: object) -> bool:
        raise RuntimeError("this int's __ne__ was called")

    def __hash__(self) -> int:
        return 1


class NastyList(list):  # type: ignore[type-arg]
    """A list with unusual behavior."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("this list's __eq__ was called")

    def __ne__(self, other: object) -> bool:
        raise RuntimeError("this list's __ne__ was called")

    def __repr__(self) -> str:
        return "\ud800\0"

    __hash__ = None  # type: ignore[assignment]


class Maker:
    """How to create an object, for Hypothesis, which prints and compares what it passes."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.make = make

    def __repr__(self) -> str:
        return self.name


def made(value: Any) -> Any:
    """A value in which all recipes are replaced by the objects they create."""
    if isinstance(value, Maker):
        return value.make()
    if type(value) is list:
        return [made(v) for v in value]
    if type(value) is dict:
        return {k: made(v) for k, v in value.items()}
    if type(value) in (tuple, L):
        items = (made(v) for v in value)
        return L(*items) if type(value) is L else tuple(items)
    return value


def makers(**of: Callable[[], Any]) -> st.SearchStrategy[Maker]:
    return st.sampled_from([Maker(name, make) for name, make in of.items()])


def endless() -> list[Any]:
    loop: list[Any] = [L(1)]
    loop.append(loop)
    return loop


texts = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(exclude_categories=[]), max_size=5),  # including lone surrogates
    st.sampled_from(
        ["", "\0", "GPU:0\0", "\ud800", "GPU:\udfff", "\U0001f4a5", "gpu:0", "GPU:0", "GPU:1", "'", '"\\', "CPU", "GPU"]
    ),
    makers(
        many_digits=lambda: "GPU:" + "9" * 5000,
        many_slashes=lambda: "/" * 10_000,
        nasty_text=lambda: NastyText("GPU:0"),
    ),
)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 2**64, 10**400, math.nan, math.inf, -math.inf, -0.0, 1e308]
    ),
    st.sampled_from([0, 1, 2, True, False, 1j, Decimal("NaN"), Decimal(10) ** 400, Fraction(1, 3)]),
    makers(
        huge=lambda: 10**5000,
        nasty_int=lambda: NastyInt(1),
        unequal_int=lambda: UnequalInt(1),
        signalling=lambda: Decimal("sNaN"),
    ),
)
METHODS = [
    "__repr__",
    "__str__",
    "__eq__",
    "__hash__",
    "__index__",
    "__float__",
    "__bool__",
    "__iter__",
    "__getattr__",
    "none",
]
oddities = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.sampled_from([Maker(f"nasty{m}", lambda m=m: Nasty(m)) for m in METHODS]),  # type: ignore[misc]
    makers(
        nasty_list=NastyList,
        endless=endless,
        ellipsis=lambda: ...,
        a_class=lambda: int,
        a_module=lambda: tf,
        an_object=object,
        bytes=lambda: b"GPU:0",
        bytearray=lambda: bytearray(16),
        memoryview=lambda: memoryview(bytes(16)),
        strided=lambda: memoryview(bytearray(16))[::2],
        range=lambda: range(3),
        iterator=lambda: iter([L(10)]),
        a_set=lambda: {1, 2},
        a_dict=lambda: {"device": "GPU:0"},
        empty=tuple,
    ),
)
listed = st.sampled_from([PD(f"/physical_device:{name}", name[:3]) for name in ("GPU:0", "GPU:1", "CPU:0")])
devices = st.one_of(
    listed,
    makers(
        ill_text=lambda: PD("\0", "\ud800"),
        nasty_fields=lambda: PD(Nasty("__hash__"), Nasty("__repr__")),  # type: ignore[arg-type]
        unequal_fields=lambda: PD(Nasty("__eq__"), Nasty("__eq__")),  # type: ignore[arg-type]
        unhashable_fields=lambda: PD([], {}),  # type: ignore[arg-type]
        logical=lambda: tf.config.LogicalDevice("/device:GPU:0", "GPU"),
        ill_logical=lambda: tf.config.LogicalDevice(3, None),  # type: ignore[arg-type]
    ),
)
atoms = st.one_of(numbers, texts, oddities, devices)
memory_limits = st.one_of(st.just(10), st.just(10), atoms)
configurations = st.builds(L, memory_limits, st.one_of(st.none(), atoms), st.one_of(st.none(), atoms))
good = st.sampled_from([10, 20]).map(L)


def lists_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists, tuples and similar objects."""
    some = st.lists(items, max_size=3)
    return st.one_of(
        some,
        some.map(tuple),
        some.map(lambda items: Maker(f"NastyList({items})", lambda: NastyList(made(items)))),
        some.map(lambda items: Maker(f"iter({items})", lambda: iter(made(items)))),
    )


anything = st.one_of(
    atoms,
    lists_of(st.one_of(configurations, good, listed, atoms)),
    configurations,
    st.dictionaries(st.sampled_from(["constant_folding", "min_graph_nodes", "\0", "\ud800", "x"]), atoms, max_size=3),
)


def allocate(nbytes: Any, device: Any) -> None:
    tf.memory.allocate(nbytes, device).free()


def allocate_with_wait(wait: Any) -> None:
    tf.memory.allocate(1, "GPU:0", wait=wait).free()


def enter(name: Any) -> None:
    with tf.device(name):
        tf.memory.allocate(1).free()


def measure(device: Any) -> None:
    with tf.memory.measure(device):
        pass


def copy_from_host(data: Any, offset: Any) -> None:
    with tf.memory.allocate(16, "GPU:0") as buffer:
        buffer.copy_from_host(data, offset)


def copy_to_host(out: Any, offset: Any) -> None:
    with tf.memory.allocate(16, "GPU:0") as buffer:
        buffer.copy_to_host(out, offset)


def simulate(spec: Any) -> None:
    """Valid specifications are tested elsewhere."""
    if spec is None or (isinstance(spec, str) and "x" in spec.lower()):
        return
    tf.simulate(spec)


experimental = tf.config.experimental
FUNCTIONS: list[Callable[..., Any]] = [
    tf.config.list_physical_devices,
    tf.config.list_logical_devices,
    tf.config.get_visible_devices,
    tf.config.set_visible_devices,
    tf.config.get_logical_device_configuration,
    tf.config.set_logical_device_configuration,
    tf.config.set_soft_device_placement,
    tf.config.run_functions_eagerly,
    tf.config.experimental_connect_to_host,
    tf.config.experimental_connect_to_cluster,
    experimental.get_memory_growth,
    experimental.set_memory_growth,
    experimental.get_device_details,
    experimental.get_memory_info,
    experimental.get_memory_usage,
    experimental.reset_memory_stats,
    experimental.set_device_policy,
    experimental.set_synchronous_execution,
    experimental.set_virtual_device_configuration,
    experimental.enable_tensor_float_32_execution,
    tf.config.threading.set_intra_op_parallelism_threads,
    tf.config.threading.set_inter_op_parallelism_threads,
    tf.config.optimizer.set_jit,
    tf.config.optimizer.set_experimental_options,
    tf.debugging.set_log_device_placement,
    tf.memory.stats,
    tf.memory.memory_map,
    allocate,
    allocate_with_wait,
    copy_from_host,
    copy_to_host,
    enter,
    measure,
    simulate,
]
ASK_FOR_MEMORY = {allocate, allocate_with_wait, enter}


def attempt(call: Callable[[], Any]) -> Any:
    """A value, or the error if there is one."""
    try:
        return call()
    except tf.errors.GpuconfError as error:
        return type(error), str(error)


def state() -> list[Any]:
    """All visible state of the configuration. Objects that were passed in are identified by identity."""
    physical = tf.config.list_physical_devices()
    return [
        physical,
        tf.config.get_visible_devices(),
        [id(tf.config.get_logical_device_configuration(d)) for d in physical],
        [id(experimental.get_memory_growth(d)) for d in physical if d.device_type == "GPU"],
        attempt(tf.config.get_soft_device_placement),
        attempt(tf.debugging.get_log_device_placement),
        attempt(tf.config.threading.get_intra_op_parallelism_threads),
        attempt(tf.config.threading.get_inter_op_parallelism_threads),
        attempt(tf.config.optimizer.get_jit),
        attempt(tf.config.optimizer.get_experimental_options),
        experimental.get_device_policy(),
        experimental.get_synchronous_execution(),
        experimental.tensor_float_32_execution_enabled(),
        tf.config.functions_run_eagerly(),
        tf.current_scope(),
    ]


def in_force() -> tuple[list[int], list[int]]:
    """The limits, and the pools' first reservations. Initializes."""
    return limits(), [reserved_by_first_allocation(d.name) for d in tf.config.list_logical_devices("GPU")]


def in_use() -> list[tuple[int, int]]:
    """Blocks and bytes on each logical GPU. Initializes."""
    stats = [tf.memory.stats(d) for d in tf.config.list_logical_devices("GPU")]
    return [(s.live_blocks, s.bytes_in_use) for s in stats]


def either(*strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of the strategies, with equal probability; ``one_of`` would count each branch of a nested one."""
    return st.sampled_from(strategies).flatmap(lambda strategy: strategy)


def arguments(function: Callable[..., Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Arguments for every parameter; often, valid ones precede an invalid one."""
    if function in (tf.config.set_logical_device_configuration, experimental.set_virtual_device_configuration):
        return st.tuples(either(listed, listed, anything), either(lists_of(good), lists_of(configurations), anything))
    if function is experimental.set_memory_growth:
        return st.tuples(either(listed, listed, anything), either(numbers, anything))
    count = len(inspect.signature(function).parameters)
    first = either(anything, listed) if count > 1 else either(atoms, anything)
    return st.tuples(first, *[either(atoms, anything)] * (count - 1))


@pytest.mark.parametrize("initialized", [False, True], ids=["before initialization", "after initialization"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_bad_arguments_raise_a_documented_error_and_change_nothing(
    function: Callable[..., Any], initialized: bool
) -> None:
    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=settings().max_examples // 2)
    @given(args=arguments(function))
    def hold(args: tuple[Any, ...]) -> None:
        before, blocks = state(), in_use() if initialized else None
        error = error_of(function, made(args))
        if error is None:
            start()
            return
        assert isinstance(error, ALLOWED)
        assert function in ASK_FOR_MEMORY or not isinstance(error, MemoryError)
        assert state() == before
        assert blocks is None or in_use() == blocks
        assert in_force() == usual  # initializes
        if not initialized:
            start()

    def start() -> None:
        tf.simulate("2xT4")
        for gpu in gpus():
            if function is experimental.set_memory_growth:  # a logical configuration would hide it from everything
                experimental.set_memory_growth(gpu, True)
            else:
                tf.config.set_logical_device_configuration(gpu, [L(10)])
        if initialized:
            initialize()

    start()
    usual = in_force()
    start()
    try:
        hold()
    finally:
        tf.config.run_functions_eagerly(False)
        experimental.enable_tensor_float_32_execution(True)


def error_of(function: Callable[..., Any], args: tuple[Any, ...]) -> BaseException | None:
    """What a call raises."""
    try:
        function(*args)
    except BaseException as error:
        return error
    return None


@given(
    args=st.lists(anything, max_size=4),
    names=st.lists(st.sampled_from(["device", "enable", "x"]), unique=True, max_size=2),
)
@example(args=[], names=[])
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_too_few_and_too_many_arguments_are_a_type_error(args: list[Any], names: list[str]) -> None:
    tf.simulate("T4")
    args = made(args)
    for function in (experimental.set_memory_growth, tf.config.list_physical_devices, tf.device):
        try:
            inspect.signature(function).bind(*args, **dict.fromkeys(names))
        except TypeError:
            with pytest.raises(TypeError):
                function(*args, **dict.fromkeys(names))


def test_an_error_of_the_callers_own_object_is_the_callers(two_gpus: None) -> None:
    with pytest.raises(RuntimeError, match="this object's __hash__ was called"):
        tf.config.set_visible_devices([Nasty("__hash__")], "GPU")
    with pytest.raises(RuntimeError, match="this object's __repr__ was called"):
        tf.config.set_visible_devices([Nasty("__repr__")], "GPU")
    assert tf.config.get_visible_devices("GPU") == gpus()


class Unprintable:
    """An object whose repr cannot be encoded."""

    def __repr__(self) -> str:
        return "a\0b\ud800c"


def test_a_device_that_prints_badly_is_still_an_unknown_device(one_gpu: None) -> None:
    for call in (
        lambda d: tf.config.set_visible_devices(d),
        experimental.get_memory_growth,
        lambda d: experimental.set_memory_growth(d, True),
        tf.config.get_logical_device_configuration,
        lambda d: tf.config.set_logical_device_configuration(d, [L(10)]),
    ):
        with refused(ValueError, r"Unrecognized device: a\x00b\ud800c"):
            call(Unprintable())
