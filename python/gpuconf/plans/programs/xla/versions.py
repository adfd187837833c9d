# SPDX-License-Identifier: Apache-2.0
"""With which JAX a rehearsal works: what of its insides is used is there, and so is the compiler for CUDA."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect

from ...._core import extras
from ...._typing import Any

FIRST = (0, 10, 2)  # 0.10.0 differs for meshes and for kernels of Pallas
_USED = {
    "jax._src.interpreters.pxla": ("lower_sharding_computation", "UnloadedMeshExecutable", "batched_device_put"),
    "jax._src.compiler": ("compile_or_get_cached",),
    "jax._src.xla_bridge": ("devices", "local_devices", "device_count", "local_device_count", "get_backend"),
}
_PARAMETERS = {
    ("jax._src.interpreters.pxla", "lower_sharding_computation"): ("closed_jaxpr", "fun_name", "lowering_platforms"),
    ("jax._src.compiler", "compile_or_get_cached"): ("backend", "computation", "devices", "compile_options"),
}


def why_not() -> str:
    """Return why the imported JAX cannot be rehearsed; "" if it can."""
    import jax

    if jax.__version_info__ < FIRST:
        first = ".".join(map(str, FIRST))
        return (
            f"gpuconf plan needs JAX {first} or newer, and this is JAX {jax.__version__}: pip install --upgrade "
            "'jax[cuda13]'"
        )
    for module, names in _USED.items():
        namespace: Any = importlib.import_module(module)
        lacks = [name for name in names if not hasattr(namespace, name)]
        lacks += [
            f"{name}({parameter})"
            for (owner, name), parameters in _PARAMETERS.items()
            if owner == module and name not in lacks
            for parameter in parameters
            if parameter not in inspect.signature(getattr(namespace, name)).parameters
        ]
        if lacks:
            return (
                f"gpuconf does not know JAX {jax.__version__}: {module} has no {lacks[0]}; it is tested with JAX 0.10.2"
            )
    return ""


def plugin() -> tuple[int, str]:
    """Return the CUDA version of JAX's plugin, and "". Without it: 0 and an error that names the extra."""
    error: ImportError | None = None
    for cuda in (13, 12):
        try:
            importlib.import_module(f"jax_plugins.xla_cuda{cuda}")  # JAX initializes it
        except ImportError as missing:
            error = error or missing
            continue
        has, needs = (importlib.metadata.version(name) for name in (f"jax-cuda{cuda}-plugin", "jaxlib"))
        if has.split(".")[:3] != needs.split(".")[:3]:
            return (
                0,
                f"jax-cuda{cuda}-plugin {has} does not match jaxlib {needs}: pip install --upgrade 'jax[cuda{cuda}]'",
            )
        return cuda, ""
    assert error is not None
    return 0, str(extras.missing("gpuconf plan of a JAX program needs", "JAX's plugin for CUDA", "jax-plan", error))
