# SPDX-License-Identifier: Apache-2.0
"""Room for CUDA contexts beside the memory of a lease."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import gpuconf
import pytest
from command import run
from gpuconf import errors
from gpuconf.leases import request
from gpuconf.leases.contexts import context_bytes, of_command
from gpuconf.leases.ledger import Claim, open_ledger

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))
    return tmp_path / "ledger"


def claim(memory: int | str | None, contexts: int = 1) -> Claim:
    return request.claim(request.checked(memory, 1, 0, "", "spread", contexts), gpuconf.visible_devices())


def test_leases_of_2_gib_leave_room_for_their_contexts() -> None:
    """19 leases of 2 GiB were granted on 40 GiB, and 19 contexts of 300 to 500 MiB did not fit into the 1.5 GiB that
    were left.
    """
    gpuconf.simulate("A100-40GB")
    held = [claim(2 * GIB) for _ in range(16)]
    with pytest.raises(errors.DeadlineExceededError, match=r"448\.00MiB for CUDA contexts"):
        claim(2 * GIB)
    for one in held:
        one.release()


@pytest.mark.parametrize(
    ("spec", "contexts", "limit", "taken"),
    [
        ("A100-40GB:40GiB", 1, 40960 - 1536, 40960),  # TensorFlow's default limit, as without a lease
        ("A100-40GB:40GiB", 3, 40960 - 1536, 40960),
        ("A100-40GB:40GiB", 4, 40960 - 4 * 448, 40960),
        ("T4:16GiB", 1, 16384 - 1050, 16384),
        ("GB10:128GiB", 1, 131072 - 1800 - 576, 131072 - 1800),  # the host keeps the reserve
    ],
)
def test_a_lease_of_all_memory(spec: str, contexts: int, limit: int, taken: int) -> None:
    gpuconf.simulate(spec)
    with claim(None, contexts) as held:
        assert [(card.bytes >> 20, card.charge >> 20) for card in held.cards] == [(limit, taken)]
        (row,) = open_ledger().claims()
        assert row.contexts == contexts


@pytest.mark.parametrize(
    ("spec", "given", "limit", "taken"),
    [
        ("T4:100MiB", "0", 100, 100),
        ("T4:100MiB", "1MiB", 99, 100),
        ("T4:225MiB", "0", 225, 225),
        ("T4:225MiB", "1MiB", 224, 225),
        ("T4:226MiB", "0", 1, 1),
        ("T4:226MiB", "1MiB", 1, 226),
        ("GB10:225MiB", "1MiB", 224, 225),
        ("GB10:228MiB", "1MiB", 2, 3),
    ],
)
def test_a_small_card(monkeypatch: pytest.MonkeyPatch, spec: str, given: str, limit: int, taken: int) -> None:
    """TensorFlow reserves 225 MiB. A card that has no more would have nothing left to lease, and keeps no reserve."""
    gpuconf.simulate(spec)
    monkeypatch.setenv("GPUCONF_CONTEXT_MEMORY", given)
    with claim(None) as held:
        assert [(card.bytes, card.charge) for card in held.cards] == [(limit * MIB, taken * MIB)]
    most = taken * MIB - context_bytes(gpuconf.visible_devices()[0])
    with claim(most) as held:
        assert [(card.bytes, card.charge) for card in held.cards] == [(most, taken * MIB)]
    with pytest.raises(errors.InvalidArgumentError, match="can never be leased"):
        claim(most + 1)


@pytest.mark.parametrize(("spec", "contexts"), [("A100-40GB:40GiB", 100), ("GB10:226MiB,A100-40GB:40GiB", 100)])
def test_contexts_that_a_card_has_no_room_for(spec: str, contexts: int) -> None:
    """The error for a lease of all memory named a number of bytes below 0."""
    gpuconf.simulate(spec)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        claim(None, contexts)
    assert str(caught.value) == (
        "1.00MiB (1048576 bytes), with 43.75GiB for CUDA contexts, on 1 card can never be leased: at most 40.00GiB "
        "(42949672960 bytes) of a card. Let fewer processes use it, or lower GPUCONF_CONTEXT_MEMORY"
    )


def test_several_contexts() -> None:
    gpuconf.simulate("A100-40GB:40GiB")
    with claim(2 * GIB, contexts=3) as held:
        assert [(card.bytes, card.charge) for card in held.cards] == [(2 * GIB, 2 * GIB + 3 * 448 * MIB)]


@pytest.mark.parametrize(
    ("given", "bytes_each"), [("", 448 * MIB), ("0", 0), ("100MiB", 100 * MIB), ("1048577", 1048577)]
)
def test_the_setting(monkeypatch: pytest.MonkeyPatch, given: str, bytes_each: int) -> None:
    gpuconf.simulate("A100-40GB:40GiB")
    monkeypatch.setenv("GPUCONF_CONTEXT_MEMORY", given)
    assert context_bytes(gpuconf.visible_devices()[0]) == bytes_each
    with claim(None) as held:
        assert held.cards[0].bytes == (40960 - 1536) * MIB


def test_without_an_allowance_the_reserve_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    gpuconf.simulate("A100-40GB:40GiB")
    monkeypatch.setenv("GPUCONF_CONTEXT_MEMORY", "0")
    with pytest.raises(errors.InvalidArgumentError, match="can never be leased"):
        claim(39 * GIB)
    with claim(19 * GIB), claim(19 * GIB):
        pass


@pytest.mark.parametrize(
    "given", ["-1", "x", "1e3", "40GiB", "99999999999999999999999", "50%", "\uff11", "nan", "1\x7f"]
)
def test_garbage_in_the_setting(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    gpuconf.simulate("A100-40GB:40GiB")
    monkeypatch.setenv("GPUCONF_CONTEXT_MEMORY", given)
    with pytest.raises(errors.InvalidArgumentError, match="GPUCONF_CONTEXT_MEMORY"):
        claim(GIB)


def test_the_setting_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpuconf.simulate("A100-40GB:40GiB")
    settings = tmp_path / "gpuconf.toml"
    monkeypatch.setenv("GPUCONF_CONFIG", str(settings))
    for given, bytes_each in (("0", 0), ('"100MiB"', 100 * MIB)):
        settings.write_text(f"context_memory = {given}\n")
        assert context_bytes(gpuconf.visible_devices()[0]) == bytes_each
    for given in ("-1", "true", "1.5", "[]"):
        settings.write_text(f"context_memory = {given}\n")
        with pytest.raises(errors.InvalidArgumentError, match="context_memory in "):
            context_bytes(gpuconf.visible_devices()[0])


@pytest.mark.parametrize("contexts", [0, -1, 1 << 17])
def test_an_impossible_number_of_contexts(contexts: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="contexts must be at least 1"):
        gpuconf.lease("1GiB", contexts=contexts)


@pytest.mark.parametrize("contexts", [True, 1.0, "1", None])
def test_a_number_of_contexts_of_the_wrong_type(contexts: object) -> None:
    with pytest.raises(errors.InvalidTypeError, match="contexts must be a number of processes"):
        gpuconf.lease("1GiB", contexts=contexts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "gpus", "contexts"),
    [
        ("python train.py", 1, 1),
        ("torchrun train.py", 2, 1),
        ("torchrun --nproc-per-node 4 train.py", 1, 4),
        ("torchrun --nproc_per_node=4 train.py", 2, 2),
        ("/opt/bin/torchrun --standalone --nnodes 1 --nproc-per-node 3 train.py --nproc-per-node 9", 2, 2),
        ("torchrun --nproc-per-node gpu train.py", 2, 1),
        ("torchrun --nproc-per-node", 1, 1),
        ("python -m torch.distributed.run --nproc-per-node 4 train.py", 1, 4),
        ("python -u -m torch.distributed.launch --use_env --nproc_per_node 4 train.py", 4, 1),
        ("python -m other --nproc-per-node 4", 1, 1),
        ("python -m", 1, 1),
        ("python train.py -m torch.distributed.run --nproc-per-node 4", 1, 1),
        ("echo torchrun --nproc-per-node 4", 1, 1),
    ],
)
def test_the_ranks_of_torchrun_are_counted(command: str, gpus: int, contexts: int) -> None:
    assert of_command(command.split(), gpus, {}) == contexts


def test_torchrun_reads_its_options_from_variables() -> None:
    assert of_command(["torchrun", "train.py"], 1, {"PET_NPROC_PER_NODE": "4"}) == 4
    assert of_command(["torchrun", "--nproc-per-node=2", "train.py"], 1, {"PET_NPROC_PER_NODE": "4"}) == 2


def output(*arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name in ("GPUCONF_LEDGER", "GPUCONF_SIMULATE", "PATH")}
    code, out, error = run(*arguments, env=kept)
    assert (code, error) == (0, ""), error
    return out


def report_of(tmp_path: Path, *arguments: str) -> dict[str, object]:
    report = tmp_path / "report.json"
    output("run", "--simulate", "A100-40GB:40GiB", "--json-report", str(report), *arguments)
    found: dict[str, object] = json.loads(report.read_text())["lease"]
    return found


@pytest.mark.parametrize(
    ("options", "contexts"), [((), 1), (("--contexts", "3"), 3), (("--contexts", "5", "--gpus", "1"), 5)]
)
def test_run(tmp_path: Path, options: Sequence[str], contexts: int) -> None:
    found = report_of(tmp_path, "--memory", "2GiB", *options, "true")
    assert (found["memory_limit"], found["contexts"], found["context_bytes"]) == (
        2 * GIB,
        contexts,
        contexts * 448 * MIB,
    )


def test_run_counts_the_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchrun").write_text("#!/bin/sh\n")
    (tmp_path / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert report_of(tmp_path, "--memory", "2GiB", "torchrun", "--nproc-per-node", "4", "train.py")["contexts"] == 4


def test_run_refuses_contexts_without_a_lease() -> None:
    code, _, error = run("run", "--contexts", "2", "true")
    assert (code, "--contexts needs --memory or --gpus" in error) == (2, True)


def test_what_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "A100-40GB:40GiB")
    assert "448.00MiB" in output("devices")
    assert json.loads(output("devices", "--json"))["devices"][0]["context_bytes"] == 448 * MIB
    inside = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'gpuconf', *sys.argv[1:]]))"
    leased = ("run", "--memory", "2GiB", "--contexts", "2", sys.executable, "-c", inside)
    shown = json.loads(output(*leased, "ps", "--json"))
    assert shown["gpus"][0]["leased"] == 2 * GIB + 2 * 448 * MIB
    assert [(one["lease"], one["contexts"], one["context_bytes"]) for one in shown["processes"]] == [
        (2 * GIB, 2, 896 * MIB)
    ]
    assert "896.00MiB" in output(*leased, "ps")
    (row,) = json.loads(output(*leased, "lease", "--list", "--json"))["leases"]
    assert (row["contexts"], row["cards"][0]["charge"]) == (2, 2 * GIB + 896 * MIB)
    assert "448.00MiB of NVIDIA A100-SXM4-40GB for the CUDA context of each process" in output("doctor")


def test_a_request_inside_a_lease_is_for_the_card_that_needs_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A percentage of two cards of different sizes must fit into the lease on both."""
    gpuconf.simulate("T4,A100-40GB:40GiB")
    monkeypatch.setenv("GPUCONF_LEASE", "outer")
    monkeypatch.setenv("GPUCONF_LIMIT", str(10 * GIB))
    with pytest.raises(
        errors.FailedPreconditionError, match=r"20\.00GiB are requested inside lease outer, which has 10"
    ):
        gpuconf.lease(memory="50%", gpus=2).__enter__()


@pytest.mark.parametrize("contexts", [1, 3])
def test_all_of_a_card_in_percent_is_all_that_a_lease_can_have(contexts: int) -> None:
    """It could never be leased, and the message named the size of the card as what could."""
    gpuconf.simulate("A100-40GB:40GiB")
    most = 40 * GIB - contexts * 448 * MIB
    with claim("100%", contexts) as held:
        assert [(card.bytes, card.charge) for card in held.cards] == [(most, 40 * GIB)]
    with claim("50%", contexts) as held:
        assert held.cards[0].bytes == 20 * GIB
    with pytest.raises(
        errors.InvalidArgumentError, match=rf"can never be leased: at most .* \({most} bytes\) of a card"
    ):
        claim(40 * GIB, contexts)
    with pytest.raises(errors.InvalidArgumentError, match="must be more than 0% and at most 100%"):
        claim("101%", contexts)
