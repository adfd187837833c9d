"""Says which of the programs that the tests in this folder run are missing, by Debian's package, and exits with 1 if
one is.

python tests_py/integrations/debian_packages.py [PACKAGE...]
"""

import os
import shutil
import sys

PROGRAMS = {
    "chromium": ("chromium",),
    "chromium-driver": ("chromedriver",),
    "prometheus": ("prometheus", "promtool"),
    "openssh-client": ("ssh", "ssh-keygen"),
    "openssh-server": ("sshd",),
    "tmux": ("tmux",),
    "slurm-client": ("srun", "sbatch", "sinfo", "squeue"),
    "slurmctld": ("slurmctld",),
    "slurmd": ("slurmd",),
}
PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"  # where daemons are, and a user's PATH often lacks it


def missing(packages: list[str]) -> list[str]:
    """Return those of Debian's packages that a program is missing of."""
    return [
        package for package in packages if not all(shutil.which(program, path=PATH) for program in PROGRAMS[package])
    ]


def main() -> int:
    """Check the packages that the command line names, or all."""
    found = missing(sys.argv[1:] or list(PROGRAMS))
    if found:
        print(f"programs are missing; on Debian and Ubuntu: apt-get install {' '.join(found)}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
