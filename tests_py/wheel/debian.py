"""Packages of another Debian release or another machine: downloaded and unpacked into a folder, not installed.

It needs apt and the list of mirrors of a Debian machine, but not root.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def apt(work: Path, architecture: str, suite: str) -> list[str]:
    """The options with which apt works in a folder of its own, for a machine and a suite that are not this
    machine's.
    """
    home = work / f"apt-{architecture}-{suite}"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "state" / "status").touch()
    mirrors = subprocess.check_output(["apt-get", "indextargets", "--format", "$(REPO_URI)"], text=True).splitlines()
    site = next(mirror for mirror in mirrors if "security" not in mirror)
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (home / "sources.list").write_text(f"deb [signed-by={key}] {site} {suite} main\n")
    settings = {
        "Dir::State": home / "state",
        "Dir::State::status": home / "state" / "status",
        "Dir::Cache": home / "cache",
        "Dir::Etc::sourcelist": home / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [f"-o={name}={value}" for name, value in settings.items()]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    return options


def unpack(work: Path, architecture: str, suite: str, packages: list[str], into: Path) -> None:
    """Download Debian's packages, with what they depend on, and unpack them."""
    options = apt(work, architecture, suite)
    archives = work / f"apt-{architecture}-{suite}" / "cache" / "archives"
    subprocess.run(["apt-get", "-qq", *options, "--yes", "--download-only", "install", *packages], check=True)
    into.mkdir(parents=True, exist_ok=True)
    for package in archives.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", package, into], check=True)
