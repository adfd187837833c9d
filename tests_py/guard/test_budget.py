"""The budget of a job: the file, what a program under it sees, and what cannot be a budget."""

import fcntl
import os
import re
import resource
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest
import script
import simulator_sources
from conftest_guard import CARDS, MIB, PRELUDE, ROOT, build_driver, compile_c, environment, job
from gpuconf import errors
from gpuconf._core import elf
from gpuconf.jobs import budget, budget_file
from gpuconf.jobs.generated import budget_layout

HEADER = ROOT / "gocore/lease/budget/budget.h"
LIBRARIES = Path(budget.__file__).parent.parent / "_guard"


def test_the_layout_is_the_one_of_the_guard(tmp_path: Path) -> None:
    source = tmp_path / "layout.c"
    source.write_text(f"""#include "{HEADER}"
        #include <stddef.h>
        #include <stdio.h>
        int main(void) {{
            printf("%zu %zu %zu %zu %d %d %d %d ", offsetof(struct budget_header, card), sizeof(struct budget_card),
                sizeof(struct budget_slot), sizeof(struct budget_share), HEADER_BYTES, MAX_CARDS, MAX_SLOTS, SHARES);
            printf("%lld %lld %d", (long long)LOCKS, (long long)LAUNCHER_LOCK, BUDGET_VERSION);
        }}""")
    subprocess.run([os.environ.get("CC", "cc"), source, "-o", tmp_path / "layout"], check=True)
    told = script.completed([tmp_path / "layout"], check=True).stdout.split()
    f = budget_layout
    ours = (f.HEADER.size, f.CARD.size, f.SLOT.size, f.SHARE.size, f.HEADER_BYTES, f.MAX_CARDS, f.MAX_SLOTS, f.SHARES)
    ours += (f.LOCKS, f.LAUNCHER_LOCK, f.BUDGET_VERSION)
    assert [int(word) for word in told] == list(ours)


def test_the_guard_exports_driver_functions_and_its_own_and_nothing_else() -> None:
    table = re.sub(
        r"(?s)#define (CUDA|NVML)_CALLS.*?\n\n", "", simulator_sources.table("gocore/lease/guard/functions.h")
    )
    hooks = set(re.findall(r"^\tX\((\w+),", table, re.M))
    assert elf.exports(str(LIBRARIES / "libgpuconf-guard.so")) == hooks | {
        "gpuconf_guard_figures",
        "gpuconf_guard_for_pools",
        "gpuconf_guard_idle",
        "gpuconf_guard_processes",
    }
    assert elf.exports(str(LIBRARIES / "libgpuconf-preload.so")) == {"dlopen", "dlmopen"}


def test_a_program_sees_a_card_as_large_as_its_limit(driver: Path) -> None:
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            begin()
            print(*info())
            addresses = [allocate(64 * MIB) for _ in range(9)]
            print([result for result, _ in addresses], *info())
            for _, address in addresses[:8]:
                assert free(address) == 0
            print(*info())
        """).splitlines() == [
            f"{512 * MIB} {512 * MIB}",
            f"[0, 0, 0, 0, 0, 0, 0, 0, 2] 0 {512 * MIB}",
            f"{512 * MIB} {512 * MIB}",
        ]
        use = one.budget.usage()[CARDS[0]]
        assert (use.limit, use.used, use.peak, use.refused) == (512 * MIB, 0, 512 * MIB, 1)
        assert one.budget.log() == []
    assert not os.path.exists(os.path.dirname(one.budget.path))


def test_a_limit_above_the_card_changes_nothing(driver: Path) -> None:
    with job(driver, 4096 * MIB) as one:
        told = one.python("begin(); print(*info()); print(allocate(2048 * MIB)[0], allocate(512)[0])")
    assert told.split() == [str(2048 * MIB), str(2048 * MIB), "0", "2"]


def test_a_card_that_the_job_does_not_have_gives_nothing(driver: Path) -> None:
    with job(driver, {CARDS[1]: 512 * MIB}, FAKECUDA_GPUS="2") as one:
        assert one.python("begin(0); print(allocate(512)[0], info()[0])").split() == ["2", "0"]
        assert one.python("begin(1); print(allocate(512)[0], info()[1])").split() == ["0", str(512 * MIB)]
        assert any("device 0 is not one of this job's" in line for line in one.budget.log())


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "1 to 64 cards"),
        ({"GPU-1": 1}, "UUID"),
        ({"GPU-" + "0" * 30: 1}, "UUID"),
        ({"TPU-" + "0" * 32: 1}, "UUID"),
        ({"GPU-" + "g" * 32: 1}, "UUID"),
        ({CARDS[0]: -1}, "must be 0 to"),
    ],
)
def test_limits_that_cannot_be(driver: Path, limits: dict[str, int], said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        budget.prepare(limits, environment=environment(driver))


def test_an_unknown_mode(driver: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="modes are auto, proxy, preload"):
        budget.prepare({CARDS[0]: MIB}, "audit", environment=environment(driver))


def test_without_a_driver(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"libcuda\.so\.1"):
        budget.prepare({CARDS[0]: MIB}, environment=environment(tmp_path))


def test_without_room_for_the_budget_nothing_is_left(driver: Path) -> None:
    """As on a file system that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(
            errors.UnavailableError, match=r"no room for the job's budget in .*: File too large"
        ) as raised:
            budget.prepare({CARDS[0]: MIB}, environment=environment(driver))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    path = re.findall(r"(/\S+/budget):", str(raised.value))[0]
    assert not os.path.exists(os.path.dirname(path))


def damaged(one: object, kind: str) -> None:
    path = one.budget.path  # type: ignore[attr-defined]
    if kind == "gone":
        os.unlink(path)
        return
    with open(path, "r+b") as file:
        if kind == "foreign":
            file.write(b"PK\3\4")
        elif kind == "version":
            file.seek(8)
            file.write(b"\x63")
        elif kind == "slots":
            file.seek(16)
            file.write(b"\xff\xff\xff\x7f")
        elif kind == "short":
            file.truncate(100)
        elif kind == "empty":
            file.truncate(0)
        elif kind == "parent":
            file.seek(112)
            file.write(b"x" * 4096)
    if kind == "read-only":
        os.chmod(path, 0o400)
    elif kind == "link":
        os.rename(path, path + "2")
        os.symlink(path + "2", path)


# Root may write read-only files, unless the programs that it starts may not have that capability.
WITHOUT_PRIVILEGES = (
    "PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1; ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0); "
)


@pytest.mark.parametrize(
    "kind", ["gone", "foreign", "version", "slots", "short", "empty", "parent", "read-only", "link"]
)
def test_a_program_under_a_damaged_budget_is_refused_and_the_log_says_why(driver: Path, kind: str) -> None:
    code = "begin(); print(allocate(512)[0], cuda.cuMemAllocManaged(byref(c_uint64()), c_size_t(512), 1))"
    with job(driver, 512 * MIB) as one:
        damaged(one, kind)
        if kind == "read-only":
            code = WITHOUT_PRIVILEGES + f"os.execv(sys.executable, [sys.executable, '-c', {PRELUDE + code!r}])"
        assert one.python(code).split() == ["2", "2"]
        assert len(one.budget.log()) == 1
        assert "allocations are refused" in one.budget.log()[0]
        if kind == "link":  # the launcher follows no link, and would leave the folder to a later job
            os.replace(one.budget.path + "2", one.budget.path)
    assert not Path(one.budget.path).parent.exists()


@pytest.mark.parametrize("kind", ["gone", "foreign", "version", "short", "empty"])
def test_a_job_inside_of_a_damaged_one_does_not_begin(driver: Path, kind: str) -> None:
    with job(driver, 512 * MIB) as outer:
        damaged(outer, kind)
        with pytest.raises(errors.UnavailableError, match=re.escape(outer.budget.path)):
            budget.prepare({CARDS[0]: MIB}, environment=outer.environment)


def test_jobs_inside_jobs(driver: Path) -> None:
    """The smaller limit counts, and the outer job is charged too."""
    with (
        job(driver, 512 * MIB) as outer,
        budget.prepare({CARDS[0]: 256 * MIB}, environment=outer.environment) as inner,
    ):
        told = outer.python(
            "begin(); print(*info(), allocate(256 * MIB)[0], allocate(512)[0]); sys.stdout.flush(); print(info()[0])",
            **inner.environment,
        )
        assert told.split() == [str(256 * MIB), str(256 * MIB), "0", "2", "0"]
        assert (inner.usage()[CARDS[0]].peak, outer.budget.usage()[CARDS[0]].peak) == (256 * MIB, 256 * MIB)
        with budget.prepare({CARDS[0]: 1024 * MIB}, environment={**outer.environment, **inner.environment}) as wide:
            told = outer.python("begin(); print(*info(), allocate(257 * MIB)[0])", **wide.environment)
            assert told.split() == [str(256 * MIB), str(256 * MIB), "2"]


def test_jobs_are_nested_eight_deep(driver: Path) -> None:
    """The innermost is charged in all; one more does not start."""
    with ExitStack() as stack:
        outer = stack.enter_context(job(driver, 512 * MIB))
        inner = [outer.budget]
        for limit in range(511, 504, -1):
            variables = {**outer.environment, **inner[-1].environment}
            inner.append(stack.enter_context(budget.prepare({CARDS[0]: limit * MIB}, environment=variables)))
        assert outer.python(
            "begin(); print(info()[1] // MIB, allocate(504 * MIB)[0])", **inner[-1].environment
        ).split() == [
            "505",
            "0",
        ]
        assert [one.usage()[CARDS[0]].peak for one in inner] == [504 * MIB] * 8
        with pytest.raises(errors.FailedPreconditionError, match="at most 8 deep"):
            budget.prepare({CARDS[0]: MIB}, environment={**outer.environment, **inner[-1].environment})


def test_a_budget_that_is_its_own_parent_is_too_deep(driver: Path) -> None:
    with job(driver, 512 * MIB) as outer:
        with open(outer.budget.path, "r+b") as file:
            file.seek(budget_file.HEADER.size - 4096)
            file.write(os.fsencode(outer.budget.path) + b"\0")
        with pytest.raises(errors.FailedPreconditionError, match="at most 8 deep"):
            budget.prepare({CARDS[0]: MIB}, environment=outer.environment)
        assert outer.python("begin(); print(allocate(512)[0])") == "2\n"
        assert outer.budget.log()[0].endswith("jobs are nested more than 8 deep: allocations are refused")


def test_folders_of_killed_launchers_are_removed(driver: Path) -> None:
    code = f"""
import os, sys
from gpuconf.jobs import budget
print(budget.prepare({{"{CARDS[0]}": 1 << 20}}).path, flush=True)
os.kill(os.getpid(), 9)
"""
    left = script.completed([sys.executable, "-c", code], env=environment(driver)).stdout.strip()
    assert os.path.exists(left)
    with job(driver, MIB) as one:
        assert not os.path.exists(os.path.dirname(left))
        assert one.budget.path in [reader.path for reader in budget.budgets()]
    assert one.budget.path not in [reader.path for reader in budget.budgets()]


def test_programs_whose_files_are_unusual(driver: Path, tmp_path: Path) -> None:
    """A folder to search that is not UTF-8, and tables that the kernel does not read."""
    (tmp_path / "program.c").write_text("int main(void) { return 0; }")
    program = tmp_path / "program"
    flags = (b"-Wl,--disable-new-dtags,-rpath,/\xff", f"-Wl,-rpath,{driver}")
    compile_c(tmp_path / "program.c", program, *flags)
    with job(driver, 512 * MIB, command=(str(program),)) as one:
        assert "looks for libcuda.so.1 in its DT_RPATH first" in one.budget.describe()[1]
    whole = bytearray(program.read_bytes())
    for at in range(64, 700):
        program.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        elf.program_facts(str(program))


def test_a_python_that_was_built_for_an_old_c_library(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module fcntl has no constants for the locks of open files, which the kernel has all the same."""
    for name in ("F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW"):
        monkeypatch.delattr(fcntl, name, raising=False)
    with job(driver, 512 * MIB) as one:
        assert one.python("begin(); print(*info())") == f"{512 * MIB} {512 * MIB}\n"
        assert one.budget.path in [reader.path for reader in budget.budgets()]


def test_memory_is_freed_on_another_thread_and_from_another_context(driver: Path) -> None:
    with job(driver, {CARDS[0]: 512 * MIB, CARDS[1]: 512 * MIB}, FAKECUDA_GPUS="2") as one:
        assert one.python("""
            import threading
            contexts = [begin(1), begin(0)]
            addresses = [allocate(64 * MIB)[1] for _ in range(3)]
            def release(address, context):
                assert cuda.cuCtxSetCurrent(context) == 0
                assert free(address) == 0
            for arguments in zip(addresses, [contexts[1], contexts[0], contexts[1]]):
                thread = threading.Thread(target=release, args=arguments)
                thread.start()
                thread.join()
                print(512 - info()[0] // MIB)
        """).split() == ["128", "64", "0"]
        assert [one.used(card) for card in CARDS[:2]] == [0, 0]


def test_a_device_without_uuid_gets_nothing(tmp_path: Path) -> None:
    """A driver that cannot say which card a device is: what it is charged to is unknown."""
    old = build_driver(tmp_path / "old", missing=("cuDeviceGetUuid", "cuDeviceGetUuid_v2"))
    with job(old, 512 * MIB) as one:
        assert one.python("begin(); print(allocate(512)[0], info()[0])").split() == ["2", "0"]
        assert any(
            "device 0 does not report its UUID: allocations on it are refused" in line for line in one.budget.log()
        )


MIG = "H100-80GB:mig-container"


@pytest.fixture(scope="module")
def instance(driver: Path) -> dict[str, str]:
    """The UUIDs of the instance that a program sees on MIG, and of its card."""
    ask = """
        assert cuda.cuInit(0) == 0
        for function in (cuda.cuDeviceGetUuid_v2, cuda.cuDeviceGetUuid):
            uuid = (ctypes.c_ubyte * 16)()
            assert function(uuid, 0) == 0
            print(bytes(uuid).hex())
    """
    words = [sys.executable, "-c", PRELUDE + textwrap.dedent(ask)]
    told = subprocess.run(
        words, env=environment(driver, GPUCONF_SIMULATE=MIG), stdout=subprocess.PIPE, text=True, check=True
    )
    its, of_card = told.stdout.split()
    assert its != of_card
    return {"instance": f"MIG-{its}", "card": f"GPU-{of_card}"}


@pytest.mark.parametrize("named", [("instance",), ("card",), ("instance", "card")])
def test_a_budget_names_an_instance_or_its_card(driver: Path, instance: dict[str, str], named: tuple[str, ...]) -> None:
    """Either way the instance has the limit; what is taken of it counts once, as the instance's if that is named."""
    with job(driver, {instance[name]: 128 * MIB for name in named}, GPUCONF_SIMULATE=MIG) as one:
        assert one.python("""
            begin()
            print(*(size // MIB for size in info()))
            print(allocate(64 * MIB)[0], allocate(66 * MIB)[0], allocate(64 * MIB)[0], info()[0])
        """).split() == ["128", "128", "0", "2", "0", "0"]
        assert [use.peak // MIB for use in one.budget.usage().values()] == [128, 0][: len(named)]
        assert one.budget.log() == []


def test_an_instance_of_a_card_of_others_gets_nothing(driver: Path) -> None:
    with job(driver, 128 * MIB, GPUCONF_SIMULATE=MIG) as one:
        assert one.python("begin(); print(allocate(512)[0], info()[0])").split() == ["2", "0"]
        assert any(
            "device 0 is not one of this job's: allocations on it are refused." in line for line in one.budget.log()
        )


def test_functions_that_the_driver_lacks_are_not_offered(tmp_path: Path) -> None:
    old = build_driver(tmp_path / "old", missing=("cuMemAllocManaged",))
    with job(old, 512 * MIB) as one:
        told = one.python(
            "print([hasattr(cuda, name) for name in ('cuMemAllocManaged', 'cuMemAlloc_v2', 'fakecuda_count')])"
        )
    assert told.strip() == "[False, True, True]"


def test_a_program_without_cuda_loads_nothing(driver: Path) -> None:
    code = "print([line for line in open('/proc/self/maps') if 'gpuconf' in line or 'libcuda' in line])"
    with job(driver, 512 * MIB) as one:
        assert one.run(sys.executable, "-S", "-c", code).strip() == "[]"
