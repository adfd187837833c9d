"""Names of TensorFlow that gpuconf does not have: the errors say so, and what to use instead.

``gpuconf.test`` once raised "Did you mean: 'reset'?".
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import gpuconf
import gpuconf.compat.v1
import gpuconf.compat.v2
import pytest
from gpuconf import _missing
from script import execute, run_well

ROOTS = ("gpuconf", "gpuconf.compat.v1", "gpuconf.compat.v2")
# What of TensorFlow's modules each of them has.
MODULES = {
    root: [path for path in _missing.names() if (f"{root}.{path}" if path else root) in sys.modules] for root in ROOTS
}


@pytest.mark.parametrize("root", MODULES)
def test_each_name_is_there_or_says_why_not(root: str) -> None:
    assert len(MODULES[root]) >= 5
    missed = 0
    for path in MODULES[root]:
        module = sys.modules[f"{root}.{path}" if path else root]
        for name in _missing.names()[path]:
            if hasattr(module, name):
                continue
            with pytest.raises(AttributeError) as caught:
                getattr(module, name)
            missed += 1
            full = f"{path}.{name}" if path else name
            assert f"gpuconf does not have tf.{full}: " in str(caught.value) or ": use gpuconf." in str(caught.value)
            assert caught.value.obj is None, "nothing that Python could suggest a name from"
    assert missed > 500


@pytest.mark.parametrize("root", MODULES)
def test_a_name_that_is_elsewhere_is_found_where_the_error_says(root: str) -> None:
    for path in MODULES[root]:
        module = f"{root}.{path}" if path else root
        for name in _missing.names()[path]:
            if (why := _missing.reason(module, name)).startswith("use "):
                there, _, found = why.removeprefix("use ").rpartition(".")
                assert hasattr(importlib.import_module(there), found)


INSTALL = "import gpuconf; gpuconf.install_as_tensorflow()"
LAYERS = (
    "does not have tf.keras.wrappers: it needs TensorFlow. Keras 3 runs without it: set KERAS_BACKEND=torch or "
    "jax, and import keras"
)


@pytest.mark.parametrize(
    ("program", "kind", "text"),
    [
        ("import gpuconf\ngpuconf.keras", "AttributeError", ": use gpuconf.compat.v2.keras"),
        ("from gpuconf import keras", "ImportError", ": use gpuconf.compat.v2.keras"),
        ("import gpuconf.estimator", "ModuleNotFoundError", "gpuconf does not have tf.estimator: it needs TensorFlow, "
                                                            "up to 2.15"),
        ("import gpuconf.compat.v2 as tf\ntf.audio.x(1)", "AttributeError", "tf.audio: it needs TensorFlow"),
        ("import gpuconf.compat.v2.audio.x", "ModuleNotFoundError", "does not have tf.audio: it needs TensorFlow"),
        ("from gpuconf.compat.v1 import audio", "ImportError", "gpuconf does not have tf.audio: it needs TensorFlow"),
        ("import gpuconf.compat.v1 as tf\ntf.contrib", "AttributeError", "tf.contrib: TensorFlow 2 removed it"),
        ("import gpuconf\ngpuconf.Session()", "AttributeError", ": use gpuconf.compat.v1.Session"),
        ("from gpuconf.compat.v2 import ConfigProto", "ImportError", ": use gpuconf.compat.v1.ConfigProto"),
        ("from gpuconf.compat.v2.test import TestCase", "ImportError", "does not have tf.test.TestCase: it needs "
                                                                       "TensorFlow"),
        ("import gpuconf\ngpuconf.memory_stats", "AttributeError", ": use gpuconf.memory.stats()"),
        ("import gpuconf\ngpuconf.list_physical_devices()", "AttributeError", ": use "
                                                                              "gpuconf.config.list_physical_devices"),
        ("import gpuconf.config\ngpuconf.config.set_memory_growth", "AttributeError",
         ".config.experimental.set_memory_growth"),
        ("from gpuconf import set_limit", "ImportError", ': use gpuconf.configure(limit="6GiB")'),
        (f"{INSTALL}; from tensorflow.keras.wrappers import scikit_learn", "ModuleNotFoundError", LAYERS),
        (f"{INSTALL}; from tensorflow.keras import wrappers", "ImportError", LAYERS),
        (
            f"{INSTALL}; import tensorflow as tf; tf.keras.callbacks.ModelCheckpoint()",
            "AttributeError",
            "gpuconf does not have tf.keras.callbacks.ModelCheckpoint: it needs TensorFlow. Keras 3 runs without it: "
            "set KERAS_BACKEND=torch or jax, and import keras",
        ),
        (
            f"{INSTALL}; import sys; sys.modules['tf_keras'] = sys; import tensorflow.python.util.tf_export",
            "ModuleNotFoundError",
            "tf_keras needs TensorFlow itself. Keras 3 runs without it: set KERAS_BACKEND=torch or jax, and import "
            "keras",
        ),
    ],
    ids=lambda text: text.replace("\n", "; ") if "import" in text else "",
)  # fmt: skip
def test_what_a_program_sees(program: str, kind: str, text: str) -> None:
    done = execute([sys.executable, "-c", program])
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{kind}: ")
    assert last.endswith(text)
    assert "Did you mean" not in done.stderr


def test_names_that_tensorflow_does_not_have_either() -> None:
    for module, name, near in (
        (gpuconf, "rese", r": did you mean 'reset'\?"),
        (gpuconf, "rest", ""),
        (gpuconf.config, "nothing", ""),
        (gpuconf.compat.v2, "reset", ""),
        (gpuconf.errors, "x", ""),
    ):
        with pytest.raises(AttributeError, match=f"^module {module.__name__!r} has no attribute {name!r}{near}$"):
            getattr(module, name)
        assert not hasattr(module, name)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'gpuconf.config.gpus': use gpuconf.visible_dev"):
        importlib.import_module("gpuconf.config.gpus")
    with pytest.raises(ImportError, match=r"cannot import name 'list_gpus' from 'gpuconf.config'"):
        from gpuconf.config import list_gpus  # type: ignore[attr-defined]  # noqa: F401


def test_both_versions_have_the_other() -> None:
    """``tf.compat.v1`` works after ``import tensorflow.compat.v1 as tf``, too."""
    for version in (gpuconf.compat.v1, gpuconf.compat.v2):
        assert version.compat is gpuconf.compat


def test_probing_still_works() -> None:
    tf: Any = gpuconf.compat.v2
    assert not hasattr(tf, "audio")
    assert getattr(tf, "estimator", None) is None
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("gpuconf.keras")
    assert caught.value.name == "gpuconf.keras"


def test_the_table_is_read_only_when_a_name_is_missed() -> None:
    run_well("""
        import gpuconf, gpuconf.compat.v1 as tf
        from gpuconf import _missing
        tf.Session, tf.ConfigProto, gpuconf.config
        assert not _missing._names
        assert not hasattr(tf, "__wrapped__") and not _missing._names
        assert not hasattr(tf, "audio") and _missing._names
    """)


@pytest.mark.parametrize("name", ["raw_ops", "ragged", "random.stateless_normal"])
def test_operations_that_need_tensorflow_say_so(name: str) -> None:
    *folder, last = name.split(".")
    module = gpuconf.compat.v2.random if folder else gpuconf.compat.v2
    with pytest.raises(AttributeError, match=rf"gpuconf does not have tf\.{re.escape(name)}: it needs TensorFlow$"):
        getattr(module, last)
