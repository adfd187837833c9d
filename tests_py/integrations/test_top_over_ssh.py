"""``gpuconf top`` in a terminal of tmux, over ssh."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import script

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from holder import holder

GIB = 1 << 30
COMMAND = str(Path(sys.executable).with_name("gpuconf"))
CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[list[str]]:
    """The command that runs words on this machine, through a server of its own."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None or shutil.which("tmux") is None:
        pytest.skip("needs Debian's packages openssh-server and tmux")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "conf").write_text(CONFIGURATION.format(port=port, folder=tmp_path))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # the server's privilege separation
    options = ["-q", "-F", "none", "-i", f"{tmp_path}/user", "-p", str(port), "-o", "StrictHostKeyChecking=no"]
    words = ["ssh", *options, "-o", f"UserKnownHostsFile={tmp_path}/known", "127.0.0.1"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([server, "-Def", tmp_path / "conf"], stderr=log) as running,
    ):
        try:
            deadline = time.monotonic() + 20
            while subprocess.run([*words, "true"], check=False).returncode:
                assert running.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield words
        finally:
            running.terminate()


def test_top(ssh: list[str], tmp_path: Path) -> None:
    env = {"GPUCONF_SIMULATE": "2xA100-40GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    remote = shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), COMMAND, "top"])
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "tmux")]

    def run(*words: str) -> str:
        return script.completed([*tmux, *words], check=True).stdout

    def until(*texts: str) -> str:
        deadline = time.monotonic() + 30
        while not all(text in (screen := run("capture-pane", "-p")) for text in texts):
            assert time.monotonic() < deadline, screen
            time.sleep(0.2)
        return screen

    with holder(env, lease=10 * GIB, pool=8 * GIB, used=3 * GIB):
        run(
            "new-session", "-d", "-x", "200", "-y", "30", f"{shlex.join([*ssh, '-t', remote])}; echo ended $?; sleep 60"
        )
        try:
            assert "░" in until("training: python", "reserved   3.00GiB in use   3.00GiB", "gpuconf 3.00GiB")
            run("resize-window", "-x", "80", "-y", "24")
            screen = until("training: pyt", "q quit")
            assert "user" not in screen
            assert max(map(len, screen.splitlines())) <= 80
            run("send-keys", "h")
            until("reverse the order")
            run("send-keys", "h", "q")
            until("ended 0")
        finally:
            run("kill-server")
