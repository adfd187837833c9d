"""``gpuconf plan -- PROGRAM`` without PyTorch: bad programs, files that stay, steps that repeat, the parts of a
peak.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf.cli import plan_program
from gpuconf.plans.programs import largest, launch, rehearse, trouble
from gpuconf.plans.programs.cover import Options
from gpuconf.plans.programs.framework import PyTorch, Run
from gpuconf.plans.programs.line import repeat
from gpuconf.plans.programs.needs import DEPENDS, DOES_NOT_FIT, FITS, Card, alike, parse, verdict
from gpuconf.plans.programs.parts import ACTIVATIONS, GRADIENTS, OTHER, PARAMETERS, TEMPORARY, Seen, parts
from gpuconf.plans.programs.records import Report, Request
from gpuconf.plans.programs.xla import share
from gpuconf.plans.programs.xla.card_memory import ARRAYS, STATE, Ledger
from script import execute

MIB, GIB = 1 << 20, 1 << 30


def plan(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "gpuconf", "plan", "--gpu", "A10", *options, "--", "program.py"]
    return execute(command, timeout=100, cwd=folder)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            "print('hello')",
            "the program imports no framework that gpuconf can rehearse: PyTorch, built for CUDA, or JAX",
        ),
        ("raise ValueError('wrong\\nnumber')", "the program failed: ValueError: wrong number (program.py:1)"),
        ("input('name? ')", "the program reads standard input, and a rehearsal has none (program.py:1)"),
        ("import os; os.kill(os.getpid(), 9)", "the program was killed by SIGKILL"),
        ("import sys; sys.exit(7)", "the program failed with exit code 7"),
    ],
    ids=["no framework", "fails", "reads input", "kills itself", "exit code"],
)
def test_a_program_of_which_nothing_is_known_is_one_line(tmp_path: Path, program: str, line: str) -> None:
    done = plan(tmp_path, program, "--record", "recording.pickle")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"gpuconf plan: {line}"
    assert not (tmp_path / "recording.pickle").exists()


def test_only_one_number_is_searched_for_accumulated_gradients(tmp_path: Path) -> None:
    ranges = ("--largest", "BATCH=1..8", "--largest", "LENGTH=1..8")
    done = plan(tmp_path, "", "--help-fit", *ranges, "--all")
    text = "--help-fit can be used with one --largest only: that of the batch"
    assert (done.returncode, text in done.stderr) == (2, True)


def test_a_program_started_from_a_terminal_can_ask_for_its_size_and_reads_nothing(tmp_path: Path) -> None:
    program = """
    import os, subprocess, sys
    print(os.get_terminal_size(0), subprocess.run(["stty", "size"], capture_output=True, text=True).stdout.split())
    print([sys.stdin.read(), os.read(0, 10)])
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    ours, terminal = os.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        os.write(ours, b"typed\n")
        command = [sys.executable, "-m", "gpuconf", "plan", "--gpu", "A10", "--", "program.py"]
        done = execute(command, timeout=100, cwd=tmp_path, stdin=terminal)
        left = os.read(terminal, 100)
    finally:
        os.close(ours)
        os.close(terminal)
    assert done.stderr.splitlines()[:2] == [
        "os.terminal_size(columns=97, lines=31) ['31', '97']",
        "['', b'']",
    ]
    assert left == b"typed\n"


# Libraries that fail as those of the same name do without a network; frameworks/rehearsed/test_rehearsed_libraries.py
# has the real ones.
STAND_INS = {
    "huggingface_hub/__init__.py": """
class OfflineModeIsEnabled(ConnectionError): pass
class LocalEntryNotFoundError(FileNotFoundError): pass
def hf_hub_download(repo_id, filename, *, repo_type=None, revision=None, cache_dir=None):
    try:
        raise OfflineModeIsEnabled("offline mode is enabled")
    except OfflineModeIsEnabled as error:
        raise LocalEntryNotFoundError("cannot find the requested files in the disk cache") from error
""",
    "transformers.py": """
import huggingface_hub
class AutoModel:
    def from_pretrained(pretrained_model_name_or_path, **named):
        try:
            return huggingface_hub.hf_hub_download(pretrained_model_name_or_path, "config.json")
        except huggingface_hub.LocalEntryNotFoundError as error:
            raise OSError("We couldn't connect to 'https://huggingface.co'. Check your internet connection.") from error
class AutoImageProcessor:
    def from_pretrained(pretrained_model_name_or_path):
        raise OSError(f"Can't load image processor for {pretrained_model_name_or_path!r}.")
""",
    "datasets.py": """
import huggingface_hub
_PACKAGED_DATASETS_MODULES = {"csv"}
def load_dataset(path, name=None, data_files=None):
    if path == "csv":
        raise FileNotFoundError(f"Unable to find {data_files!r}")
    try:
        huggingface_hub.hf_hub_download(path, "README.md", repo_type="dataset")
    except huggingface_hub.LocalEntryNotFoundError as error:
        raise ConnectionError(f"Couldn't reach {path!r} on the Hub") from error
""",
}


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the stand-ins for programs."""
    for name, text in STAND_INS.items():
        file = tmp_path / "site-packages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            "import transformers as t; t.AutoModel.from_pretrained('openai/tiny')",
            "the model openai/tiny|hf download openai/tiny",
        ),
        (
            "import transformers as t; t.AutoImageProcessor.from_pretrained('a/vit')",
            "the model a/vit|hf download a/vit",
        ),
        (
            "import huggingface_hub as h; h.hf_hub_download('me/it', 'x', revision='v 1', cache_dir='here')",
            "the model me/it|hf download me/it --revision 'v 1' --cache-dir here",
        ),
        (
            "import huggingface_hub as h; h.hf_hub_download('me/rows', 'x', repo_type='dataset')",
            "the data set me/rows|hf download --repo-type dataset me/rows",
        ),
        (
            "import datasets; datasets.load_dataset('wiki', 'raw')",
            "the data set wiki|python -c \"import datasets; datasets.load_dataset('wiki', 'raw')\"",
        ),
    ],
    ids=["model", "in words only", "revision", "data set of the hub", "data set"],
)
def test_what_is_not_downloaded_is_named_with_the_command_that_does_it(tmp_path: Path, program: str, line: str) -> None:
    what, command = line.split("|")
    said = f"{what} is not on this machine, and a rehearsal has no network: `{command}` gets it (program.py:1)"
    assert plan(tmp_path, program).stderr.splitlines()[-1] == f"gpuconf plan: {said}"
    with_network = plan(tmp_path, program, "--network").stderr.splitlines()[-1]
    assert with_network.startswith("gpuconf plan: the program failed: ")


@pytest.mark.parametrize(
    "program",
    [
        "import urllib.request; urllib.request.urlopen('http://example.invalid/weights.pth')",
        "import urllib.request; urllib.request.urlretrieve('http://example.invalid/weights.pth', 'weights.pth')",
        "import datasets; datasets.load_dataset('csv', data_files='http://example.invalid/weights.pth')",
        "raise RuntimeError('Tried http://example.invalid/weights.pth, got:\\n<urlopen error [Errno -3] no name>')",
    ],
    ids=["opened", "retrieved", "file of a data set", "in words only"],
)
def test_an_address_that_a_program_requests_is_named(stand_ins: None, tmp_path: Path, program: str) -> None:
    said = "the program requests http://example.invalid/weights.pth, and a rehearsal has no network"
    done = plan(tmp_path, program)
    assert done.stderr.splitlines()[-1] == f"gpuconf plan: {said}: --network runs it with the network (program.py:1)"


@pytest.mark.parametrize(
    "program",
    [
        "open('there/is/none')",
        "import transformers as t; t.AutoModel.from_pretrained('./out/checkpoint')",
        "import transformers as t; t.AutoImageProcessor.from_pretrained('program.py')",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
    ],
    ids=["file", "folder", "existing file", "refused"],
)
def test_other_failures_are_not_said_to_be_of_the_network(stand_ins: None, tmp_path: Path, program: str) -> None:
    assert plan(tmp_path, program).stderr.splitlines()[-1].startswith("gpuconf plan: the program failed: ")


@pytest.mark.parametrize("own", [{}, {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "no"}], ids=["none", "the user's"])
def test_hubs_are_offline_unless_the_user_says_otherwise(
    tmp_path: Path, own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    program = "import os; print('has', *(os.environ.get(f'HF_{name}_OFFLINE') for name in ('HUB', 'DATASETS')))"
    said = "has " + " ".join(own.values() if own else ("1", "1"))
    assert said in plan(tmp_path, program).stderr.splitlines()
    assert ("has None None" if not own else said) in plan(tmp_path, program, "--network").stderr.splitlines()


def test_a_program_that_runs_forever_ends_with_all_that_it_started(tmp_path: Path) -> None:
    program = """
    import os, subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    print(f"started {os.getpid()}", file=sys.stderr)
    time.sleep(1000)
    """
    done = plan(tmp_path, program, "--seconds", "2")
    assert done.returncode == 1
    assert "the program used no GPU within 2 s; see --seconds" in done.stderr
    assert not running_in(tmp_path)


def test_what_takes_long_to_write_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that ran for two minutes had 20 s to write what it had recorded, and there was no answer."""
    monkeypatch.setattr(launch, "_FIRST_ANSWER", 1.0)
    source = """
        import json, os, time
        from gpuconf.plans.programs.line import line, VARIABLE
        known = {"rank": None, "world": None, "pid": os.getpid(), "gpus": [], "counts": {}, "paths": {}}
        def report():
            time.sleep(3)
            open(f"{os.environ[VARIABLE]}/{os.getpid()}.torch.json", "w").write(json.dumps(known))
        line.report = report
        line.tell("cuda", rank=None, world=1)
        line.listen()
        time.sleep(1000)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(source))
    program = launch.Program(
        [sys.executable, str(tmp_path / "program.py")], dict(os.environ), Request(seconds=2.0), Options()
    )
    program.prepare(silent=True)
    try:
        program.run({}, lambda _: None)
        (one,) = program.processes.values()
        assert (program.ended, one.writes) == ("seconds", True)
        assert os.path.exists(os.path.join(one.folder, f"{one.pid}.torch.json"))
    finally:
        program.cover.close()


def test_what_a_program_leaves_running_is_ended_and_counted(tmp_path: Path) -> None:
    program = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    """
    done = plan(tmp_path, program)
    assert done.stderr.splitlines()[-1].endswith("built for CUDA, or JAX; what it left running was ended (1)")
    assert not running_in(tmp_path)


def test_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import time\nprint('started', flush=True)\ntime.sleep(1000)\n")
    command = [sys.executable, "-m", "gpuconf", "plan", "--gpu", "A10", "--", "program.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "started\n"
        time.sleep(0.5)
        running.send_signal(2)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, ""), err
    assert "interrupted before the program used a GPU" in err
    assert not running_in(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_rehearsal_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    temporary, token = tmp_path / "t", f"token-{os.urandom(8).hex()}"
    temporary.mkdir()
    program = f"""
    import subprocess, sys, time
    subprocess.Popen(["/bin/sh", "-c", "sleep 1000; : {token}"], env={{}}, start_new_session=True)
    open("written", "w").write("x")
    print("started", file=sys.stderr, flush=True)
    time.sleep(1000)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "gpuconf", "plan", "--gpu", "A10", "--", sys.executable, "program.py", token]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as running:
        assert running.stderr is not None
        assert any(line == "started\n" for line in running.stderr)
        running.send_signal(number)
        running.wait(timeout=60)
    until = time.monotonic() + 20
    while (left := with_token(token)) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "written").exists()


def with_token(token: str) -> list[str]:
    """The command lines of processes that have it."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        found += [words.decode(errors="replace")] if token.encode() in words else []
    return found


def running_in(folder: Path) -> set[int]:
    """The processes whose working directory this is."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.add(int(name))
        except OSError:
            continue
    return found


def test_without_a_card_those_of_this_machine_count(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuconf", "plan", "--", "./missing"]
    done = execute(command, cwd=tmp_path, env=os.environ | {"GPUCONF_SIMULATE": "2xT4,A10"})
    first = "run 1, the program as on T4, 1 more to come"
    texts = f"gpuconf plan: {first}\ngpuconf plan: ./missing: command not found\n"
    assert (done.returncode, done.stderr) == (127, texts)
    gpuconf.simulate("2xT4,A10")
    assert plan_program._cards_here() == "T4,A10-24GB"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuconf", "plan", "--gpu", "A10", "--", "./missing"]
    done = execute(command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (127, "gpuconf plan: ./missing: command not found\n")


@pytest.mark.parametrize(("compile_too", "said"), [(False, "1 False"), (True, "None True")])
def test_the_compiler_runs_only_if_asked_and_with_caches_of_its_own(
    tmp_path: Path, compile_too: bool, said: str
) -> None:
    program = """
    import os, sys
    caches = [os.environ.get(name, "") for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")]
    own = all(path.startswith(os.environ["GPUCONF_REHEARSAL"]) for path in caches)
    sys.exit(f"{os.environ.get('TORCHDYNAMO_DISABLE')} {own}" != sys.argv[1])
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, str(tmp_path / "program.py"), said]
    assert gpuconf.plan(command=command, gpu="A10", compile=compile_too).ran["status"] == 0


def test_a_temporary_file_of_the_program_is_removed(tmp_path: Path) -> None:
    """Compilers are called with such files, and would leave them."""
    program = """
    import os, sys, tempfile
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"made by a program")
    os.remove(file.name)
    print(os.path.exists(file.name), file=sys.stderr)
    """
    done = plan(tmp_path, program)
    assert "False" in done.stderr.splitlines()
    assert "unchanged" not in done.stdout + done.stderr


def test_json_says_why_there_is_no_verdict(tmp_path: Path) -> None:
    found = json.loads(plan(tmp_path, "print(1)", "--json").stdout)
    assert found["schema"] == 1
    assert found["why_no_verdict"].startswith("the program imports no framework")
    assert (found["cards"], found["processes"]) == ([], [])


def test_files_of_a_program_stay_as_they_were(tmp_path: Path) -> None:
    for name in ("overwritten", "appended", "removed", "renamed", "tree/inner"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    time.sleep(0.02)
    program = """
    import os, pathlib, shutil, sys
    open("overwritten", "w").write("after")
    with open("appended", "a") as file:
        file.write(", after")
    pathlib.Path("other").write_text("new")
    os.replace("other", "overwritten")
    os.remove("removed")
    os.rename("renamed", "renamed.old")
    shutil.rmtree("tree")
    os.makedirs("made/deep")
    print([open(name).read() for name in ("overwritten", "appended", "renamed.old")], file=sys.stderr)
    """
    assert "['new', 'before, after', 'before']" in plan(tmp_path, program).stderr
    (tmp_path / "program.py").unlink()
    found = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == dict.fromkeys(("overwritten", "appended", "removed", "renamed", "tree/inner"), "before")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("steps", "repeats"),
    [
        ("aaa", True),
        ("aa", False),
        ("baaa", True),
        ("ababab", True),
        ("babab", False),
        ("aabaabaab", True),
        ("abcabd", False),
        ("", False),
    ],
)
def test_steps_repeat_as_a_cycle_three_times(steps: str, repeats: bool) -> None:
    assert bool(repeat(list(steps))) is repeats


def event(action: str, address: int, size: int, time: int) -> dict[str, object]:
    return {"action": action, "addr": address, "size": size, "time_us": time}


def test_the_parts_of_a_peak() -> None:
    events = [
        event("alloc", 1, 1000, 1),  # a parameter, which is rounded up to 1024
        event("alloc", 2, 512, 2),  # data that stays
        event("alloc", 3, 2048, 10),  # an activation
        event("alloc", 4, 512, 11),  # freed before the backward pass
        event("free_requested", 4, 512, 12),
        event("alloc", 5, 1024, 21),  # a gradient, with
        event("alloc", 6, 4096, 22),  # what its computation needs
        event("free_requested", 6, 4096, 23),
        event("free_requested", 3, 2048, 24),
        event("free_requested", 5, 1024, 31),
    ]
    seen = [Seen(30, PARAMETERS, {1: "a"}), Seen(30, GRADIENTS, {5: "a"}), Seen(5, OTHER, {99: ""})]
    assert parts(events, seen, backward=[20, 40], steps=[30, 50]) == {
        PARAMETERS: 1024,
        GRADIENTS: 1024,
        ACTIVATIONS: 2048,
        TEMPORARY: 4096,
        OTHER: 512,
    }


def test_buckets_of_gradients_are_gradients() -> None:
    """DistributedDataParallel makes them with itself, and again before the second forward pass."""
    file = "/env/lib/python3.12/site-packages/torch/nn/parallel/distributed.py"
    for function, part in (("_ddp_init_helper", GRADIENTS), ("_pre_forward", GRADIENTS), ("forward", ACTIVATIONS)):
        frames = [{"filename": "reducer.cpp", "name": "c10d::Reducer", "line": 1}]
        frames.append({"filename": file, "name": function, "line": 800})
        bucket = {**event("alloc", 1, 512, 1), "frames": frames}
        assert parts([bucket, event("free_requested", 1, 512, 31)], [], backward=[20], steps=[30]) == {part: 512}


def process(least: int, world: int = 1, most: int = 0, reserved: Sequence[Sequence[int]] = ()) -> dict[str, object]:
    on_cards = {"default": {"A100-40GB": reserved or [[least] * 3]}}
    sizes = {"least": {"default": least}, "most": {"default": most or least}}
    return {**sizes, "world": world, "on_cards": on_cards, "unknown": []}


def test_a_verdict_is_for_the_gpu_that_needs_most_and_never_too_hopeful() -> None:
    (card,) = parse("A100-40GB")
    usable = card.usable()
    for least, expected in ((30 * GIB, FITS), (usable.low - GIB, DEPENDS), (usable.high, DOES_NOT_FIT)):
        found = verdict(card, "default", [[process(GIB)], [process(least)]])
        assert found.verdict == expected
        assert found.needs_low > least
        assert found.needs_high >= int(least * 1.02)
    # Two processes on one card have two contexts; ranks have NCCL's memory; a convolution may take a workspace.
    one, two = (verdict(card, "default", [[process(GIB)] * n]).needs_low for n in (1, 2))
    assert two == 2 * one
    assert (
        verdict(card, "default", [[process(GIB, world=2)]]).needs_high
        > verdict(card, "default", [[process(GIB)]]).needs_high
    )
    wide = verdict(card, "default", [[process(GIB, most=5 * GIB)]])
    assert (wide.needs_low, wide.needs_high) == (one, int(5 * GIB * 1.02) + card.context().high)
    unknown = verdict(card, "default", [[process(GIB) | {"unknown": ["PyTorch 2.99", "cuBLAS 99.1"]}]])
    assert unknown.needs_low == int(GIB * 0.96) + card.context().low
    assert unknown.needs_high == int(GIB * 1.06) + card.context().high


@pytest.mark.parametrize(
    ("lived", "shared"),
    [
        ([(0, 1), (2, 3)], [[0], [1]]),
        ([(0, 9), (2, 3), (4, 5)], [[0, 1], [0, 2]]),
        ([(0, math.inf), (0, math.inf)], [[0, 1]]),
        ([(0, 5), (1, 5), (2, 5)], [[0, 1, 2]]),
    ],
)
def test_processes_share_a_card_while_they_live(lived: list[tuple[float, float]], shared: list[list[int]]) -> None:
    rows = [{**process(10 * GIB), "uuid": "a", "lived": one, "number": n} for n, one in enumerate(lived)]
    run = Run(parse("T4"), launch.Outcome("program", 0, 1.0, 0, {}, ""), PyTorch(), [QUIET], rows)
    assert [[one["number"] for one in sharing] for sharing in run.gpus] == shared
    assert run.follows() == (len(shared) > 1)


def test_what_a_card_reserves_is_a_range_over_the_room_and_the_workspaces() -> None:
    """A use of workspaces has what is reserved with the least, the expected and the most room; 0: it does not run."""
    (card,) = parse("A100-40GB")

    def reserved(*uses: Sequence[int]) -> tuple[int, int, int]:
        found = verdict(card, "default", [[process(GIB, reserved=uses)], [process(1)]])
        return found.reserved, found.reserved_low, found.reserved_high

    assert reserved([5, 6, 7], [4, 9, 9], [3, 3, 3]) == (6, 3, 9)
    assert reserved([0, 0, 7], [0, 0, 0], [0, 2, 3]) == (7, 2, 7)
    assert reserved([0, 0, 0]) == (1, 1, 1)  # the other GPU's: this one does not hold its part
    both = verdict(card, "default", [[process(GIB)] * 2])
    assert (both.reserved, both.reserved_low, both.reserved_high) == (0, 0, 0)


@pytest.mark.parametrize(("name", "recorded"), [("RTX3090", 256), ("RTXPRO6000", 555)])
def test_the_context_of_a_card_grows_with_its_multiprocessors(name: str, recorded: int) -> None:
    """The figures are those of models.h, without kernels."""
    small, context = parse("RTX4060")[0].context(), parse(name)[0].context()
    assert context.low <= recorded * MIB <= context.high - 256 * MIB
    assert small.low < 113 * MIB < small.high < context.high  # programs of xMem had all but 113 MiB of an RTX 4060


def test_cards_for_which_pytorch_does_the_same_are_one_run() -> None:
    cards = parse("L4,A10,A100-40GB,2xH100-80GB,A100-80GB")
    assert [[card.name for card in group] for group in alike(cards)] == [
        ["L4", "A10-24GB"],
        ["A100-40GB", "A100-80GB"],
        ["H100-80GB"],
    ]
    assert [card.count for card in cards] == [1, 1, 1, 2, 1]


@pytest.mark.parametrize("name", ["L4", "A100-80GB", "T4", "RTX3090", "GB10"])
def test_a_card_leaves_less_than_its_name_says(name: str) -> None:
    card: Card = parse(name)[0]
    usable, context = card.usable(), card.context()
    assert 0 < usable.low == card.memory <= usable.high < 1.02 * card.memory
    assert 0 < context.low < context.high < 2 * GIB
    assert usable.source
    assert context.source


@pytest.mark.parametrize("name", ["H100-80GB", "H200-141GB"])
@pytest.mark.parametrize("measured", [610, 676, 686, 768, 774, 1150])
def test_the_context_of_a_hopper_card_has_the_room_that_was_measured(name: str, measured: int) -> None:
    context = parse(name)[0].context()
    assert context.low <= measured * MIB <= context.high


class Answer:
    """An answer for a program that needs a GiB and some bytes for each number, on a card with 10 GiB."""

    why_no_verdict = ""

    def __init__(self, value: int, each: int, most: int) -> None:
        self.unseen = [f"what {value % 2} hides"]
        self.ran = {"ended": "repeated"}
        needs = GIB + value * each + value % 7 * MIB  # not quite in proportion
        row = {"card": "A10-24GB", "setting": "default", "usable_low": 10 * GIB, "needs_high": needs}
        self.cards = [{**row, "verdict": FITS if needs <= 10 * GIB else DOES_NOT_FIT}] if value <= most else []
        self.peak_allocated = self.peak_reserved = needs


@pytest.mark.parametrize(
    ("each", "most"),
    [(100 * MIB, 10**9), (1000 * MIB, 10**9), (MIB, 10**9), (100 * MIB, 50), (1, 10**9), (20 * GIB, 10**9)],
    ids=["many", "few", "wide range", "fails above 50", "all", "none"],
)
def test_the_largest_number_that_fits(each: int, most: int) -> None:
    asked = largest.parse("B=1..100000" if each == MIB else "B=1..512")
    search = largest.Search(asked, lambda value: Answer(value, each, most))  # type: ignore[arg-type, return-value]
    (found,) = search.run()
    fitting = [
        n
        for n in range(asked.low, asked.high + 1)
        if (a := Answer(n, each, most)).cards and a.cards[0]["verdict"] == FITS
    ]
    expected = max(fitting, default=None)
    assert len(search.answers) <= 16
    if expected is None or expected < 200:
        assert found.largest == expected
    else:
        assert found.largest in fitting
        assert expected - found.largest <= expected // 100 + 1
    assert any(str(found.largest) in line for line in largest.table(asked, [found], search.answers)) or expected is None


def test_an_interrupt_ends_a_search_with_what_is_known() -> None:
    """The try that was interrupted counted, and the search went on."""
    asked = largest.parse("B=1..512")
    tries: list[int] = []

    def answer(value: int) -> Any:
        tries.append(value)
        one = Answer(value, 100 * MIB, 10**9)
        one.ran["ended"] = "interrupted" if len(tries) == 3 else "repeated"
        return one

    search = largest.Search(asked, answer)
    (found,) = search.run()
    assert (len(tries), search.interrupted, sorted(search.answers)) == (3, True, [1, 512])
    assert (found.largest, found.untried) == (1, 511)
    told = largest.table(asked, [found], search.answers)
    (row,) = (line for line in told if line.startswith("A10-24GB"))
    assert "  1 or more, up to 511: interrupted" in row


def test_what_a_search_did_not_see_is_in_both_answers() -> None:
    asked = largest.parse("B=1..100")
    answers = {value: Answer(value, MIB, 99) for value in (1, 2, 3)}
    unseen = ["what comes after the steps that repeat, such as a validation", "what 1 hides", "what 0 hides"]
    assert largest.to_dict(asked, [], {})["unseen"] == unseen[:1]
    for one in answers.values():
        one.to_dict = dict  # type: ignore[attr-defined]
    assert largest.to_dict(asked, [], answers)["unseen"] == unseen  # type: ignore[arg-type]
    assert largest.table(asked, [], answers)[-3:] == [f"not seen: {text}" for text in unseen]  # type: ignore[arg-type]


def answers_for(length: int) -> Any:
    """A function that answers for a number, with a peak by the length of a sequence."""
    return lambda value: Answer(value, length * MIB // 4, 99)


def test_the_largest_number_for_each_of_others() -> None:
    words = ["train.py", "--batch={B}", "{LENGTH}", "{WIDTH}"]
    asked = largest.parse_all(["B=1..64", "LENGTH=512..3000", "WIDTH=7..7"], words)
    found = largest.combinations(asked)
    assert found == [{"LENGTH": length, "WIDTH": 7} for length in (512, 1024, 2048, 3000)]
    searches = [(values, largest.Search(asked[0], answers_for(values["LENGTH"])).run()) for values in found]
    lines = largest.table_of_all(asked, searches)
    assert lines[0] == "the largest B from 1 to 64 that fits:"
    assert lines[-2:] == ["", "not seen: what comes after the steps that repeat, such as a validation"]
    rows = [line.split() for line in lines[2:-2]]
    assert rows[0][:4] == ["LENGTH", "WIDTH", "card", "default"]
    assert [(row[0], row[3]) for row in rows[1:]] == [("512", "64"), ("1024", "35"), ("2048", "17"), ("3000", "12")]
    for texts, message in (
        (["B=1..2", "B=1..3"], "B has two ranges"),
        (["B=1..2", "OTHER=1..3"], r"has no \{OTHER\}"),
        (["B=1..2", "LENGTH=1..9999", "WIDTH=1..9999"], "225 combinations"),
    ):
        with pytest.raises(ValueError, match=message):
            largest.parse_all(texts, words)


def test_a_range_and_its_place() -> None:
    assert largest.parse("BATCH=1..512") == ("BATCH", 1, 512)
    assert largest.substituted(["a", "--b={B}", "{B}{C}"], "B", 3) == ["a", "--b=3", "3{C}"]
    for text in ("BATCH", "B=1..x", "=1..2", "B=1-2"):
        with pytest.raises(ValueError, match="is no range: write NAME=LOW"):
            largest.parse(text)
    with pytest.raises(ValueError, match=r"is empty: the lowest number comes first, as in BATCH=1\.\.5"):
        largest.parse("BATCH=5..1")
    with pytest.raises(ValueError, match=r"has no \{B\}"):
        largest.substituted(["a"], "B", 1)


# What XLA's own descriptions of cards say (xla/backends/gpu/target_config/specs in openxla/xla, 2026): multiprocessors,
# lanes, shared memory of a multiprocessor and of a block that opts in, threads, GB/s, L2, GHz.
OF_XLA = {
    "A100-40GB": (108, 64, 167936, 166912, 2048, 1555.2, 41943040, 1.41),
    "V100-16GB": (80, 64, 98304, 98304, 2048, 898.048, 6291456, 1.53),
    "H100-80GB": (132, 128, 233472, 232448, 2048, 3352.32, 52428800, 1.98),
    "B200-180GB": (148, 128, 233472, 232448, 2048, 7672.32, 132644864, 1.965),
}


@pytest.mark.parametrize("name", OF_XLA)
def test_descriptions_of_cards_are_those_of_xla(name: str) -> None:
    (card,) = parse(name)
    text = share.description(card)
    told = dict(line.strip().split(": ") for line in text.splitlines() if line.count(": ") == 1)
    sms, lanes, shared, opt_in, threads, gigabytes, l2, gigahertz = OF_XLA[name]
    assert int(told["core_count"]) == sms
    assert int(told["fpus_per_core"]) == lanes
    assert (int(told["shared_memory_per_core"]), int(told["shared_memory_per_block_optin"])) == (shared, opt_in)
    assert int(told["threads_per_core_limit"]) == threads
    assert int(told["memory_bandwidth"]) == pytest.approx(gigabytes * 1e9)
    assert int(told["l2_cache_size"]) == l2
    assert float(told["clock_rate_ghz"]) == gigahertz
    assert card.usable().low <= int(told["device_memory_size"]) <= card.usable().high
    assert share.is_described(card)


def test_cards_without_a_description_of_xla_are_unproven() -> None:
    cards = parse("L4,H100-80GB,T4")
    quiet = Report(pid=1, rank=None, world=None, gpus=[], counts={}, paths={})
    run = Run(cards, launch.Outcome("program", 0, 1.0, 0, {}, ""), share.JAX(), [quiet], [])
    assert "unproven: XLA publishes no description of L4, T4, and got gpuconf's" in share.JAX().notes([run], [])
    assert (
        share.why_not(parse("V100-16GB")[0], 13) == "CUDA 13, for which this JAX is built, needs compute capability 7.5"
    )
    assert share.why_not(parse("V100-16GB")[0], 12) == ""


def of_jax(least: int, *, fraction: float = 0.75, uuid: str = "a") -> dict[str, Any]:
    return {
        "uuid": uuid,
        "world": 1,
        "convolutions": 0,
        "products": False,
        "compiling": 0,
        "largest": 0,
        "allocated": least,
        "least": {"default": least, share.LARGER: least},
        "shares": {"default": fraction, share.LARGER: 0.95},
    }


def test_jax_takes_a_share_of_the_card() -> None:
    """Three quarters of an A100 of 39.38 to 39.59 GiB are 29.5; 95 % are 37.4, and the context has room beside it."""
    (card,) = parse("A100-40GB")

    def verdicts(*gpus: list[dict[str, Any]]) -> list[str]:
        return [one.verdict for one in share.JAX().verdicts([card], gpus)]

    assert verdicts([of_jax(28 * GIB)]) == [FITS, FITS]
    assert verdicts([of_jax(29 * GIB)]) == [DEPENDS, FITS]  # 2 % more do not fit
    assert verdicts([of_jax(31 * GIB)]) == [DOES_NOT_FIT, FITS]
    assert verdicts([of_jax(38 * GIB)]) == [DOES_NOT_FIT, DOES_NOT_FIT]
    assert verdicts([of_jax(31 * GIB, fraction=0.9)]) == [FITS, FITS]
    assert verdicts([of_jax(GIB)], [of_jax(31 * GIB)]) == [DOES_NOT_FIT, FITS]  # the GPU that needs most
    # Two processes, each with three quarters.
    assert verdicts([of_jax(GIB), of_jax(GIB)]) == [DOES_NOT_FIT, DOES_NOT_FIT]


class Held:
    """Something with weak references."""


def test_memory_is_held_as_long_as_arrays_live(tmp_path: Path) -> None:
    ledger = Ledger()
    first, second = Held(), Held()
    ledger.hold(first, [ledger.allocate(0, 1000, STATE, (("train.py", 3, "step"),))], written=True)
    ledger.hold(second, [], written=False)
    assert (ledger.live[0], ledger.is_written(first), ledger.is_written(second)) == (1024, True, False)
    taken = ledger.release(first)  # a call took it over
    del first
    assert ledger.live[0] == 1024
    ledger.hold(second, taken, written=True)
    temporary = ledger.allocate(0, 1 << 20, ARRAYS, ())
    ledger.free([temporary])
    ledger.free([temporary])
    del second
    assert ledger.live[0] == 0
    assert ledger.parts(0) == {STATE: 1000, ARRAYS: 1 << 20}
    ledger.write(str(tmp_path / "trace.csv"), tuning=False)
    trace = gpuconf.memory.load_trace(tmp_path / "trace.csv")
    assert [(one.action, one.nbytes, one.tag) for one in trace.events][:2] == [
        ("allocate", 1000, STATE),
        ("allocate", 1 << 20, ARRAYS),
    ]
    assert trace.events[0].stack == (("train.py", 3, "step"),)


@pytest.mark.parametrize(
    ("ended", "steps", "why"), [("seconds", 0, "no call had updated"), ("seconds", 2, ""), ("program", 0, "")]
)
def test_a_jax_program_that_is_cut_before_its_first_step_gets_no_verdict(ended: str, steps: int, why: str) -> None:
    """Before the first step of a training, almost nothing is on the card, and the answer was "fits"."""
    run = launch.Outcome(ended, 0, 45.0, 0, {}, "")
    ran = {"jax": "0.10.2", "optimizer_steps": steps, "skipped_steps": 0, "backward_passes": 0}
    found = trouble.why_no_verdict(run, ran, [{"allocated": 3 << 20}])
    assert found.startswith(why)
    assert bool(found) == bool(why)


QUIET = Report(pid=1, rank=None, world=None, gpus=[], counts={}, paths={})


@pytest.mark.parametrize(("torch", "jax"), [("2.15", None), (None, "0.10")])
@pytest.mark.parametrize(
    ("ended", "asked", "says"),
    [
        ("program", False, ""),
        ("repeated", False, "what comes after the steps that repeat: see --all"),
        ("repeated", True, ""),  # a search says so itself
        ("seconds", False, "the program's end: see --seconds and --all, or give the program fewer iterations"),
    ],
)
def test_a_program_that_did_not_end_was_not_seen(
    torch: str | None, jax: str | None, ended: str, asked: bool, says: str
) -> None:
    run = launch.Outcome(ended, 0, 45.0, 0, {}, "", until_repeated=asked)
    assert trouble.unseen(run, [replace(QUIET, torch=torch, jax=jax)]) == ([says] if says else [])


@pytest.mark.parametrize(
    ("least", "status", "error", "expected"),
    [
        (4 * GIB, 0, "", FITS),
        (14 * GIB, 0, "", DEPENDS),  # which the simulated card held, but there is a context, and a margin
        (17 * GIB, 0, "", DOES_NOT_FIT),
        (4 * GIB, 1, "OutOfMemoryError", DOES_NOT_FIT),
        (4 * GIB, 1, "ValueError", DEPENDS),
    ],
)
def test_a_run_with_the_cards_memory_counts_what_is_beside(least: int, status: int, error: str, expected: str) -> None:
    heard = launch.Heard(1)
    heard.failed = {"error": error} if error else None
    ended = launch.Outcome("program", status, 1.0, 0, {1: heard}, "")
    least_of = {"default": least, "expandable_segments": least}
    on_cards = {setting: {"T4": [[least] * 3]} for setting in least_of}
    needs = {"least": least_of, "most": least_of, "reserved": least, "on_cards": on_cards}
    row = {**process(least), **needs, "uuid": "a", "lived": (0.0, 1.0)}
    run = Run(parse("T4"), ended, PyTorch(), [QUIET], [row], limited=True)
    assert [one.verdict for one in rehearse._verdicts(run)] == [expected]


def test_contexts_take_memory_of_a_card_with_its_own() -> None:
    (card,) = parse("T4")
    assert (card.simulated(2), card.simulated(2, limited=True)) == ("2xT4:no-limit", "2xT4:contexts")
