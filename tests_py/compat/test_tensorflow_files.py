"""``tf.io.gfile`` and ``tf.data.Options``, and private paths of TensorFlow: what TensorFlow 2.21 does with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import pytest
from script import run_well

gfile = tf.io.gfile


def test_files(tmp_path: Path) -> None:
    folder = gfile.join(str(tmp_path), "a", "b")
    gfile.makedirs(folder)
    gfile.makedirs(folder)
    with gfile.GFile(gfile.join(folder, "x.txt"), "w") as file:
        file.write("one\ntwo\n")
    with tf1.gfile.Open(f"file://{folder}/x.txt") as file:
        assert (file.readline(), file.read(), file.size()) == ("one\n", "two\n", 8)
    with gfile.GFile(f"{folder}/x.txt", "rb") as file:
        assert list(file) == [b"one\n", b"two\n"]
    gfile.copy(f"{folder}/x.txt", f"{folder}/y.txt")
    gfile.rename(f"{folder}/y.txt", f"{folder}/z.txt")
    assert sorted(gfile.listdir(folder)) == ["x.txt", "z.txt"]
    assert gfile.glob(f"{folder}/*.txt") == [f"{folder}/x.txt", f"{folder}/z.txt"]
    assert next(iter(gfile.walk(str(tmp_path))))[1] == ["a"]
    gfile.remove(f"{folder}/z.txt")
    assert tf1.gfile.Exists(folder)
    assert gfile.isdir(folder)
    assert gfile.stat(f"{folder}/x.txt").st_size == 8
    gfile.rmtree(folder)
    assert not gfile.exists(folder)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (gfile.listdir, tf.errors.NotFoundError, "Could not find directory "),
        (lambda path: gfile.GFile(path).read(), tf.errors.NotFoundError, "{path}; No such file or directory"),
        (gfile.remove, tf.errors.NotFoundError, "{path}; No such file or directory"),
        (lambda path: gfile.mkdir(f"{path}/x"), tf.errors.NotFoundError, "{path}/x; No such file or directory"),
        (lambda path: gfile.rename(path, f"{path}2"), tf.errors.NotFoundError, "{path}; No such file or directory"),
        (gfile.rmtree, tf.errors.NotFoundError, "{path} not found"),
        (lambda path: gfile.GFile(path, "q"), tf.errors.InvalidArgumentError, "mode is not "),
        (lambda _: gfile.exists(3), TypeError, "Expected binary or unicode string, got 3"),
        (lambda _: gfile.exists("gs://b/x"), tf.errors.UnimplementedError, "File system scheme 'gs' not implemented"),
    ],
)
def test_errors_of_files(tmp_path: Path, call: Any, kind: type[Exception], text: str) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(kind) as caught:
        call(path)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text.format(path=path))


def test_options_of_datasets() -> None:
    options = tf.data.Options()
    assert (options.deterministic, options.threading.private_threadpool_size, options.autotune.enabled) == (
        None,
        None,
        None,
    )
    assert options.experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.AUTO
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.experimental_deterministic = False
    options.experimental_optimization.map_parallelization = True
    assert options.deterministic is False
    assert options != tf.data.Options()
    with pytest.raises(AttributeError, match=r"^Cannot set the property nope on Options\.$"):
        options.nope = 3
    with pytest.raises(TypeError, match="Property \"deterministic\" must be of type <class 'bool'>, got: 3"):
        options.deterministic = 3


def test_private_modules_have_the_public_functions() -> None:
    run_well("""
        import gpuconf
        gpuconf.install_as_tensorflow()
        import tensorflow as tf
        from tensorflow.python.framework import graph_util, test_util
        from tensorflow.python.ops import math_ops, variable_scope
        from tensorflow.python.training.server_lib import ClusterSpec
        import tensorflow.python.distribute.mirrored_strategy as mirrored
        assert test_util.is_gpu_available is tf.test.is_gpu_available
        assert math_ops.matmul is tf.matmul
        assert variable_scope.get_variable is tf.compat.v1.get_variable
        assert ClusterSpec is tf.train.ClusterSpec
        assert mirrored.MirroredStrategy is tf.distribute.MirroredStrategy
        for action in (
            lambda: graph_util.remove_training_nodes,
            lambda: math_ops.no_such_function,
        ):
            try:
                action()
            except AttributeError as error:
                assert "needs TensorFlow" in str(error), error
            else:
                raise AssertionError
        for line in ("import tensorflow.python.ops.nn_ops", "from tensorflow.python.ops import no_such_function"):
            try:
                exec(line)
            except ImportError:
                pass
            else:
                raise AssertionError(line)
    """)
