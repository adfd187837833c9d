"""``gpuconf ledger``."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import gpuconf
import pytest
from gpuconf.cli.main import main
from gpuconf.sharing import _ledger
from gpuconf.sharing._rows import Card

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
    assert lines[1].split() == ["PID", "user", "state", "since", "bytes", "each", "cards", "name", "command"]
    assert lines[2].split()[0] == str(os.getpid())
    assert lines[2].split("  ")[-3:] == ["GPU-4d1ee11c", "train", "python train.py"]
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


def test_no_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "list", "--folder", str(tmp_path / "none")]) == 1
    assert "there is no ledger" in capsys.readouterr().err


def test_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "ledger"
    for _ in range(2):
        assert main(["ledger", "init", "--shared", str(folder)]) == 0
        assert capsys.readouterr().out == f"{folder} is a ledger for all users\nPrograms use it with GPUCONF_LEDGER={folder}\n"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        assert stat.S_IMODE((folder / "ledger").stat().st_mode) == 0o644
    assert main(["ledger", "init", "--shared", "--group", str(os.getegid()), str(folder)]) == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o3770
    assert main(["ledger", "init", "--shared", "--group", "no such group", str(folder)]) == 2
    private = tmp_path / "private"
    _ledger.open_ledger(str(private))
    assert main(["ledger", "init", "--shared", str(private)]) == 1
    assert "is a ledger of one user" in capsys.readouterr().err
