# SPDX-License-Identifier: Apache-2.0
"""Compiles what a program of JAX would execute for a card without having it. JAX is imported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence

import jax
import numpy
from jax._src import compiler
from jax._src.interpreters import mlir, pxla
from jax._src.lib import xla_client
from jax.experimental import topologies

from ...._core.stacks import Frame, call_site
from ...._typing import Any
from .tuning import Tuned, tuned
from .work import Work, has_gradient, places_of, primitives, updates, work_of

_LIBRARY = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep
_OWN = os.path.abspath(__file__).rpartition("plans")[0]
_MOST_FRAMES = 24
_KERNELS = {"pallas_call": "Pallas", "triton_kernel_call": "Triton", "mosaic_gpu": "Pallas (Mosaic)"}
_CALLBACKS = ("xla_python", "xla_ffi_python", "xla_ffi_partitioned_python")
_COLLECTIVES = re.compile(r" (?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")


class Function:
    """A function that the program has JAX execute, for one set of shapes."""

    def __init__(self, name: str, stack: tuple[Frame, ...], work: Work) -> None:
        self.name: str = name
        self.stack: tuple[Frame, ...] = stack
        self.work: Work = work
        self.is_own = True  # the program's or a library's, and not JAX's
        self.calls = 0
        self.computation: Any = None  # lowered for the card
        self.is_compiled = False
        self.is_computed = True  # by the CPU
        self.kernel = ""  # the kinds of kernels in it that XLA does not write itself
        self.on_host = False
        self.has_callbacks = False
        self.updated: list[int] = []  # which results take the place of arguments
        self.replaced: dict[int, str] = {}  # those arguments that are not donated, and their names
        self.has_gradient = self.has_scans = self.has_checkpoints = False
        self.arguments = self.outputs = self.aliased = self.temporary = self.peak = 0
        self.aliases: dict[int, int] = {}  # the argument of a result that takes its memory
        self.donated: frozenset[int] = frozenset()  # arguments that are gone after a call
        self.convolutions = 0
        self.collectives = False
        self.tuned: list[Tuned] = []
        self.gpus = 1

    @property
    def place(self) -> str:
        """Where the program first called it."""
        site = call_site(self.stack)
        return f"{site[0]}:{site[1]}" if site else ""

    def told(self) -> dict[str, Any]:
        """Return what is reported of it. Sizes are in bytes, on one card."""
        names = ("name", "place", "calls", "arguments", "outputs", "aliased", "temporary", "peak", "gpus")
        return {name: getattr(self, name) for name in names}


class Compiler:
    """Stands between JAX and XLA.

    ``refuse`` is called with the reason why a function cannot be compiled, and does not return.
    """

    def __init__(
        self, description: str, host: int, *, computes: bool, donates: bool, refuse: Callable[[str], None]
    ) -> None:
        self._description, self._host, self._computes, self._refuse = description, host, computes, refuse
        self._donates = donates  # what a step replaces
        self._topologies: dict[int, Any] = {}
        self._for_card: dict[int, tuple[Any, Function]] = {}  # modules by their id, which they keep
        self._for_host: dict[int, tuple[Any, Function]] = {}
        self._executables: dict[int, tuple[Any, Function]] = {}
        self.functions: list[Function] = []
        self._lower = pxla.lower_sharding_computation
        self._compile = compiler.compile_or_get_cached

    def install(self) -> None:
        """Take the place of JAX's functions."""
        pxla.lower_sharding_computation = self._lowered
        compiler.compile_or_get_cached = self._compiled
        backend_of = mlir.ModuleContext.get_backend

        def get_backend(context: Any, *args: Any, **named: Any) -> Any:
            """Return the CPU's, which calls back to Python, also where the lowering is for a card."""
            if "cuda" in context.platforms:
                return jax.devices()[0].client
            return backend_of(context, *args, **named)

        mlir.ModuleContext.get_backend = get_backend
        self._refuse_attention()

    def _refuse_attention(self) -> None:
        """Refuse attention by cuDNN, which JAX looks for before it traces it."""
        from jax._src.cudnn import fused_attention_stablehlo

        def refused(*_args: Any) -> None:
            self._refuse(
                "JAX cannot compile attention by cuDNN without a GPU (__cudnn$fmhaSoftmax): leave out "
                "implementation='cudnn'"
            )

        for name in ("check_cudnn_version", "check_compute_capability"):
            if hasattr(fused_attention_stablehlo, name):
                setattr(fused_attention_stablehlo, name, refused)

    def _name_the_card_to_pallas(self) -> None:
        """Name the compute capability for which Pallas compiles:
        JAX 0.11 asks a GPU for it, and older ones assume Hopper's.
        """
        try:
            from jax._src.pallas.triton import gpu_info
        except ImportError:
            return
        found = re.search(r"cuda_compute_capability \{ major: (\d+) minor: (\d+)", self._description)
        if found:
            major, minor = int(found[1]), int(found[2])
            card = gpu_info.GpuInfo(
                gpu_version=None, arch_name=f"{major}.{minor}", compute_capability=10 * major + minor
            )
            gpu_info.get_gpu_info = lambda: card

    def function_of(self, executable: Any) -> Function | None:
        """Return the function that an executable is of."""
        found = self._executables.get(id(executable))
        return None if found is None else found[1]

    def _lowered(self, closed_jaxpr: Any, api_name: str, fun_name: str, *args: Any, **named: Any) -> Any:
        if named.get("lowering_platforms") is not None:  # jax.export, and lower() for another platform
            return self._lower(closed_jaxpr, api_name, fun_name, *args, **named)
        function = Function(fun_name, stack(), work_of(closed_jaxpr.jaxpr))
        names = primitives(closed_jaxpr.jaxpr)
        function.is_own = (
            not (closed_jaxpr.jaxpr.debug_info.func_filename or _LIBRARY).startswith(_LIBRARY) or "shard_map" in names
        )
        function.kernel = ", ".join(sorted({_KERNELS[name] for name in names & _KERNELS.keys()}))
        if function.kernel:
            self._name_the_card_to_pallas()
        if function.is_own:
            self._look_at(function, closed_jaxpr, args[4])
            if self._donates and function.replaced:
                donated = tuple(one or number in function.replaced for number, one in enumerate(args[4]))
                args = (*args[:4], donated, *args[5:])
        function.is_computed = self._computes or function.work.is_small
        on_cpu = self._lowered_for_cpu(function, closed_jaxpr, api_name, fun_name, *args, **named)
        if on_cpu is not None and self._is_on_host(on_cpu):
            function.on_host = True
        elif on_cpu is None or function.is_own or not function.work.is_trifle:
            on_card = self._lowered_for_card(function, closed_jaxpr, api_name, fun_name, *args, **named)
            if self._is_on_host(on_card):
                function.on_host = True
                on_cpu = on_cpu if on_cpu is not None else self._lower(closed_jaxpr, api_name, fun_name, *args, **named)
            else:
                function.computation = on_card
                self._for_card[id(on_card.stablehlo())] = (on_card.stablehlo(), function)
        if on_cpu is not None:
            self._for_host[id(on_cpu.stablehlo())] = (on_cpu.stablehlo(), function)
        self.functions.append(function)
        return on_cpu if on_cpu is not None else function.computation

    def _look_at(self, function: Function, closed_jaxpr: Any, donated: Sequence[bool]) -> None:
        """Note what is known of a function of the program's before it is compiled."""
        jaxpr, names = closed_jaxpr.jaxpr, primitives(closed_jaxpr.jaxpr)
        given, returned = (list(filter(_has_shape, some)) for some in (closed_jaxpr.in_avals, closed_jaxpr.out_avals))
        function.updated = updates(jaxpr, given, returned, donates=any(donated))
        function.has_gradient = has_gradient(jaxpr)
        function.has_scans, function.has_checkpoints = "scan" in names, "checkpoint" in names
        if len(given) == len(closed_jaxpr.in_avals) == len(donated):
            labels = jaxpr.debug_info.arg_names or [""] * len(given)
            places = places_of([returned[number] for number in function.updated], given)
            function.replaced = {place: labels[place] or "" for place in places if not donated[place]}

    def _lowered_for_cpu(self, function: Function, *args: Any, **named: Any) -> Any:
        """Return a function as the CPU computes it; None if it shall not, or has no such kernel."""
        if not function.is_computed:
            return None
        try:
            return self._lower(*args, **named)
        except (NotImplementedError, ValueError):
            if self._computes or not function.kernel:
                raise
            function.is_computed = False
            return None

    def _lowered_for_card(self, function: Function, closed_jaxpr: Any, *args: Any, **named: Any) -> Any:
        try:
            return self._lower(closed_jaxpr, *args, **{**named, "lowering_platforms": ("cuda",)})
        except Exception as error:
            self._refuse(_cannot(function, _first_line(error)))
            raise

    def _is_on_host(self, computation: Any) -> bool:
        devices = computation._device_list
        return devices is not None and all(device.id == self._host for device in devices)

    def _compiled(
        self, backend: Any, computation: Any, devices: Any, compile_options: Any, *args: Any, **named: Any
    ) -> Any:
        entry = self._for_card.get(id(computation))
        if entry is not None:
            return self._compiled_for_card(entry[1], computation, devices.size, compile_options)
        entry = self._for_host.get(id(computation))
        if entry is None:
            return self._compile(backend, computation, devices, compile_options, *args, **named)
        function = entry[1]
        on_card = None
        if function.computation is not None and not function.is_compiled:
            on_card = function.computation.compile().xla_executable
        try:
            executable = self._compile(backend, computation, devices, compile_options, *args, **named)
        except Exception:
            if on_card is None or self._computes:
                raise
            function.is_computed, executable = False, on_card  # a kernel that the CPU does not have
        self._executables[id(executable)] = (executable, function)
        return executable

    def _topology(self, gpus: int) -> list[Any]:
        if gpus not in self._topologies:
            found = topologies.get_topology_desc(
                platform="cuda", target_config=self._description, topology=f"1x1x{gpus}"
            )
            self._topologies[gpus] = found.devices
        devices: list[Any] = self._topologies[gpus]
        return devices

    def _compiled_for_card(self, function: Function, module: Any, gpus: int, options: Any) -> Any:
        devices = self._topology(gpus)
        options.device_assignment = xla_client.DeviceAssignment.create(numpy.arange(gpus).reshape(1, gpus))
        try:
            executable = compiler.backend_compile_and_load(
                devices[0].client, module, xla_client.DeviceList(tuple(devices)), options, []
            )
            text = executable.hlo_modules()[0].to_string()
        except Exception as error:
            self._refuse(_cannot(function, _custom_call(error) + _first_line(error)))
            raise
        _read(function, executable.get_compiled_memory_stats(), text, gpus)
        function.donated = _donated(module)
        function.has_callbacks = any(name in text for name in _CALLBACKS)
        self._executables[id(executable)] = (executable, function)
        return executable


def stack() -> tuple[Frame, ...]:
    """Return the calls of the program and of its libraries, innermost first, without JAX and gpuconf."""
    frame, frames = sys._getframe(1), list[Frame]()
    while frame is not None and len(frames) < _MOST_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith((_LIBRARY, _OWN, "<frozen")):
            frames.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(frames)


def _has_shape(aval: Any) -> bool:
    return hasattr(aval, "shape") and hasattr(aval, "dtype")


def _read(function: Function, stats: Any, text: str, gpus: int) -> None:
    """Take over what XLA says of its assignment of buffers: sizes on one card."""
    function.is_compiled, function.gpus = True, gpus
    function.arguments, function.outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
    function.aliased, function.temporary = stats.alias_size_in_bytes, stats.temp_size_in_bytes
    function.peak = function.arguments + function.outputs - function.aliased + function.temporary
    head = text.partition("\n")[0]
    start = head.find("input_output_alias={")
    if start >= 0:
        pairs = re.findall(r"\{(\d*)\}: \((\d+), \{\}", head[start:])
        function.aliases = {int(result or 0): int(argument) for result, argument in pairs}
    function.convolutions = text.count('custom_call_target="__cudnn$conv')
    function.collectives = _COLLECTIVES.search(text) is not None
    function.tuned = tuned(text)


def _donated(module: Any) -> frozenset[int]:
    """Return the arguments of a lowered module whose memory a call may take."""
    for operation in module.body.operations:
        if "arg_attrs" in operation.attributes and operation.attributes["sym_name"].value == "main":
            marks = ("tf.aliasing_output", "jax.buffer_donor")
            return frozenset(
                n for n, one in enumerate(operation.attributes["arg_attrs"]) if any(mark in one for mark in marks)
            )
    return frozenset()


def _cannot(function: Function, why: str) -> str:
    at = f" ({os.path.basename(function.place)})" if function.place else ""
    kernel = f"it has a kernel of {function.kernel}: " if function.kernel else ""
    return f"XLA cannot compile {function.name}{at} without a GPU: {kernel}{why}"


def _custom_call(error: Exception) -> str:
    """Return which custom call XLA's error is about; "" for other errors."""
    found = re.search(
        r"(?:custom[ -]call|handler)[^\n]*?(?:target|to|for|named)?\s*[\"'`]?([_$\w.]+\$[\w.$]+|__\w+)",
        str(error),
        re.I,
    )
    return f"custom call {found[1]}: " if found else ""


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{type(error).__name__}: {lines[0]}"[:300]
