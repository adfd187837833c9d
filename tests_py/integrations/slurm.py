"""A Slurm cluster of this machine alone, on the loopback interface, with two GPUs that device files stand for."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "sinfo", "squeue")
MISSING = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
WHY = "Debian's packages slurmctld, slurmd and slurm-client are missing"
PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables for Slurm's client programs. The cluster ends with the generator."""
    host = socket.gethostname()
    for name in ("state", "spool"):
        (folder / name).mkdir()
    ports = {"port": free_port(), "node_port": free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, user=getpass.getuser(), folder=folder, **ports))
    devices = "".join(f"NodeName={host} Name=gpu File={file}\n" for file in ("/dev/null", "/dev/zero"))  # never opened
    (folder / "gres.conf").write_text(devices)
    variables = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    environment = {**os.environ, **variables}
    log = (folder / "output").open("wb")
    daemons = [
        subprocess.Popen([name, "-D"], env=environment, stdout=log, stderr=log) for name in ("slurmctld", "slurmd")
    ]
    try:
        deadline = time.monotonic() + 60
        while "idle" not in _state(environment):
            if time.monotonic() > deadline:
                raise AssertionError((folder / "slurmctld.log").read_text() + (folder / "slurmd.log").read_text())
            time.sleep(0.2)
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        log.close()


def _state(environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False, timeout=20
    )
    return done.stdout
