# SPDX-License-Identifier: Apache-2.0
"""``import tensorflow`` finds gpuconf: :func:`install_as_tensorflow`.

``tensorflow`` is the module ``gpuconf.compat.v2``, and a submodule of it is whatever module has that name there. So
every module exists once, under its own name: ``tensorflow.compat.v1 is gpuconf.compat.v1``, and pickles and tracebacks
name gpuconf.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from .. import errors
from .._missing import reason
from .._typing import Any

_ROOTS = {1: "gpuconf.compat.v1", 2: "gpuconf.compat.v2"}

# TensorBoard imports this module, which it does not have, and uses its own stub of TensorFlow's files if the import
# succeeds.
_NO_TENSORFLOW = "tensorboard.compat.notf"


class _Finder:
    """Finds ``tensorflow`` and everything below it. No other finder is called for these names.

    Python's own finder would look for ``tensorflow.x`` in the folder of ``gpuconf.compat.v2`` and load a module there
    again.
    """

    def __init__(self, version: int) -> None:
        self.version = version

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _NO_TENSORFLOW:
            return ModuleSpec(name, _Loader(ModuleType(name)))
        if not _is_tensorflow(name):
            return None
        module = _module(name, self.version)
        return ModuleSpec(
            name, _Loader(module), origin=getattr(module, "__file__", None), is_package=hasattr(module, "__path__")
        )

    def find_distributions(self, context: Any = None) -> list[Any]:
        """Return what ``importlib.metadata`` shall find: TensorFlow, in the version that gpuconf is compared with."""
        name = getattr(context, "name", None)
        if name is not None and name.lower().replace("_", "-") != "tensorflow":
            return []
        return [_distribution(self.version)]


def _distribution(version: int) -> Any:
    """Return the metadata of a package without files, and with the version that gpuconf is compared with.

    That is 1.15.5 for TensorFlow 1.
    """
    from importlib.metadata import Distribution

    from ._facts import VERSION

    class TensorFlow(Distribution):
        """TensorFlow as ``importlib.metadata`` finds it while gpuconf stands in for it."""

        def read_text(self, filename: str) -> str | None:
            """Return the text of a file of the metadata; None for those that there are not."""
            if filename != "METADATA":
                return None
            number = VERSION if version == 2 else "1.15.5"
            summary = "gpuconf stands in for TensorFlow in this process"
            return f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {number}\nSummary: {summary}\n"

        def locate_file(self, path: Any) -> Any:
            """Return the path itself: there are no files."""
            return path

    return TensorFlow()


class _Loader(Loader):
    """Puts a module that is already loaded into ``sys.modules`` under a second name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what it finds here. Returning the module from create_module would change its __spec__.
        sys.modules[module.__name__] = self._module


def _module(name: str, version: int = 2) -> ModuleType:
    """Return gpuconf's module for a name, whose parent the import system has already imported. Raises ImportError."""
    package, _, own = name.rpartition(".")
    if not package:
        return import_module(_ROOTS[version])
    if package == "tensorflow" and own == _API:
        return _folder(name)
    if package == f"tensorflow.{_API}":
        if own in ("v1", "v2"):
            return import_module(f"gpuconf.compat.{own}")
        raise ModuleNotFoundError(
            f"No module named {name!r}: gpuconf, which stands in for TensorFlow, does not have it", name=name
        )
    parent = sys.modules[package]
    if parent.__name__ == _ROOTS[1] and own in _ONLY_IN_2:
        parent = sys.modules[_ROOTS[2]]
    if not own.startswith("_"):
        found = vars(parent).get(own)  # also an alias, as config is in compat.v1
        if isinstance(found, ModuleType) and found.__name__.startswith("gpuconf."):
            return found
        full = f"{parent.__name__}.{own}"
        try:
            return import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    why = reason(parent.__name__, own) or "gpuconf, which stands in for TensorFlow, does not have it"
    if "tf_keras" in sys.modules:  # Keras 2
        why += (
            ". tf_keras needs TensorFlow itself. Keras 3 runs without it: set KERAS_BACKEND=torch or jax, and "
            "import keras"
        )
    elif "keras" in sys.modules:  # Keras 3, which imports the modules of its backend
        why += ". Keras runs with another backend: set KERAS_BACKEND=torch or jax before it is imported"
    raise ModuleNotFoundError(f"No module named {name!r}: {why}", name=name)


# The folder of TensorFlow's wheel that holds its public modules: editors complete imports to it.
_API = "_api"


def _folder(name: str) -> ModuleType:
    folder = ModuleType(name, "The public modules, by the path that TensorFlow's wheel has.")
    folder.__path__ = []
    return folder


# What compat.v1 has in TensorFlow 1, and gpuconf keeps below compat.v2.
_ONLY_IN_2 = ("core", "python")


def _is_tensorflow(name: str) -> bool:
    return name == "tensorflow" or name.startswith("tensorflow.")


def install_as_tensorflow(version: int = 2) -> None:
    """Let ``import tensorflow`` in this process find gpuconf, for programs that cannot be changed.

    ``tensorflow`` is then the module ``gpuconf.compat.v2``, ``tensorflow.compat.v1`` is ``gpuconf.compat.v1``, and so
    on. With ``version=1`` it is ``gpuconf.compat.v1``, whose operations build graphs: for ``tf.ConfigProto()`` and
    ``tf.Session()`` of TensorFlow 1. Importing a module that gpuconf does not have raises ModuleNotFoundError. Call it
    before TensorFlow is imported; a second call for the same version has no effect. It covers this process and
    children that it forks. ``gpuconf run --as-tensorflow`` covers all child processes.

    Raises ValueError for another version, and RuntimeError if TensorFlow itself is already imported, or if the other
    version is installed.

    >>> install_as_tensorflow()
    >>> import tensorflow as tf
    >>> tf
    <module 'gpuconf.compat.v2' from ...>
    """
    if version not in _ROOTS:
        raise errors.InvalidArgumentError(f"version must be 1 or 2, but got {version!r}")
    installed = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if installed is not None and installed.version != version:
        raise errors.FailedPreconditionError(
            f"gpuconf is installed as tensorflow {installed.version} in this process, and cannot be {version}, too"
        )
    if installed is not None:
        return
    loaded = sys.modules.get("tensorflow")
    if loaded is not None:
        raise errors.FailedPreconditionError(
            "cannot install gpuconf as tensorflow: TensorFlow itself is already imported "
            f"({getattr(loaded, '__file__', None) or 'from no file'}). "
            "Call install_as_tensorflow() before the first import of tensorflow"
        )
    sys.meta_path.insert(0, _Finder(version))
    if version == 1:
        from .v1._mode import disable_v2_behavior

        disable_v2_behavior()
