"""``gpuconf ledger``, and the benchmark of the ledger."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import command
import gpuconf
import pytest
from gpuconf._core.native import core
from gpuconf.cli.main import main
from gpuconf.leases import ledger as _ledger
from gpuconf.leases.ledger import Card, open_ledger
from holder import holder
from script import environment, execute

GIB = 1 << 30


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _ledger.Ledger:
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))
    return _ledger.open_ledger()


def test_list(ledger: _ledger.Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "list"]) == 0
    assert capsys.readouterr().out == f"{ledger.folder} (private)\nno leases and no processes\n"
    gpuconf.simulate("T4")
    gpuconf.configure(limit="4GiB")
    with ledger.claim([Card("GPU-4d1ee11c-4cd2", 40 * GIB, 10 * GIB)], name="train", command="python train.py"):
        buffer = gpuconf.memory.allocate("1GiB")
        assert main(["ledger", "list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert main(["ledger", "list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        buffer.free()
    assert lines[1].split() == ["PID", "user", "name", "state", "GPU", "memory", "time", "command"]
    assert lines[2].split()[0] == str(os.getpid())
    assert lines[2].split()[2:6] == ["train", "leased", "GPU-4d1ee11c", "10.00GiB"]
    assert lines[2].endswith("python train.py")
    assert lines[5].split()[2:7] == ["GPU:0", "4.00GiB", "4.00GiB", "1.00GiB", "1.00GiB"]
    assert (listed["schema"], listed["folder"], listed["shared"]) == (1, ledger.folder, False)
    (claim,) = listed["claims"]
    assert (claim["pid"], claim["state"], claim["name"]) == (os.getpid(), "granted", "train")
    assert claim["cards"] == [{"uuid": "GPU-4d1ee11c-4cd2", "bytes": 10 * GIB, "charge": 10 * GIB}]
    (process,) = listed["processes"]
    assert process["pools"][0]["in_use"] == GIB


def test_check(ledger: _ledger.Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "check"]) == 0
    assert capsys.readouterr().out == f"{ledger.folder}: no problems found\n"
    Path(ledger.folder, "notes.txt").write_text("")
    Path(ledger.folder, "wake").unlink()
    assert main(["ledger", "check", "--json"]) == 3
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [text.split()[0] for text in findings] == [f"{ledger.folder}/wake", f"{ledger.folder}/notes.txt"]


def test_a_ledger_that_was_removed_in_use(tmp_path: Path) -> None:
    """``check`` used to say only that there is no ledger, and ``ps`` and ``doctor`` nothing."""
    folder = tmp_path / "ledger"
    env = {"GPUCONF_SIMULATE": "2xH100-80GB", "GPUCONF_LEDGER": str(folder)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return execute([str(Path(sys.executable).with_name("gpuconf")), *words], env=environment(env))

    with holder(env, lease=10 * GIB) as program:
        shutil.rmtree(folder)
        complaint = run("ps").stderr
        (said,) = (one for one in json.loads(run("doctor", "--json").stdout)["findings"] if one["level"] == "problem")
        checked = run("ledger", "check")
        as_json = run("ledger", "check", "--json", "--folder", f"{folder}/../ledger")
        assert not folder.exists(), "looking makes no ledger"
    lost = f"process {program.pid} "
    where = f"has a lease in {folder}, in a file that was removed while it was in use"
    assert complaint.startswith(f"gpuconf ps: {lost}")
    assert complaint.endswith(f"{where}\n")
    assert said["subject"] == "ledger"
    assert said["text"].startswith(lost)
    assert said["text"].endswith(where)
    assert (checked.returncode, checked.stderr) == (3, "")
    first, second = checked.stdout.splitlines()
    assert first == f"there is no ledger: {folder} does not exist. The first lease creates one"
    assert second.startswith(lost)
    assert second.endswith(where)
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout) == {
        "schema": 1,
        "folder": str(folder),
        "shared": False,
        "findings": [first, second],
    }
    ended = run("ledger", "check")
    assert (ended.returncode, ended.stdout) == (1, ""), "the process and its lease have ended"


def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "list", "--folder", str(tmp_path / "none")]) == 1
    assert "there is no ledger" in capsys.readouterr().err


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """Another folder was looked for, and a ledger that was there was said to be missing."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(folder)
    said = "is not valid text (it has a lone surrogate): "
    for words in (["ledger", "check", "--folder", folder], ["ledger", "init", "--shared", folder]):
        code, out, err = command.run(*words)
        assert (code, out) == (1, "")
        assert err.startswith(f"gpuconf {words[0]} {words[1]}: the ledger's folder {said}")
    for words in (["run", "--memory", "1GiB", "true"], ["ps"], ["lease", "--list"]):
        code, _, err = command.run(*words, env={"GPUCONF_LEDGER": folder, "GPUCONF_SIMULATE": "T4"})
        assert code
        assert f"GPUCONF_LEDGER {said}" in err
    assert not os.listdir(folder)


def test_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "ledger"
    for _ in range(2):
        assert main(["ledger", "init", "--shared", str(folder)]) == 0
        assert (
            capsys.readouterr().out
            == f"{folder} is a ledger for all users\nPrograms use it with GPUCONF_LEDGER={folder}\n"
        )
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        assert stat.S_IMODE((folder / "ledger").stat().st_mode) == 0o644
    assert main(["ledger", "init", "--shared", "--group", str(os.getegid()), str(folder)]) == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o3770
    assert main(["ledger", "init", "--shared", "--group", "no such group", str(folder)]) == 2
    private = tmp_path / "private"
    _ledger.open_ledger(str(private))
    assert main(["ledger", "init", "--shared", str(private)]) == 1
    assert "is a ledger of one user" in capsys.readouterr().err


def test_a_folder_with_a_folder_of_the_headers_name(tmp_path: Path) -> None:
    """A failed init left a file there, and did not say what was wrong."""
    (tmp_path / "ledger").mkdir()
    said = f"{tmp_path}/ledger is not a regular file: {tmp_path} is not a ledger. Choose an empty or new folder\n"
    variables = {"GPUCONF_LEDGER": str(tmp_path), "GPUCONF_SIMULATE": "T4"}
    for words in (["ledger", "init", "--shared", str(tmp_path)], ["run", "--memory", "1GiB", "true"]):
        code, _, err = command.run(*words, env=variables)
        assert (code, err) == (1, f"gpuconf {' '.join(words[: 1 + (words[0] == 'ledger')])}: {said}")
    assert os.listdir(tmp_path) == ["ledger"]


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "ledger.py"


def test_its_request_is_granted(tmp_path: Path) -> None:
    """`make bench` once ended with an error there: the request had the form of an earlier version."""
    ledger = open_ledger(str(tmp_path / "ledger"))
    claim = core.pybind_LedgerClaim(ledger.number, runpy.run_path(str(BENCHMARK))["REQUEST"], False)
    (row,) = ledger.claims()
    core.pybind_LedgerRelease(claim)
    assert (row.cards[0].bytes, ledger.claims()) == (1 << 26, [])
