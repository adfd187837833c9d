"""One budget, many processes: races, deaths, forks, exec, and more processes than a byte counts."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, PRELUDE, Job, compile_c, job
from gpuconf.jobs import budget_file


@pytest.fixture(scope="module")
def processes(driver: Path) -> Path:
    """The program of processes.c."""
    return compile_c(Path(__file__).parent / "c" / "processes.c", driver / "processes")


def together(one: Job, *commands: tuple[str | Path, ...]) -> list[str]:
    """Run programs at the same time; all must succeed."""
    started = [one.start(*command) for command in commands]
    outputs = [program.communicate(timeout=120) for program in started]
    assert [program.returncode for program in started] == [0] * len(started), outputs
    return [out for out, _ in outputs]


class Holder:
    """A process that holds memory until it is released or killed."""

    def __init__(self, one: Job, program: Path, mib: int) -> None:
        words = [str(program), "hold", str(mib)]
        self.process = subprocess.Popen(
            words, env=one.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def result(self) -> int:
        """What the allocation returned."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def end(self, kill: bool = False) -> None:
        """Let it free and end, or kill it."""
        if kill:
            self.process.kill()
        self.process.communicate()


def test_six_that_race_never_hold_more_than_the_limit(driver: Path, processes: Path, tmp_path: Path) -> None:
    """Beside a counter of their own, which is exact at any moment that a process looks at it."""
    shared = tmp_path / "shared"
    with job(driver, 512 * MIB) as one:
        told = together(one, *((processes, "race", shared, str(512 * MIB), "15000", str(seed)) for seed in range(6)))
        numbers = [[int(word) for word in line.split()] for line in told]
        assert all(granted > 100 and refused > 100 for granted, refused in numbers)
        assert shared.read_bytes()[:16] == bytes(16)
        assert one.used() == 0


def test_exactly_one_gets_the_last_mib(driver: Path, processes: Path, tmp_path: Path) -> None:
    with job(driver, 512 * MIB) as one:
        rest = [Holder(one, processes, 508), Holder(one, processes, 2)]  # a page of 2 MiB is left
        assert [holder.result() for holder in rest] == [0, 0]
        assert together(one, *[(processes, "last", tmp_path / "shared", "6", "300")] * 6) == ["0\n"] * 6
        for holder in rest:
            holder.end()


def test_a_kill_at_any_instruction_costs_nothing(driver: Path, processes: Path) -> None:
    """Killed in the guard and in the driver, after each 997th instruction; `make soak` takes more of them."""
    with job(driver, 512 * MIB) as one:
        assert int(one.run(processes, "kill", "0", "1000000", "997")) > 15


def test_257_processes(driver: Path, processes: Path) -> None:
    with job(driver, 512 * MIB) as one:
        holders = [Holder(one, processes, 1) for _ in range(257)]  # each in a page of 2 MiB
        assert sorted(holder.result() for holder in holders) == [0] * 256 + [2]
        use = one.budget.usage()[CARDS[0]]
        assert (use.used, len(use.processes)) == (512 * MIB, 257)
        for holder in holders[:128]:
            holder.end(kill=True)
        again = Holder(one, processes, 100)
        assert again.result() == 0
        for holder in [*holders[128:], again]:
            holder.end()
        assert one.used() == 0


def gone(one: Job) -> None:
    """Wait until no process holds memory."""
    deadline = time.monotonic() + 10
    while one.used() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert one.used() == 0


def test_one_that_stops_while_it_decides_does_not_keep_what_the_dead_held(driver: Path, processes: Path) -> None:
    with job(driver, 512 * MIB) as one:
        dead = Holder(one, processes, 511)
        assert dead.result() == 0
        dead.end(kill=True)
        with open(one.budget.path, "r+b") as deciding:
            assert budget_file.lock(deciding.fileno(), budget_file.LOCKS - 1)
            again = Holder(one, processes, 511)
            assert again.result() == 0
            again.end()


FORKS = {
    "before the first use": """
        pid = os.fork()
        begin()
        assert allocate((100 if pid else 50) * MIB)[0] == 0
        step()
    """,
    "after the first use": """
        begin()
        assert allocate(100 * MIB)[0] == 0
        pid = os.fork()
        if not pid:
            assert info()[0] == 412 * MIB
            assert allocate(50 * MIB)[0] == 0
        step()
    """,
    "by a raw system call": """
        begin()
        assert allocate(100 * MIB)[0] == 0
        libc = ctypes.CDLL(None)
        SIGCHLD = 17
        pid = libc.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], SIGCHLD, 0, 0, 0, 0)
        if not pid:
            assert allocate(50 * MIB)[0] == 0
        step()
    """,
    "with all descriptors closed": """
        begin()
        assert allocate(100 * MIB)[0] == 0
        pid = os.fork()
        os.closerange(3, 4096)
        if not pid:
            assert allocate(50 * MIB)[0] == 0
            os.closerange(3, 4096)
        step()
    """,
}
STEPS = """
import signal, time
def step():
    # The child says that it is ready, and outlives its parent.
    if pid:
        while not os.path.exists(ready):
            time.sleep(0.005)
        print("both", flush=True)
        sys.stdin.readline()
        os._exit(0)
    open(ready, "w").close()
    while os.getppid() == parent:
        time.sleep(0.005)
    print("child", flush=True)
    sys.stdin.readline()
    os._exit(0)
parent = os.getpid()
"""


@pytest.mark.parametrize("kind", FORKS)
def test_forks(driver: Path, tmp_path: Path, kind: str) -> None:
    """A child has an account of its own; its parent's memory is its parent's."""
    code = PRELUDE + f"ready = {str(tmp_path / 'ready')!r}\n" + STEPS + textwrap.dedent(FORKS[kind])
    with job(driver, 512 * MIB) as one:
        program = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            env=one.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "both\n"
        assert sorted(p.used for p in one.budget.usage()[CARDS[0]].processes) == [50 * MIB, 100 * MIB]
        program.stdin.write("go\n")
        program.stdin.flush()
        assert program.stdout.readline() == "child\n"
        # The parent's other threads may still be ending when the child sees that it has another parent.
        deadline = time.monotonic() + 10
        while one.used() != 50 * MIB and time.monotonic() < deadline:
            time.sleep(0.005)
        assert [p.used for p in one.budget.usage()[CARDS[0]].processes] == [50 * MIB]
        program.stdin.write("go\n")
        program.stdin.flush()
        program.communicate()
        gone(one)  # the child is not ours to wait for
        assert one.budget.log() == []


def test_exec_spawn_and_vfork(driver: Path) -> None:
    """A program that replaces another one begins with nothing; one that is started beside it leaves it its memory."""
    look = "from gpuconf.jobs import budget; print([card.used >> 20 for card in budget.current().usage().values()][0])"
    with job(driver, 512 * MIB) as one:
        assert one.python(f"""
            import subprocess
            begin()
            assert allocate(100 * MIB)[0] == 0
            look = {look!r}
            subprocess.run([sys.executable, "-c", look], check=True)                       # vfork and exec
            os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", look], os.environ), 0)
            os.execv(sys.executable, [sys.executable, "-c", look])
        """).split() == ["100", "100", "0"]


def test_several_cards(driver: Path) -> None:
    """Each card has its limit, and memory is freed on the card where it is, whichever is current."""
    with job(driver, {CARDS[0]: 256 * MIB, CARDS[1]: 128 * MIB}, FAKECUDA_GPUS="2", CUDA_VISIBLE_DEVICES="1,0") as one:
        assert one.python("""
            first, second = begin(0), begin(1)
            print(info()[1] // MIB, allocate(256 * MIB)[0], allocate(1)[0])
            cuda.cuCtxSetCurrent(first)
            print(info()[1] // MIB)
            result, address = allocate(128 * MIB)
            print(result, allocate(1)[0])
            cuda.cuCtxSetCurrent(second)
            print(free(address), info()[0] // MIB)
            cuda.cuCtxSetCurrent(first)
            print(info()[0] // MIB)
        """).split() == ["256", "0", "2", "128", "0", "2", "0", "0", "128"]
