"""Clusters as programs describe them: what TensorFlow 2.21 does on a machine with GPUs, up to connecting to other
machines.
"""

from __future__ import annotations

from typing import Any

import gpuconf.compat.v2 as tf
import pytest

SPEC = {"worker": ["a:1", "b:2"], "ps": ["c:3"], "x": {1: "d:4"}}
resolver = tf.distribute.cluster_resolver


def test_a_cluster_spec() -> None:
    spec = tf.train.ClusterSpec(SPEC)
    assert repr(spec) == "ClusterSpec({'ps': ['c:3'], 'worker': ['a:1', 'b:2'], 'x': {1: 'd:4'}})"
    assert spec.jobs == ["worker", "ps", "x"]
    assert (spec.num_tasks("worker"), spec.task_address("worker", 1), spec.job_tasks("x")) == (2, "b:2", [None, "d:4"])
    assert spec.as_dict() == SPEC
    assert spec == tf.train.ClusterSpec(spec)
    assert spec
    assert not tf.train.ClusterSpec({})


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: tf.train.ClusterSpec(3), TypeError, "`cluster` must be a dictionary"),
        (lambda: tf.train.ClusterSpec({"a": 3}), TypeError, "The tasks for job 'a' must be a list or a dictionary"),
        (lambda: tf.train.ClusterSpec({"a": [3]}), TypeError, "Task address 3 must be bytes or unicode"),
        (lambda: tf.train.ClusterSpec({3: []}), TypeError, "Job name 3 must be bytes or unicode"),
        (lambda: tf.train.ClusterSpec(SPEC).num_tasks("q"), ValueError, "No such job in cluster: 'q'"),
        (lambda: tf.train.ClusterSpec(SPEC).task_address("ps", 7), ValueError, "No task with index 7 in job 'ps'"),
        (resolver.TPUClusterResolver, ValueError, "Please provide a TPU Name to connect to."),
        (resolver.SlurmClusterResolver, RuntimeError, "SLURM_PROCID not found in environment."),
        (resolver.KubernetesClusterResolver, ImportError, "The Kubernetes Python client must be installed"),
        (lambda: resolver.GCEClusterResolver("a", "b", "c", 1), ImportError, "googleapiclient must be installed"),
        (lambda: resolver.SimpleClusterResolver({}), TypeError, "cluster_spec must be a `tf.train.ClusterSpec`."),
        (resolver.UnionResolver, ValueError, "At least one ClusterResolver is required."),
        (resolver.ClusterResolver, TypeError, "Can't instantiate abstract class ClusterResolver"),
        (lambda: tf.config.experimental_connect_to_cluster(None), ValueError, "`cluster_spec_or_resolver` must be"),
        (
            lambda: tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(SPEC)),
            NotImplementedError,
            "experimental_connect_to_cluster for job 'localhost' needs TensorFlow's distributed runtime",
        ),
    ],
)
def test_errors(monkeypatch: pytest.MonkeyPatch, call: Any, kind: type[Exception], text: str) -> None:
    for name in ("SLURM_PROCID", "TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_a_cluster_of_this_process_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for cluster in (
        tf.train.ClusterSpec({}),
        resolver.TFConfigClusterResolver(),
        resolver.SimpleClusterResolver(tf.train.ClusterSpec(SPEC)),
        resolver.SimpleClusterResolver(tf.train.ClusterSpec(SPEC), master="local"),
    ):
        tf.config.experimental_connect_to_cluster(cluster)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="can only be called in eager mode"):
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({}))
    filters = tf.config.experimental.ClusterDeviceFilters()
    filters.set_device_filters("worker", 0, ["/job:ps"])
    with pytest.raises(AssertionError):
        filters.set_device_filters("worker", 0, [3])


def test_resolvers(monkeypatch: pytest.MonkeyPatch, two_gpus: None) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    empty = resolver.TFConfigClusterResolver()
    assert (empty.cluster_spec(), empty.master(), empty.task_type, empty.task_id, empty.rpc_layer) == (
        {},
        "",
        None,
        None,
        None,
    )
    assert empty.num_accelerators() == {"GPU": 2}
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}',
    )
    found = resolver.TFConfigClusterResolver()
    assert (found.master(), found.task_type, found.task_id) == ("grpc://b:2", "worker", 1)
    both = resolver.UnionResolver(found, resolver.SimpleClusterResolver(tf.train.ClusterSpec({"ps": ["c:3"]})))
    assert both.cluster_spec().as_dict() == {"worker": ["a:1", "b:2"], "ps": ["c:3"]}
