# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and JAX follow the configuration, as far as their own settings go.

Their allocators cannot be replaced. So TensorFlow gets the same calls of its own ``tf.config``, and JAX its own
options, before they start: when they are imported, or at once if they are imported but have not started. A framework
that has started is left as it is, and that is logged. Simulated GPUs concern neither.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from .._core import import_hook, message, runtime
from .._core.devices import memory_limit_of
from .._core.generated.visible import VisibleDevice
from .._core.message import loads
from .._core.native import core, loaded
from .._typing import Any
from ._devices import get_logical_device_configuration, get_visible_devices, growth_as_set, list_physical_devices

NAMES = {"jax": "JAX", "tensorflow": "TensorFlow"}

_following = set(NAMES)
_passed_on: dict[tuple[str, str], Any] = {}  # to TensorFlow, by setting and device
_jax_visible = "all"  # what JAX's option is unless the user has set it
_variables: dict[str, str] = {}  # the environment variables that are ours


def follow(names: Iterable[str]) -> set[str]:
    """Choose the frameworks that follow from now on. Returns those that did."""
    before = set(_following)
    _following.clear()
    _following.update(names)
    return before


@runtime.on_forget
def _forget() -> None:
    """A reset discards the configuration, and with it the variables that are still ours.

    TensorFlow keeps what it got.
    """
    follow(NAMES)
    for name, value in _variables.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    _variables.clear()


@runtime.on_configured
def _configured() -> None:
    """Pass a change on to the frameworks that are imported, and to the others when they are imported."""
    if runtime.current.simulated:
        return
    for name in _following:
        if name in sys.modules:
            _pass_on_imported(name)
        else:
            _pass_on_later(name)


def _pass_on_later(name: str) -> None:
    import_hook.when_imported(name, lambda: _pass_on_imported(name))


def _pass_on_imported(name: str) -> None:
    """Pass the configuration on to a framework that is imported, and log what it did not take."""
    if name in _following and loaded() and runtime.enumerated():  # not loaded: in a forked child
        text = pass_on(name)
        if text.startswith("not "):
            message.log("info" if text.startswith("not passed on") else "warning", f"{NAMES[name]}: {text}")


def pass_on(name: str) -> str:
    """Pass the configuration on to a framework: now if it is imported, else on import. Returns a status text."""
    if runtime.simulated() and (name in sys.modules or import_hook.installed(name)):
        return f"not passed on: the GPUs are simulated ({runtime.simulated()})"
    finders = [type(finder).__module__ for finder in sys.meta_path]
    if name == "tensorflow" and "gpuconf.compat._as_tensorflow" in finders:
        return "gpuconf itself: install_as_tensorflow() was called"
    if name not in sys.modules:
        if not import_hook.installed(name):
            return "not installed"
        _pass_on_later(name)
    if started(name):
        return "not changed: it has already started, and it uses its own allocator"
    try:
        said = _pass_on_to_jax() if name == "jax" else _pass_on_to_tensorflow()
    except Exception as error:  # of the framework; it must fail neither its import nor a call of gpuconf.config
        return f"not all passed on: {type(error).__name__}: {error}"
    return said if said.startswith("not ") else f"{said}: it uses its own allocator, outside gpuconf's limits"


def started(name: str) -> bool:
    """Report whether a framework has read its settings. Neither has a public function for that which starts nothing."""
    if name == "jax":
        bridge = sys.modules.get("jax._src.xla_bridge")
        return bool(getattr(bridge, "backends_are_initialized", bool)())
    module = sys.modules.get("tensorflow.python.eager.context")
    return bool(getattr(getattr(module, "context_safe", bool)(), "_initialized", False))


# TensorFlow


def _pass_on_to_tensorflow() -> str:
    said = "".join(
        f" ({variable})"
        for variable in _set_variables({"TF_FORCE_GPU_ALLOW_GROWTH": runtime.current.overrides.get("GPUCONF_GROWTH")})
    )
    if "tensorflow" not in sys.modules:
        return f"passed on at import{said}"
    config = sys.modules["tensorflow"].config
    settings = _settings()
    all_gpus = [gpu.name for gpu in list_physical_devices("GPU")]
    before = {**dict.fromkeys(settings), ("visible", ""): all_gpus, **_passed_on}
    changes = {key: value for key, value in settings.items() if before[key] != value}
    theirs = {device.name: device for device in config.list_physical_devices()} if changes else {}
    unseen: set[str] = set()
    for (what, name), value in changes.items():
        missing = {name for name in ([name] if name else value) if name not in theirs}
        if missing:
            unseen |= missing
        elif what == "visible":
            config.set_visible_devices([theirs[name] for name in value], "GPU")
        elif what == "growth":
            config.experimental.set_memory_growth(theirs[name], value)
        else:
            logical = [config.LogicalDeviceConfiguration(*fields) for fields in value]
            config.set_logical_device_configuration(theirs[name], logical)
        if not missing:
            _passed_on[what, name] = value
    if unseen:
        return f"not passed on: it does not see {', '.join(sorted(unseen))}"
    return f"passed on through tf.config{said}" if _passed_on else f"nothing to pass on{said}"


def _settings() -> dict[tuple[str, str], Any]:
    """Return what is set: the visible GPUs, and growth and logical devices of each device that has them."""
    settings: dict[tuple[str, str], Any] = {("visible", ""): [gpu.name for gpu in get_visible_devices("GPU")]}
    for gpu in list_physical_devices("GPU"):
        growth = growth_as_set(gpu)
        if growth is not None:
            settings["growth", gpu.name] = bool(growth)
    for device in list_physical_devices():
        logical = get_logical_device_configuration(device)
        if logical is not None:
            settings["logical", device.name] = [
                (memory_limit_of(entry), entry.experimental_priority, entry.experimental_device_ordinal)
                for entry in logical
            ]
    return settings


# JAX


def _pass_on_to_jax() -> str:
    global _jax_visible
    wanted: dict[str, str | None] = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": _preallocate(),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": _fraction(),
    }
    if "XLA_CLIENT_MEM_FRACTION" in os.environ:  # the newer name; JAX refuses both
        wanted["XLA_PYTHON_CLIENT_MEM_FRACTION"] = None
    said = _set_variables(wanted)
    visible = _ordinals()
    if "jax" in sys.modules:  # it has an option for this, and no variable
        options = sys.modules["jax"].config
        if options.values["jax_cuda_visible_devices"] == _jax_visible:
            options.update("jax_cuda_visible_devices", visible)
            _jax_visible = visible
    if visible != "all":
        said.append(f"jax_cuda_visible_devices={visible}")
    return f"settings only ({', '.join(said)})" if said else "nothing to pass on"


def _ordinals() -> str:
    """Return the CUDA ordinals of the visible GPUs for JAX, or "all".

    "all" as well if no GPU is visible. JAX has no such list, and ``set_visible_devices([], "GPU")`` is how programs
    keep TensorFlow off the GPUs that JAX is to use.
    """
    visible = [gpu.name for gpu in get_visible_devices("GPU")]
    if not visible or visible == [gpu.name for gpu in list_physical_devices("GPU")]:
        return "all"
    listed = map(VisibleDevice._read, loads(core.pybind_Identities()))
    ordinals = {device.physical_device: device.cuda_ordinal for device in listed}
    return ",".join(str(ordinals[name]) for name in visible)


def _fraction() -> str | None:
    """Return the part of a GPU's memory that JAX may take, so that no visible GPU exceeds its limit.

    JAX has one for all GPUs.
    """
    fractions = []
    for gpu in get_visible_devices("GPU"):
        logical = get_logical_device_configuration(gpu)
        if logical:
            total = runtime.details_of(gpu).total_bytes
            mib = sum(int(configuration.memory_limit) for configuration in logical) // 2 * 2  # JAX rounds up to 2 MiB
            fractions.append(min((mib << 20) * 10**6 // total, 10**6))
    return f"{min(fractions) / 10**6:.6f}" if fractions else None


def _preallocate() -> str | None:
    forced = runtime.current.overrides.get("GPUCONF_GROWTH")
    growth = [growth_as_set(gpu) for gpu in get_visible_devices("GPU")]
    if forced is None and any(value is not None for value in growth):
        forced = "true" if any(growth) else "false"
    return None if forced is None else {"true": "false", "false": "true"}[forced]


def _set_variables(wanted: dict[str, str | None]) -> list[str]:
    """Set environment variables, or unset them for None.

    Variables that the user has set are kept. Returns them as NAME=VALUE.
    """
    for name, value in wanted.items():
        if name in os.environ and os.environ[name] != _variables.get(name):
            continue  # the user's
        if value is None:
            os.environ.pop(name, None)
            _variables.pop(name, None)
        else:
            os.environ[name] = _variables[name] = value
    return [f"{name}={os.environ[name]}" for name, value in wanted.items() if value is not None]
