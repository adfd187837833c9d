"""Mistakes as beginners make them. Each message says what is wrong and what was meant; each row is one that did not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf import _missing
from gpuconf.cli.main import main
from script import environment, execute, run

# A call, on a simulated T4: what its error says.
CALLS = {
    "gpuconf.configure(6)": "limit must be at least 1 MiB and less than 2**63 bytes, but got 6; did you mean '6GiB'?",
    "gpuconf.configure('6')": "but got '6'; did you mean '6GiB'?",
    "gpuconf.configure(6.0)": "but got float: 6.0; did you mean '6GiB'?",
    "gpuconf.configure(0.5)": "but got float: 0.5; did you mean '50%'?",
    "gpuconf.configure(4096)": "but got 4096; did you mean '4096MiB'?",
    "gpuconf.configure('6G')": "limit '6G' is not a size: write bytes, '500MB', '6GiB' or '50%'; did you mean '6GiB'?",
    "gpuconf.configure('6 gigs')": "did you mean '6GiB'?",
    "gpuconf.configure('500 megabytes')": "did you mean '500MiB'?",
    "gpuconf.configure('120GiB')": "is more than the 14.56GiB of /physical_device:GPU:0. Write at most that",
    "gpuconf.configure(120 * 2**30)": "is more than the 14.56GiB of /physical_device:GPU:0. Write at most that",
    "gpuconf.configure(['6GiB', '6GiB'])": "2 entries, but 1 GPU is visible: pass one size for all, or one for each "
    "GPU",
    "gpuconf.configure('6GiB', groth=True)": "unexpected keyword argument 'groth'. Did you mean 'growth'?",
    "gpuconf.configure('6GiB', max_memory=1)": "it has limit, growth, libraries and missing_ok",
    "gpuconf.configure('6GiB', libraries='pytorch')": "unknown library 'pytorch'. Did you mean 'torch'?",
    "gpuconf.configure('6GiB', libraries=['tf'])": "unknown library 'tf'. Did you mean 'tensorflow'?",
    "gpuconf.memory.stats(), gpuconf.configure('6GiB')": "limit 6.00GiB is too late: /physical_device:GPU:0 has the "
    "limit "
    "13.54GiB, and the GPUs were initialized by <mistake>:1 (memory.stats). Call gpuconf.configure() before that",
    "gpuconf.memory.stats(), gpuconf.configure(growth=True)": "growth=True is too late: the GPUs were initialized by "
    "<mistake>:1 ",
    "gpuconf.memory.stats('cuda:0')": "device types are case-sensitive). Did you mean 'GPU:0'?",
    "gpuconf.memory.stats('gpu:0')": "Did you mean 'GPU:0'?",
    "gpuconf.memory.stats('/physical_device:GPU:9')": "is not a GPU of this process. The logical GPUs are GPU:0",
    "gpuconf.device('cuda:0').__enter__()": "while parsing the device spec: 'cuda:0'. Did you mean 'GPU:0'?",
    "gpuconf.device('GPU0').__enter__()": "while parsing the device spec: 'GPU0'. Did you mean 'GPU:0'?",
    "gpuconf.device('cuda').__enter__()": "Did you mean 'GPU:0'?",
    "gpuconf.device(['GPU:0']).__enter__()": "Got <class 'list'>(['GPU:0']); write 'GPU:0'",
    "gpuconf.device(0).__enter__()": "Expecting a string device name. Got <class 'int'>(0); write 'GPU:0'",
    "gpuconf.simulate(2)": "spec must be a string with a model, such as '2xT4', but got int: 2",
    "gpuconf.simulate('2')": 'unknown GPU model "2"; did you mean 2xT4?',
    "gpuconf.simulate('2*T4')": 'unknown GPU model "2*T4"; did you mean 2xT4?',
    "gpuconf.simulate('H100x2')": 'unknown GPU model "H100x2"; did you mean 2xH100-80GB?',
    "gpuconf.simulate('A100 * 4')": "did you mean 4xA100-40GB?",
    "gpuconf.rehearse('A1O')": 'invalid list of GPUs "A1O": unknown GPU model "A1O"; did you mean A10-24GB?',
    "gpuconf.plan(3)": "a trace must be a recording or the path of a file, but got 3",
    "gpuconf.device_count()": "has no attribute 'device_count': use len(gpuconf.visible_devices())",
    "gpuconf.memory.memory_allocated()": "has no attribute 'memory_allocated': use gpuconf.memory.stats().bytes_in_use",
    "gpuconf.memory.max_memory_allocated()": "use gpuconf.memory.stats().peak_bytes_in_use",
    "gpuconf.memory.empty_cache()": "has no attribute 'empty_cache': use gpuconf.memory.release()",
    "gpuconf.memory.set_limit('6GiB')": "has no attribute 'set_limit': use gpuconf.configure(limit=\"6GiB\")",
    "gpuconf.configure(limit=-1)": "limit must be at least 1 MiB and less than 2**63 bytes, but got -1",
    "gpuconf.configure('110%')": "limit '110%' is no part of a GPU: it must be more than 0% and at most 100%",
    "gpuconf.configure(growth='yes')": "growth must be True, False or None, but got 'yes'",
    "gpuconf.configure({'GPU:0': '6GiB'})": "or a list with one for each, but got dict: {'GPU:0': '6GiB'}",
    "gpuconf.memory.allocate(-5)": "nbytes must be at least 0 and less than 2**63, but got -5",
    "gpuconf.memory.allocate('1.5')": "nbytes '1.5' is not a whole number of bytes: write a unit, such as '6GiB'",
    "gpuconf.memory.allocate('1MiB', wait=True)": "wait must be a number of seconds, but got bool: True",
    "gpuconf.memory.stats(5)": "device must be a string, but got int: 5; write 'GPU:5'",
    "gpuconf.memory.tag(5)": "a tag must be a string, but got int: 5",
    "gpuconf.memory.fit_batch(lambda n: None, start=0)": "start must be at least 1, but got 0",
    "gpuconf.plan(command=['python', 'x.py'])": "gpu is missing: name the cards for command, such as gpu='L4,A10'",
    "gpuconf.simulate('')": "spec is empty: pass a model, such as 'H100-80GB', or None to end the simulation",
    "gpuconf.simulate('T4:8')": 'memory "8" is not a whole number with a unit (B, KiB, MiB, GiB, TiB), such as 8GiB',
    "gpuconf.simulate('T4', values='gpu')": "values is 'gpu': choose \"cpu\"",
    "gpuconf.lease('1').__enter__()": "memory must be at least 1 MiB, but got '1'; did you mean '1GiB'?",
    "gpuconf.lease('1GiB', gpus=0).__enter__()": "gpus must be at least 1, but got 0",
    "gpuconf.lease('1TiB').__enter__()": "can never be leased: at most 14.25GiB (15300820992 bytes) of a card. "
    "Request less memory",
    "gpuconf.lease(mem='1GiB')": "lease() got an unexpected keyword argument 'mem'. Did you mean 'memory'?",
    "gpuconf.lease('1GiB', cards=2)": "it has memory, gpus, timeout, name, policy and contexts",
    "gpuconf.simulate('T4', value='cpu')": "simulate() got an unexpected keyword argument 'value'. Did you mean "
    "'values'?",
    "gpuconf.simulate('T4', strict='yes')": "strict must be True, False or None, but got 'yes'",
    "gpuconf.memory.fit_batch(print, batch_size=8)": "unexpected keyword argument 'batch_size'. Did you mean 'start'?",
    "gpuconf.memory.fit_batch(lambda: None)": "() takes no argument: fit_batch passes the batch size as the first one",
    "gpuconf.memory.statistics()": "use gpuconf.memory.stats()",
    "gpuconf.allocators.pytorch": "has no attribute 'pytorch': it has cupy, numba, torch",
    "gpuconf.metrics.register(5)": "registry must be a prometheus_client.CollectorRegistry, but got int: 5",
    "gpuconf.plan_fleet([5], '2xT4')": "a mapping of names to traces, such as {'train': recording}, but got [5]",
    "gpuconf.plan_fleet([], '2xT4')": "jobs is empty: name at least one trace, or a folder that has one",
    "gpuconf.stats()": "has no attribute 'stats': use gpuconf.memory.stats",
    "gpuconf.fit_batch(print)": "has no attribute 'fit_batch': use gpuconf.memory.fit_batch",
    "gpuconf.top()": "has no attribute 'top': it is a command: gpuconf top --help",
    "gpuconf.is_available()": "use len(gpuconf.visible_devices()) > 0",
    "gpuconf.memory.peak()": "use gpuconf.memory.stats().peak_bytes_in_use",
    "gpuconf.torch": "use gpuconf.configure(), which routes PyTorch, CuPy and Numba",
    "__import__('gpuconf.torch')": "No module named 'gpuconf.torch': use gpuconf.configure(), which routes PyTorch",
    "__import__('gpuconf.memo')": "No module named 'gpuconf.memo': did you mean 'memory'?",
    "gpuconf.memory.alloc('1GiB')": "has no attribute 'alloc': did you mean 'allocate'?",
    "gpuconf.memory.measure().peak": "this measurement has not finished: leave its with block first",
    "gpuconf.memory.measure().peak_increase": "this measurement has not finished: leave its with block first",
    "gpuconf.memory.measure().peek": "'Measurement' object has no attribute 'peek'",
    "gpuconf.memory.fit_batch(512, print)": "function must be callable, but got int: 512; it comes before start",
    "gpuconf.memory.report('a.csv', 'a.pdf')": "'a.pdf' would be a page in HTML: write a name such as page.html",
    "gpuconf.memory.free()": "use free() of the buffer, or gpuconf.memory.release()",
    "tf.config.experimental.set_memory_growth(gpu(), 'yes')": "Memory growth must be True or False, not a value of "
    "type str",
    "tf.config.set_visible_devices('GPU:0', 'GPU')": "Unrecognized device: 'GPU:0': the physical devices are "
    "/physical_",
    "gpuconf.list_gpus()": "has no attribute 'list_gpus': use gpuconf.visible_devices()",
    "tf.config.set_logical_device_configuration(gpu(), 4096)": "'int' object is not iterable; use a "
    "list, [LogicalDeviceConfiguration(memory_limit=4096)]",
    "tf1.GPUOptions(memory_fraction=0.3)": 'has no "memory_fraction" field. Did you mean '
    '"per_process_gpu_memory_fraction"?',
    "tf1.ConfigProto(allow_growth=True)": 'has no "allow_growth" field. Did you mean "gpu_options.allow_growth"?',
    "setattr(tf1.GPUOptions(), 'alow_growth', True)": 'has no "alow_growth" field. Did you mean "allow_growth"?',
}

# A command: its exit code, and texts that it says.
COMMANDS: dict[str, tuple[Any, ...]] = {
    "run --memory true": (2, "--memory needs SIZE, such as --memory 10GiB, but got 'true', which is a program"),
    "run --memory 10 true": (2, "--memory must be at least 1 MiB, but got '10'; did you mean '10GiB'?"),
    "run": (2, "no program: after the options, name a command or a Python script, such as python train.py"),
    "run --limit 1GiB true": (2, "there is no option '--limit'. Did you mean --memory?"),
    "run --mem 1GiB true": (2, "there is no option '--mem'. Did you mean --memory?"),
    "run --gpus two true": (
        2,
        "--gpus must be a whole number (CUDA_VISIBLE_DEVICES chooses which GPUs), 1 or more, but got 'two'",
    ),
    "run --simulate 2 true": (2, "did you mean 2xT4?"),
    "env --memory 6": (2, "--memory must be at least 1 MiB, but got '6'; did you mean '6GiB'?"),
    "plan": (2, "A program needs --: gpuconf plan --gpu L4 -- python train.py"),
    "plan --gpu L4 python train.py": (2, "'train.py'. Did you mean gpuconf plan --gpu CARDS -- PROGRAM ...?"),
    "plan --gpu A11 -- python -c 1": (
        2,
        '--gpu: invalid list of GPUs "A11": unknown GPU model "A11"; did you mean A10-24GB?',
    ),
    "top --once": (2, "there is no option '--once'. Did you mean --iterations 1?"),
    "ledger int": (2, "there is no command 'ledger int'. Did you mean ledger init?"),
    "plan trace.csv --policy virtaul": (2, ", virtual, but got 'virtaul'. Did you mean virtual?"),
    "plan --gpu 16GiB -- python -c 1": (
        2,
        "--gpu names cards, such as L4 or A10, and 16GiB is a size: ",
        "memory is T4:16GiB",
    ),
    "plan --gpu A10 train.py": (
        2,
        "'train.py' is a program, not a recording. ",
        ": gpuconf plan --gpu A10 -- python train.py",
    ),
    "plan a.csv -- python x.py": (2, "the trace a.csv cannot be used with a program: leave it or the program out"),
    "ps 4711": (2, "gpuconf ps: unexpected argument '4711'. Did you mean gpuconf stats --pid 4711?\n"),
    "devices --jsn": (2, "there is no option '--jsn'. Did you mean --json?\n"),
    "run --timeout soon true": (
        2,
        "--timeout must be a number of seconds (without --timeout the wait has no limit), 0 or more",
    ),
    "stats --pid me": (2, "--pid must be a process ID, as gpuconf ps lists them, 1 or more, but got 'me'\n"),
    "lease --list --memory 1GiB": (2, "--list lists leases and takes none: leave --memory out, or leave --list out"),
    "env --memory 6GiB --json --format docker": (2, "--json is a format of its own: leave --format docker out"),
    "config limit 6GiB": (2, "Did you mean GPUCONF_LIMIT=6GiB before the command, or limit in gpuconf.toml?"),
    "help runn": (2, "there is no command 'runn'. Did you mean run?"),
}

# Variables: what `gpuconf devices` says, with exit code 1, or 3 if there is no GPU.
VARIABLES = {
    "GPUCONF_LIMIT=6": (1, "GPUCONF_LIMIT must be at least 1 MiB, such as '6GiB', but got '6'; did you mean '6GiB'?"),
    "GPUCONF_LIMIT=6G": (1, "GPUCONF_LIMIT '6G' is not a size: write bytes, '500MB', '6GiB'; did you mean '6GiB'?"),
    "GPUCONF_GROWTH=yes": (1, "GPUCONF_GROWTH must be true or false, but got 'yes'; did you mean true?"),
    "GPUCONF_CONTEXT_MEMORY=lots": (1, "GPUCONF_CONTEXT_MEMORY 'lots' is not a size: write bytes, '500MB', '6GiB'"),
    "GPUCONF_GROWTH=Off": (1, "but got 'Off'; did you mean false?"),
    "GPUCONF_SIMULATE=1": (1, 'cannot simulate "1": unknown GPU model "1"; did you mean 1xT4?'),
    "GPUCONF_SIMULATE_VALUES=gpu": (1, "GPUCONF_SIMULATE_VALUES is 'gpu': choose \"cpu\""),
    "CUDA_VISIBLE_DEVICES=cuda:0": (3, 'no GPUs: CUDA_VISIBLE_DEVICES="cuda:0": entry 1 ("cuda:0") is not an index'),
    "CUDA_VISIBLE_DEVICES=0,0": (3, "name the same GPU, so CUDA hides all GPUs; list each GPU once"),
}

# A settings file: what the first call says of it.
FILES = {
    "limit = 6": "must be at least 1 MiB, such as '6GiB', but got 6; did you mean '6GiB'?",
    "limit = 6.5": "but got float: 6.5; did you mean '6.5GiB'?",
    "growth = 'true'": "must be true or false, but got 'true'; did you mean true?",
    "growth = 1": "must be true or false, but got 1; did you mean true?",
    "limit = 6GiB": '(at line 1, column 10); text needs quotes: limit = "6GiB"',
    "growht = true": "unknown setting 'growht'. Did you mean growth?",
    "mem = '6GiB'": "unknown setting 'mem'. Did you mean limit?",
    "[gpuconf]\nlimit = '6GiB'": "has the table [gpuconf]: write its settings without a table, at the top",
}

# A mark or an option of a test: what pytest says.
MARKS = {
    "gpu(free='8')": "gpu(free=...) is '8', which is 8 bytes; did you mean '8GiB'?",
    "gpu(free=8)": "gpu(free=...) is 8, which is 8 bytes; did you mean '8GiB'?",
    "gpu_peak(1)": "gpu_peak is 1, which is 1 byte; did you mean '1GiB'?",
    "gpu_peak('1 gig')": "gpu_peak '1 gig' is not a size: write bytes, '500MB', '6GiB'; did you mean '1GiB'?",
    "gpu_peak(tolerance=5)": "must be a part of the peak such as 0.05 or '5%', but got 5; did you mean '5%'?",
}
OPTIONS = {
    "--gpuconf-peak=6": "--gpuconf-peak '6' must be a size of at least 1 MiB, such as '6GiB'; did you mean '6GiB'?",
    "--gpuconf-memory=6": "or a fraction: 0.25 or '25%'; did you mean '6GiB'?",
    "--gpuconf-simulate=2": "did you mean 2xT4?",
}


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))


@pytest.mark.parametrize("call", CALLS)
def test_call(one_card: None, call: str) -> None:
    names: dict[str, Any] = {
        "gpuconf": gpuconf,
        "tf": gpuconf,
        "tf1": gpuconf.compat.v1,
        "gpu": lambda: gpuconf.config.list_physical_devices("GPU")[0],
    }
    with pytest.raises((ValueError, TypeError, AttributeError, ImportError, RuntimeError)) as raised:
        exec(compile(call, "<mistake>", "exec"), names)
    assert CALLS[call] in str(raised.value)


@pytest.mark.parametrize("command", COMMANDS)
def test_command(one_card: None, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, *texts = COMMANDS[command]
    assert main(command.split()) == code
    complaint = capsys.readouterr().err
    assert [text for text in texts if text not in complaint] == []
    assert "Traceback" not in complaint
    assert len([line for line in complaint.splitlines() if not line.startswith(("usage:", " "))]) == 1


def test_a_lease_without_with(one_card: None) -> None:
    with pytest.warns(
        UserWarning, match="this lease was never entered, so nothing was leased: write `with gpuconf.lease"
    ):
        gpuconf.lease(memory="1GiB")


def test_a_lease_that_lives_as_long_as_the_process() -> None:
    """Where it ended with the process, nothing was said."""
    done = run("import gpuconf\n\nkept = gpuconf.lease(memory='1GiB')\n", env={"GPUCONF_SIMULATE": "T4"})
    (line,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert line.endswith(
        ":3: UserWarning: this lease was never entered, so nothing was leased: write `with gpuconf.lease(...):`"
    )


@pytest.mark.parametrize("name", ["GPUCONF_LIMT", "GPUCONF_MEMORY_LIMIT"])
def test_a_misspelled_variable(name: str) -> None:
    """It was no limit, and only doctor said so. Once in a process."""
    program = "import gpuconf; gpuconf.configure(growth=True, libraries=[]); gpuconf.memory.stats('GPU:0')"
    done = run(program, env={"GPUCONF_SIMULATE": "T4", name: "1GiB"})
    assert done.stderr == (
        f"environment:0: UserWarning: {name} is set, but gpuconf has no such variable: did you mean GPUCONF_LIMIT?\n"
    )


def test_a_tag_without_with() -> None:
    with pytest.warns(UserWarning, match="this tag was never entered: write `with gpuconf.memory.tag"):
        gpuconf.memory.tag("weights")


def test_commands_that_are_looked_for_in_python_are_commands() -> None:
    for name in _missing.COMMANDS:
        with pytest.raises(AttributeError, match=f"it is a command: gpuconf {name} --help"):
            getattr(gpuconf, name)
        assert main([name, "--help"]) == 0
    # A module, once something has imported it.
    assert _missing.elsewhere("gpuconf", "rehearsal") == 'use gpuconf.rehearse("A10")'
    assert set(_missing.OF_MEMORY) <= set(gpuconf.memory.__all__)


def test_silent_calls() -> None:
    """Each did nothing, or not what it was meant for, and said nothing."""
    program = """
        import gpuconf
        gpuconf.config.list_physical_devices("gpu")
        gpuconf.config.list_logical_devices("gpu")
        gpuconf.config.get_visible_devices("cpu")
        gpuconf.config.list_physical_devices("TPU")
        gpuconf.device("GPU:0")
        with gpuconf.device("GPU:0"):
            pass
        try:
            gpuconf.device("GPU:9").__enter__()
        except ValueError:
            pass
    """
    done = run(program, env={"GPUCONF_SIMULATE": "T4"}, flags=["-W", "always"])
    lines = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert [line.partition("UserWarning: ")[2] for line in lines] == [
        "device types are case-sensitive, and 'gpu' matches no device. Did you mean 'GPU'?",
        "device types are case-sensitive, and 'gpu' matches no device. Did you mean 'GPU'?",
        "device types are case-sensitive, and 'cpu' matches no device. Did you mean 'CPU'?",
        "this device scope was never entered: write `with gpuconf.device(...):`",
    ]
    assert [line.partition(":")[2].partition(":")[0] for line in lines] == ["3", "4", "5", "7"]
    program = "import gpuconf; print(gpuconf.config.list_physical_devices('GPU'))"
    done = run(program, env={"GPUCONF_SIMULATE": "2xT4", "CUDA_VISIBLE_DEVICES": "cuda:1"})
    assert done.stdout == "[]\n"
    assert done.stderr == (  # no line of gpuconf's own
        'environment:0: UserWarning: CUDA_VISIBLE_DEVICES="cuda:1": CUDA ignores "cuda:1" and what follows it. '
        'Did you mean "1"?\n'
    )
    done = run(program, env={"GPUCONF_SIMULATE": "T4", "CUDA_DEVICE_ORDER": "PCI"})
    assert 'CUDA_DEVICE_ORDER="PCI": CUDA ignores it. It knows FASTEST_FIRST and PCI_BUS_ID' in done.stderr


def test_options_after_the_program(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("gpuconf"), "run", "--growth", "python", "--memory", "1GiB", "-c", "1"]
    done = execute(command, env=environment({"GPUCONF_SIMULATE": "T4"}), cwd=tmp_path)
    assert (
        "gpuconf run: --memory is passed to python: gpuconf's own options come before the program's name" in done.stderr
    )


@pytest.mark.parametrize("variable", VARIABLES)
def test_variable(variable: str, tmp_path: Path) -> None:
    code, text = VARIABLES[variable]
    name, _, value = variable.partition("=")
    env = environment({"GPUCONF_SIMULATE": "T4", name: value})
    done = execute([Path(sys.executable).with_name("gpuconf"), "devices"], env=env, cwd=tmp_path)
    assert done.returncode == code
    assert text in (done.stdout if code == 3 else done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("contents", FILES)
def test_settings_file(contents: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpuconf.toml").write_text(contents)
    monkeypatch.setenv("GPUCONF_CONFIG", str(tmp_path / "gpuconf.toml"))
    monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    with pytest.raises(ValueError, match=r"gpuconf\.toml") as raised:
        gpuconf.memory.stats()
    assert FILES[contents] in str(raised.value)


def in_pytest(folder: Path, source: str, *options: str) -> str:
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--gpuconf-simulate=T4", *options]
    done = execute(command, env=environment(), cwd=folder)
    return done.stdout + done.stderr


def test_marks(tmp_path: Path) -> None:
    tests = [f"@pytest.mark.{mark}\ndef test_{number}(): pass\n" for number, mark in enumerate(MARKS)]
    told = in_pytest(
        tmp_path, "\n".join(["import pytest\n", *tests, "def test_machine(gpu_simulate): gpu_simulate()\n"])
    )
    for mark, text in MARKS.items():
        assert text in told, mark
    assert "gpu_simulate() missing 1 required positional argument: 'spec'" in told


@pytest.mark.parametrize("option", OPTIONS)
def test_option(option: str, tmp_path: Path) -> None:
    assert OPTIONS[option] in in_pytest(tmp_path, "def test(): pass\n", option)


MAGIC = """
import sys
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
shell.run_line_magic("load_ext", "gpuconf")
for line in sys.stdin.read().splitlines():
    try:
        shell.run_line_magic("gpu", line)
    except UsageError as error:
        print(error)
"""


def test_magic() -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    complaints = {
        "limt 6GiB": "unknown command 'limt'. Did you mean limit?",
        "limit 6gigs": "did you mean '6GiB'?",
        "limit 1GiB 2GiB": "limit '1GiB 2GiB' is not a size: write bytes, '500MB', '6GiB' or '50%'",
        "simulate 2": "did you mean 2xT4?",
    }
    done = run(MAGIC, env={"GPUCONF_SIMULATE": "T4"}, stdin="\n".join(complaints))
    lines = done.stdout.splitlines()
    assert len(lines) == len(complaints), done.stderr
    assert [text for line, text in zip(lines, complaints.values(), strict=True) if text not in line] == []
