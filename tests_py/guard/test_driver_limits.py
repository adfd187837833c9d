"""Limits that the driver enforces: control groups, in a private tree and in the kernel's, and the multi-process
service.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, Run, environment
from gpuconf import errors
from gpuconf.cli import diagnosis
from gpuconf.jobs import cgroup, driver_limits
from gpuconf.machine.cards import Survey

GIB = 1 << 30
BUS_IDS = {CARDS[0]: "0000:17:00.0", CARDS[1]: "0000:18:00.0"}
REGIONS = ["nvidia/0000:17:00.0/vidmem", "nvidia/0000:18:00.0/vidmem"]


def remove(folder: str) -> None:
    """Remove a group: the kernel's files do not keep it from being removed."""
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")
    os.rmdir(folder)


class Tree:
    """Files as the kernel's for control groups with ``dmem``: this process is in ``/slice/own``."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cgroup"
        self.own = self.root / "slice/own"
        self.own.mkdir(parents=True)
        (folder / "own").write_text("1:name=systemd:/else\n0::/slice/own\n")
        for group in (self.root, self.root / "slice", self.own):
            (group / "cgroup.controllers").write_text("cpu dmem\n")
            (group / "cgroup.subtree_control").write_text("\n")
            (group / "cgroup.procs").write_text("")
        (self.root / "dmem.capacity").write_text(
            "".join(f"{region} {16 * GIB}\n" for region in [*REGIONS, "drm/card0/vram0"])
        )

    def limit(self, group: Path, *limits: str) -> None:
        """Write a group's limits, one for each region."""
        (group / "dmem.max").write_text(
            "".join(f"{region} {limit}\n" for region, limit in zip(REGIONS, limits, strict=True))
        )


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A private tree, which this process takes for the kernel's."""
    found = Tree(tmp_path)
    monkeypatch.setattr(cgroup, "ROOT", str(found.root))
    monkeypatch.setattr(cgroup, "OWN", str(tmp_path / "own"))
    monkeypatch.setattr(cgroup, "_remove", remove)
    return found


def first(limits: dict[tuple[int, int, int], tuple[int, str]]) -> tuple[int, str] | None:
    return limits.get((0, 0x17, 0))


def test_the_smallest_limit_of_all_groups_above_counts(tree: Tree) -> None:
    assert cgroup.limits() == {}
    tree.limit(tree.own, str(8 * GIB), "max")
    assert cgroup.limits() == {(0, 0x17, 0): (8 * GIB, "/slice/own")}
    tree.limit(tree.root / "slice", str(4 * GIB), str(12 * GIB))
    assert first(cgroup.limits()) == (4 * GIB, "/slice")
    assert cgroup.limits()[0, 0x18, 0] == (12 * GIB, "/slice")


def test_files_that_are_not_understood_limit_nothing(tree: Tree) -> None:
    (tree.own / "dmem.max").write_text("\nnvidia/0000:17:00.0/vidmem\nsomething else entirely\ndrm/card0/vram0 5\n")
    assert cgroup.limits() == {}


def test_without_cgroup_v2(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/a\n")
    assert cgroup.limits() == {}
    with pytest.raises(errors.UnavailableError, match="cgroup v2 is not mounted"):
        driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x")
    assert driver_limits.may_be_set() == ""


def test_limits_are_set_in_a_group_of_its_own_and_removed(tree: Tree) -> None:
    limit = driver_limits.set_limits({CARDS[0]: GIB, CARDS[1]: 2 * GIB}, BUS_IDS, "4711")
    group = tree.own / "gpuconf-4711"
    assert (group / "cgroup.procs").read_text().split() == [str(os.getpid())]
    assert (tree.own / "cgroup.subtree_control").read_text().split() == ["+dmem"]
    assert (group / "dmem.max").read_text().splitlines() == [f"{REGIONS[0]} {GIB}", f"{REGIONS[1]} {2 * GIB}"]
    assert limit.describe() == "limit enforced by the driver: control group /slice/own/gpuconf-4711"
    limit.leave()
    assert not group.exists()
    assert (tree.own / "cgroup.procs").read_text().split() == [str(os.getpid())]


def test_a_controller_that_is_passed_on_already_stays_so(tree: Tree) -> None:
    (tree.own / "cgroup.subtree_control").write_text("cpu dmem\n")
    driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x").leave()
    assert (tree.own / "cgroup.subtree_control").read_text() == "cpu dmem\n"


def test_groups_of_killed_programs_are_removed_and_others_stay(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to remove a group with processes; so does this."""

    def refusing(path: str) -> None:
        if path.endswith("-busy"):
            raise OSError(16, "Device or resource busy", path)
        remove(path)

    monkeypatch.setattr(cgroup, "_remove", refusing)
    for name in ("gpuconf-old", "gpuconf-busy", "else"):
        (tree.own / name).mkdir()
    driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "new")
    assert sorted(path.name for path in tree.own.iterdir() if path.is_dir()) == ["else", "gpuconf-busy", "gpuconf-new"]


def test_a_group_with_other_processes_stays_and_limits_them(tree: Tree) -> None:
    limit = driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x")
    with open(tree.own / "gpuconf-x/cgroup.procs", "a") as file:
        file.write("4711\n")
    limit.leave()
    assert (tree.own / "gpuconf-x/dmem.max").exists()


def test_a_controller_that_other_groups_have_is_not_taken_from_them(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses a process in a group that passes controllers on, so it stops that to move back, if no other
    needs it.
    """
    write = cgroup._write

    def refusing(path: str, text: str) -> None:
        if path == f"{tree.own}/cgroup.procs" and "-dmem" not in (tree.own / "cgroup.subtree_control").read_text():
            raise OSError(16, "Device or resource busy", path)
        write(path, text)

    monkeypatch.setattr(cgroup, "_write", refusing)
    limit = driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x")
    (tree.own / "else").mkdir()
    limit.leave()
    assert (tree.own / "cgroup.subtree_control").read_text().split() == ["+dmem"]
    (tree.own / "else").rmdir()
    driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x").leave()
    assert (tree.own / "cgroup.subtree_control").read_text().split()[-1] == "-dmem"
    assert (tree.own / "cgroup.procs").read_text().split() == [str(os.getpid())]


def not_listed(tree: Tree) -> None:
    (tree.root / "dmem.capacity").write_text(f"{REGIONS[1]} {16 * GIB}\n")


def no_dmem(tree: Tree) -> None:
    (tree.root / "dmem.capacity").unlink()


def no_right_to_move(tree: Tree) -> None:
    (tree.own / "cgroup.subtree_control").unlink()
    (tree.own / "cgroup.subtree_control").mkdir()


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (not_listed, "does not list GPU-"),
        (no_dmem, "do not support limits on device memory"),
        (no_right_to_move, "cgroup.subtree_control: "),
    ],
)
def test_what_cannot_be_set_says_why_and_changes_nothing(tree: Tree, break_it: object, said: str) -> None:
    break_it(tree)  # type: ignore[operator]
    with pytest.raises(errors.UnavailableError, match=said):
        driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x")
    assert not (tree.own / "gpuconf-x").exists()


def test_a_limit_that_the_kernel_does_not_keep_is_an_error(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    write = cgroup._write
    monkeypatch.setattr(cgroup, "_write", lambda path, text: write(path, "" if path.endswith("dmem.max") else text))
    with pytest.raises(errors.UnavailableError, match="did not apply the limit"):
        driver_limits.set_limits({CARDS[0]: GIB}, BUS_IDS, "x")
    assert not (tree.own / "gpuconf-x").exists()


def test_mig_instances_have_no_region(tree: Tree) -> None:
    instance = "MIG-" + CARDS[0][4:]
    with pytest.raises(errors.UnavailableError, match="does not list MIG-"):
        driver_limits.set_limits({instance: GIB}, {instance: BUS_IDS[CARDS[0]]}, "x")


# The kernel's own groups


def _unified() -> Path | None:
    with open("/proc/mounts") as file:
        place = next((Path(line.split()[1]) for line in file if line.split()[2] == "cgroup2"), None)
    controllers = place / "cgroup.controllers" if place is not None else None
    if (
        controllers is None
        or not os.access(controllers.parent, os.W_OK)
        or "hugetlb" not in controllers.read_text().split()
    ):
        return None
    return place


KERNEL = """
import os, sys
from gpuconf.jobs import cgroup
root, controller = sys.argv[1:3]
mine = f"{root}/gpuconf_test_{os.getpid()}"
os.mkdir(mine)
try:
    before = open(f"{root}/cgroup.subtree_control").read()
    if controller not in before.split():
        open(f"{root}/cgroup.subtree_control", "w").write("+" + controller)
    cgroup._write(f"{mine}/cgroup.procs", str(os.getpid()))
    own = f"/tmp/gpuconf-own-{os.getpid()}"
    open(own, "w").write(f"0::/{os.path.basename(mine)}\\n")
    cgroup.ROOT, cgroup.OWN, cgroup.CONTROLLER = root, own, controller
    cgroup.Group._limit = lambda group, limits: cgroup._write(f"{group.folder}/{sys.argv[3]}", str(limits["all"]))
    group = cgroup.Group("kernel")
    look = ("import sys; paths = ('/proc/self/cgroup', sys.argv[1]); "
            "print(*[open(path).read().rpartition('/')[2].strip() for path in paths])")
    if len(sys.argv) > 4:
        import subprocess
        with subprocess.Popen(["sleep", "60"]) as other:
            try:
                group.enter({"all": 4 << 20})
            except OSError as error:
                print(error.strerror, os.path.exists(group.folder),
                      open("/proc/self/cgroup").read().count(os.path.basename(mine)))
            other.kill()
    else:
        group.enter({"all": 4 << 20})
        os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", look, f"{group.folder}/{sys.argv[3]}"])
        group.leave()
        print(os.path.exists(group.folder), controller in open(f"{mine}/cgroup.subtree_control").read())
finally:
    cgroup._write(f"{root}/cgroup.procs", str(os.getpid()))
    os.rmdir(mine)
    os.unlink(own)
    if controller not in before.split():
        open(f"{root}/cgroup.subtree_control", "w").write("-" + controller)
"""


@pytest.mark.skipif(_unified() is None, reason="no cgroup v2 that this user may change, with the controller hugetlb")
def test_the_kernels_groups() -> None:
    """Made, entered and left with a controller that this kernel has: its rules for all controllers are the same."""
    words = [sys.executable, "-c", KERNEL, str(_unified()), "hugetlb", "hugetlb.2MB.max"]
    done = script.completed(words)
    assert (done.stdout.splitlines(), done.stderr) == (["gpuconf-kernel 4194304", "False False"], "")
    done = script.completed([*words, "beside another process"])
    assert (done.stdout.splitlines(), done.stderr) == (["Device or resource busy False 1"], "")


# What commands say


COMMAND = """
import os, sys
sys.path += {folders!r}
import test_driver_limits
from gpuconf.jobs import cgroup
cgroup.ROOT, cgroup.OWN, cgroup._remove = {root!r}, {own!r}, test_driver_limits.remove
from gpuconf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
REGION = "nvidia/0000:1a:00.0/vidmem"  # of the first card of tests_go/machine/fakecuda


@pytest.fixture
def command(driver: Path, tmp_path: Path) -> Run:
    """Run a command of gpuconf over a private tree of control groups, on one card of 16 GiB."""
    tree = Tree(tmp_path)
    (tree.root / "dmem.capacity").write_text(f"{REGION} {16 * GIB}\n")
    path = tmp_path / "command.py"
    folders = list(map(str, Path(__file__).parents[:2]))
    path.write_text(COMMAND.format(folders=folders, root=str(tree.root), own=str(tmp_path / "own")))

    def call(*words: str | Path, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        variables = environment(driver, GPUCONF_LEDGER=str(tmp_path / "ledger"), **more)
        variables["FAKECUDA_MEMORY"] = str(16 * GIB)
        done = script.completed([sys.executable, path, *words], env=variables, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


def test_run_prefers_the_driver(command: Run, client: dict[str, Path], tmp_path: Path) -> None:
    report, group = tmp_path / "report", tmp_path / "cgroup/slice/own"
    code = f"cat {group}/gpuconf-*/dmem.max; echo $LD_LIBRARY_PATH $GPUCONF_GUARD"
    done = command("run", "--memory", "512MiB", "--json-report", report, "--report", "--", "sh", "-c", code)
    limited, libraries = done.stdout.splitlines()
    assert limited == f"{REGION} {(512 + 528) * MIB}"  # and the CUDA context of an H100, which such a limit counts
    assert "gpuconf-job-" not in libraries
    guard = json.loads(report.read_text())["guard"]
    assert (guard["mode"], guard["gpus"]) == ("driver", {CARDS[0]: {"limit_bytes": 512 * MIB}})
    assert "; limit enforced by the driver: control group /slice/own/gpuconf-" in done.stderr
    assert not list(group.glob("gpuconf-*"))
    # This driver does not look at control groups, which the check finds out.
    done = command("run", "--guard=driver", "--memory", "512MiB", "--check", code=3)
    assert done.stdout.startswith("limit enforced by the driver: control group /slice/own/gpuconf-")
    assert "GOT PAST" in done.stdout


def test_run_uses_the_guard_if_that_is_named_or_the_driver_has_no_limits(command: Run, tmp_path: Path) -> None:
    check = ("--memory", "512MiB", "--check")
    assert command("run", "--guard=preload", *check).stdout.startswith(
        "limit enforced by gpuconf's guard: a driver proxy"
    )
    (tmp_path / "cgroup/dmem.capacity").unlink()
    assert command("run", *check).stdout.startswith("limit enforced by gpuconf's guard: ")
    done = command("run", "--guard=driver", "--memory", "512MiB", "true", code=2)
    text = f"the kernel and the driver do not support limits on device memory ({tmp_path}/cgroup/dmem.capacity)"
    assert f"--guard=driver: {text}" in done.stderr


def test_run_says_which_limits_of_the_driver_are_smaller(command: Run, tmp_path: Path) -> None:
    (tmp_path / "cgroup/slice/dmem.max").write_text(f"{REGION} {256 * MIB}\n")
    done = command("run", "--guard=proxy", "--memory", "512MiB", "true")
    assert f"gpuconf run: the control group /slice limits {CARDS[0]} to 256.00MiB, less than 512.00MiB" in done.stderr
    folder = str(service(tmp_path / "mps"))
    done = command(
        "run",
        "--guard=proxy",
        "--memory",
        "512MiB",
        "true",
        CUDA_MPS_PIPE_DIRECTORY=folder,
        CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=128M,1=8G",
    )
    assert (
        "the multi-process service limits each process to 128.00MiB of GPU 0 (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT)"
        in done.stderr
    )
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=128M,1=8G names a GPU that the program does not see" in done.stderr


def service(folder: Path, pid: int = 0) -> Path:
    """The pipes of a multi-process service whose daemon is this process."""
    folder.mkdir()
    (folder / "control").touch()
    (folder / "nvidia-cuda-mps-control.pid").write_text(f"{pid or os.getpid()}\n")
    return folder


def found(environ: dict[str, str]) -> list[str]:
    survey = Survey(None, None, "615.1", (13, 4), False, ())
    return [f"{one.level}: {one.text}" for one in diagnosis._drivers(survey, environ)]


def test_doctor_names_control_groups(tree: Tree) -> None:
    tree.limit(tree.own, str(8 * GIB), "max")
    assert found({}) == [
        "note: control group /slice/own: 8.00GiB of 0000:17:00, which the driver enforces",
        "note: control groups can limit device memory here: gpuconf run uses one in place of its guard, if no other "
        "process is in its own",
    ]


def test_doctor_names_limits_of_the_multi_process_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "ROOT", str(tmp_path / "none"))
    variable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
    here = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "pipes")}
    assert found(here) == []
    assert found({**here, variable: "0=8G"}) == [
        f"problem: {variable}=0=8G has no effect: no multi-process service is running here"
    ]
    service(tmp_path / "pipes")
    assert found({**here, variable: "0=8G"}) == [
        f"note: {variable}=0=8G: the multi-process service enforces it for each process"
    ]
    assert found({**here, variable: "0:8G"})[0].startswith(f"problem: {variable}=0:8G is malformed")
    (tmp_path / "pipes/nvidia-cuda-mps-control.pid").write_text("4194304\n")  # above every pid
    assert found({**here, variable: "0=8G"})[0].endswith("no multi-process service is running here")


def test_the_default_limit_of_the_multi_process_service(tmp_path: Path) -> None:
    """What the daemon answers; without a limit, or without its command, nothing."""
    tool = tmp_path / "nvidia-cuda-mps-control"
    tool.write_text(
        '#!/bin/sh\nread command\n[ "$command" = "get_default_device_pinned_mem_limit 0" ] && echo 8G || echo 0G\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert [driver_limits.mps_default_limit(environ, gpu) for gpu in (0, 1)] == ["8G", ""]
    assert driver_limits.mps_default_limit({"PATH": "/nowhere"}, 0) == ""


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("0=1G,1=512MB", {"0": GIB, "1": 512 * MIB}),
        ("GPU-1=2g", {"GPU-1": 2 * GIB}),
        ("", {}),
        ("0=1", {}),
        ("0=1G,x", {}),
    ],
)
def test_the_variable_of_the_multi_process_service(text: str, limits: dict[str, int]) -> None:
    assert driver_limits.mps_limits({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": text}) == limits
