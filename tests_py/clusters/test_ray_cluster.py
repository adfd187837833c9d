"""gpuconf.ray on a real Ray with simulated GPUs: one program whose observations the tests read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpuconf.ray
import pytest
import ray
from gpuconf import errors
from ray_jobs import BEGINNING
from script import run

PROGRAM = (
    BEGINNING
    + """
# Its table is of the classes that exist: Ray makes one of each error that it raises, which lives until it is collected.
import functools, travelling

facts = {}
holders = [Holder.remote("1GiB") for _ in range(4)]
facts["sees"] = ray.get([holder.sees.remote() for holder in holders])
ray.get([holder.take.remote("18GiB") for holder in holders])
facts["beyond"] = [outcome(lambda: ray.get(holder.take.remote("2GiB"))) for holder in holders]
ray.get([holder.take.remote("512MiB") for holder in holders])  # all live on
facts["gpus"] = ray.available_resources()["GPU"]

deadline = time.monotonic() + 30
while (table := gpuconf.ray.memory()).bytes_in_use < 4 * (19 << 30) + (2 << 30) and time.monotonic() < deadline:
    time.sleep(0.2)
facts["memory"] = [[r.process.rpartition(" ")[0], r.card, r.library, r.bytes_in_use, r.bytes_limit, r.problem]
                   for r in table]
facts["table"] = str(table).splitlines()[0]

facts["direct"] = outcome(lambda: job("1GiB"))
facts["arguments"] = outcome(lambda: Holder.remote())
facts["too large"] = outcome(lambda: job.options(memory="81GiB").remote(1))

fail = ray.remote(travelling.fail)
facts["errors"] = travelling.changed({name: functools.partial(ray.get, fail.remote(name)) for name in travelling.ALL})
print(json.dumps(facts))
ray.shutdown()
"""
)
GIB = 1 << 30


@pytest.fixture(scope="module")
def facts() -> Any:
    variables = {
        "GPUCONF_SIMULATE": "2xA100-80GB:80GiB",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    done = run(PROGRAM, env=variables, timeout=150)
    assert done.code == 0, done
    return json.loads(done.stdout.splitlines()[-1])


def test_four_actors_share_a_card_and_each_fails_beyond_its_quarter(facts: Any) -> None:
    assert facts["sees"] == [["0", 20 * GIB]] * 4
    assert facts["gpus"] == 1
    for kind, is_memory_error, text in facts["beyond"]:
        assert (kind, is_memory_error) == ("RayTaskError(ResourceExhaustedError)", True)
        assert "limit 20.00GiB" in text


def test_memory_of_all_processes(facts: Any) -> None:
    cards = {card for _, card, *_ in facts["memory"]}
    assert facts["memory"] == [["actor Holder", cards.pop(), "gpuconf", 19 * GIB + GIB // 2, 20 * GIB, ""]] * 4
    assert facts["table"] == "78.00GiB in use by 4 processes on 1 card"


def test_errors_keep_their_class_text_and_attributes(facts: Any) -> None:
    """As through other processes (test_errors_travel.py)."""
    assert facts["errors"] == []


def test_what_is_refused_in_the_driver(facts: Any) -> None:
    assert facts["direct"][2] == "job cannot be called directly: use job.remote()"
    assert facts["arguments"][0] == "TypeError"
    assert "memory='81GiB' is more than a GPU has: NVIDIA A100-SXM4-80GB has 80.00GiB" in facts["too large"][2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "memory is missing"),
        ("len", r"write @gpuconf\.ray\.remote\(memory='6GiB'\)"),
        ("'lots'", "'lots' is not a size"),
        ("'0GiB'", "at least 1 MiB"),
        ("1.5", "must be a number of bytes"),
        ("'6GiB', num_gpus=1", "num_gpus is computed from memory"),
        ("'6GiB', gpu='K1'", 'unknown GPU model "K1"'),
        ("'6GiB', gpu=5", "gpu must be a string"),
        ("'6GiB', gpu=' '", "gpu must not be empty"),
        ("'6GiB', growth=1", "growth must be"),
        ("'6GiB', libraries=['tourch']", "unknown library 'tourch'"),
    ],
)
def test_bad_arguments(arguments: str, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        eval(f"gpuconf.ray.remote({arguments})")


def test_bad_targets() -> None:
    with pytest.raises(TypeError, match="decorates a function or a class, but got 5"):
        gpuconf.ray.remote("1GiB")(5)
    with pytest.raises(ValueError, match="max_calls must be 1"):
        gpuconf.ray.remote("1GiB", max_calls=5)(lambda: 1)
    with pytest.raises(RuntimeError, match=r"call ray\.init\(\) first"):
        gpuconf.ray.memory()


def test_an_older_ray_without_a_hook_is_named() -> None:
    from gpuconf.cluster.cards import need

    with pytest.raises(errors.UnavailableError, match=rf"x needs object\.y, which Ray {ray.__version__} does not have"):
        need("Ray", object(), "y", "x")
