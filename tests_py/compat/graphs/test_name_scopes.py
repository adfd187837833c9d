"""Name scopes and variable scopes. The names are those of TensorFlow 2.21."""

from __future__ import annotations

from typing import Any

import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import pytest


def test_names_of_operations() -> None:
    with tf.Graph().as_default() as graph:
        for scope in ("a/", "a_1/"):
            with tf1.name_scope("a") as name:
                assert (name, tf1.constant(1.0).name) == (scope, f"{scope}Const:0")
        assert tf1.constant(1.0, name="a").name == "a_2:0"
        with tf1.name_scope("b") as outer:
            with tf1.name_scope("c") as name:
                assert (name, tf1.constant(1.0, name="k").name) == ("b/c/", "b/c/k:0")
            with tf.name_scope(outer) as name:
                assert (name, tf1.constant(1.0, name="k").name) == ("b/", "b/k:0")
            with tf1.name_scope(None) as name:
                assert (name, tf1.constant(1.0, name="k").name) == ("", "k:0")
            with tf1.name_scope(None, "default", [1]) as name:
                assert name == "b/default/"
            assert graph.get_name_scope() == "b"
        assert graph.get_name_scope() == ""
        assert [graph.unique_name("u") for _ in range(2)] == ["u", "u_1"]
        assert graph.unique_name("u", mark_as_used=False) == graph.unique_name("u") == "u_2"
        assert [each.name for each in graph.as_graph_def().node] == [each.name for each in graph.get_operations()]
        assert tf1.Session().graph_def.node[0].name == "a/Const"


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: tf1.name_scope("_x").__enter__(), ValueError, "'_x' is not a valid root scope name."),
        (lambda: tf1.name_scope(3).__enter__(), TypeError, "expected string or bytes-like object"),
        (
            lambda: tf1.name_scope(None, values=[1]).__enter__(),
            ValueError,
            "At least one of name (None) and default_name",
        ),
        (lambda: tf1.name_scope(None, 3), TypeError, "`default_name` type (<class 'int'>) is not a string type."),
        (lambda: tf.name_scope(3), ValueError, "name for name_scope must be a string."),
        (lambda: tf1.variable_scope(None), TypeError, "If default_name is None then name_or_scope is required"),
        (lambda: tf1.variable_scope(3), TypeError, "VariableScope: name_or_scope must be a string or VariableScope."),
        (
            lambda: tf1.variable_scope(None, "d", reuse=True),
            ValueError,
            "reuse=True cannot be used without a name_or_scope",
        ),
        (lambda: tf1.get_variable("v"), ValueError, "Variable v did not get an initializer, so its `shape` argument"),
        (lambda: tf1.get_variable(3, [1]), TypeError, "expected string or bytes-like object, got 'int'"),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with tf.Graph().as_default() as graph:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value).startswith(text)
        assert (graph.get_name_scope(), tf1.get_variable_scope().name) == ("", "")


def test_variables_in_scopes() -> None:
    with tf.Graph().as_default():
        with tf1.variable_scope("vs") as scope:
            w = tf1.get_variable("w", [2])
            assert (w.name, scope.name, scope.original_name_scope) == ("vs/w:0", "vs", "vs/")
            assert tf1.constant(1.0, name="k").name == "vs/k:0"
            with tf1.variable_scope("in"):
                assert tf1.get_variable("w", [2]).name == "vs/in/w:0"
        with tf1.variable_scope("vs", reuse=True):
            assert tf1.get_variable("w", [2]) is w
            with pytest.raises(ValueError, match="Variable vs/new does not exist"):
                tf1.get_variable("new", [2])
            with pytest.raises(
                ValueError, match=r"Trying to share variable vs/w, but specified shape \(3,\) and found shape \(2,\)"
            ):
                tf1.get_variable("w", [3])
        with tf1.variable_scope("vs"), pytest.raises(ValueError, match="Variable vs/w already exists"):
            tf1.get_variable("w", [2])
        with tf1.variable_scope("vs", reuse=tf1.AUTO_REUSE):
            assert tf1.get_variable("w", [2]) is w
            assert tf1.get_variable("n", [1]).name == "vs/n:0"
        names = []
        for _ in range(2):
            with tf1.variable_scope(None, "df"):
                names.append(tf1.get_variable("w", [2]).name)
        assert names == ["df/w:0", "df_1/w:0"]
        with tf1.variable_scope(scope):
            assert tf1.get_variable("z", [2]).name == "vs/z:0"
            assert tf1.constant(1.0, name="k").name == "vs_4/k:0"
        with tf1.name_scope("ns"):
            assert tf1.get_variable("free", [1]).name == "free:0"
            assert tf1.Variable(1.0).name == "ns/Variable:0"


def test_a_scope_initializes_its_variables(one_gpu: None) -> None:
    with tf.Graph().as_default():
        with tf1.variable_scope("s", initializer=tf1.constant_initializer(3.0), dtype=tf.float64):
            v = tf1.get_variable("v", [2])
            one = tf1.get_variable("one", [1], initializer=tf1.ones_initializer)
            drawn = [
                tf1.get_variable(f"d{number}", [50], initializer=make(seed=1))
                for number, make in enumerate(
                    (tf1.random_normal_initializer, tf1.truncated_normal_initializer, tf1.glorot_uniform_initializer)
                )
            ]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert session.run(v).tolist() == [3.0, 3.0]
            assert (v.dtype, session.run(one).tolist()) == (tf.float64, [1.0])
            assert all(0 < abs(session.run(each)).max() < 5 for each in drawn)


def test_scopes_where_operations_run_eagerly(one_gpu: None) -> None:
    with tf.name_scope("e"), tf.name_scope("f") as name:
        assert (name, tf.Variable(1.0, name="v").name) == ("e/f/", "e/f/v:0")
        with tf.name_scope("x/") as absolute:
            assert absolute == "x/"
    assert tf.Variable(1.0).name == "Variable:0"
