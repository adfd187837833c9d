"""``%load_ext gpuconf`` in a real kernel."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
import script
from kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20

BEGIN = """
import gpuconf
for name in [name for name in globals() if name in ("kept", "more", "full", "seen", "session", "tf1", "reloaded")]:
    del globals()[name]
for buffer in gpuconf.memory.live_buffers():
    buffer.free()
gpuconf.simulate("2xH100-80GB")
%unload_ext gpuconf
%load_ext gpuconf
"""


@pytest.fixture(scope="module")
def one_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel
        assert kernel.alive


@pytest.fixture
def kernel(one_kernel: Kernel) -> Kernel:
    """The kernel, with two simulated GPUs and the extension, and nothing else."""
    begun = one_kernel.run(BEGIN)
    assert (begun.status, begun.stderr) == ("ok", "")
    return one_kernel


def usage_error(kernel: Kernel, code: str) -> str:
    """The one line that a cell shows."""
    cell = kernel.run(code)
    assert (cell.status, cell.error, cell.stdout, cell.shown) == ("error", "UsageError", "", [])
    assert cell.stderr.count("\n") == 1
    return cell.stderr.strip()


def test_help_is_plain_text(kernel: Kernel) -> None:
    told = kernel.run("%gpu help").stdout
    assert "%gpu limit 6GiB\n" in told
    assert "`" not in told, "the docstring's markup"
    assert kernel.run("%gpu --help").stdout == told


def test_devices_before_and_after_their_first_use(kernel: Kernel) -> None:
    before = kernel.run("%gpu")
    assert before.text.splitlines() == [
        "simulated: 2xH100-80GB",
        "device  GPU                      memory  limit  growth",
        "GPU:0   NVIDIA H100 80GB HBM3  79.18GiB      -       -",
        "GPU:1   NVIDIA H100 80GB HBM3  79.18GiB      -       -",
        "not in use yet: limits and growth can still be set",
    ]
    assert "<code>GPU:1</code>" in before.html
    assert kernel.run("kept = gpuconf.memory.allocate('40GiB', 'GPU:1')").status == "ok"
    after = kernel.run("%gpu")
    assert after.text.splitlines()[3].split() == [
        "GPU:1", "NVIDIA", "H100", "80GB", "HBM3", "▕███████████·········▏", "40.00GiB", "40.00GiB", "77.42GiB",
        "77.42GiB"
    ]  # fmt: skip
    assert "<td" in after.html


PROCESS = """
import subprocess, sys
code = "import gpuconf; print(gpuconf.visible_devices()[0].name, gpuconf.memory.allocate('600MiB', 'GPU:0').nbytes)"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(done.stdout.strip() or "ResourceExhaustedError" in done.stderr or done.stderr)
"""


def test_processes_of_a_notebook_share_its_simulated_cards(kernel: Kernel) -> None:
    assert kernel.run("%gpu simulate T4:1GiB").status == "ok"
    assert kernel.run(PROCESS).stdout == "Tesla T4 629145600\n"
    assert kernel.run("kept = gpuconf.memory.allocate('300MiB', 'GPU:0')").status == "ok"
    assert kernel.run(PROCESS).stdout == "True\n"
    kernel.run("kept.free()")
    where = kernel.run("import os; print(os.environ['GPUCONF_SIMULATED_CARDS'])").stdout.strip()
    assert "T5" in usage_error(kernel, "%gpu simulate T5")
    assert kernel.run("print(os.environ['GPUCONF_SIMULATE'])").stdout == "T4:1GiB\n"
    assert kernel.run("%gpu simulate off").status == "ok"
    names = "[os.environ.get(name) for name in ('GPUCONF_SIMULATE', 'GPUCONF_SIMULATED_CARDS')]"
    assert kernel.run(f"print({names}, os.path.exists({where!r}))").stdout == "[None, None] False\n"
    kernel.run("%gpu simulate T4:1GiB\n%unload_ext gpuconf")
    assert kernel.run(f"print({names})").stdout == "[None, None]\n"


def test_simulate(kernel: Kernel) -> None:
    cell = kernel.run("%gpu simulate T4,2xL4")
    assert cell.text.splitlines()[0] == "simulated: T4,2xL4"
    assert "GPU:2   Tesla T4" in cell.text  # CUDA orders them by speed
    kernel.run("kept = gpuconf.memory.allocate('1MiB')")
    first, *_, last = kernel.run("%gpu simulate T4").stderr.splitlines()
    assert first.endswith("%gpu: cannot change the simulation while device memory is in use; free it first:")
    assert last == "  free them: for b in gpuconf.memory.live_buffers(): b.free()"
    kernel.run("kept.free()")
    assert "%gpu: simulate needs GPUs, such as 2xT4, or off" in usage_error(kernel, "%gpu simulate")
    assert "T5" in usage_error(kernel, "%gpu simulate T5")
    assert (
        "%gpu simulate 2xT4 simulates some"
        in kernel.run("import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n%gpu simulate T4").text
    )
    assert (
        kernel.run(
            "del os.environ['CUDA_VISIBLE_DEVICES']; gpuconf.simulate('T4')\n%gpu simulate "
            "off\nprint(gpuconf.simulated())"
        ).status
        == "ok"
    )


def test_looking_does_not_initialize(kernel: Kernel) -> None:
    for code in (
        "%gpu",
        "%gpu watch on",
        "%gpu help",
        "%%gpumem\n1",
        "gpuconf.config.list_physical_devices()",
        "%gpu watch off",
    ):
        assert kernel.run(code).status == "ok", code
    assert kernel.run("%gpu limit 6GiB").status == "ok"


def test_usage_by_tag_is_in_the_table(kernel: Kernel) -> None:
    kernel.run("with gpuconf.memory.tag('<weights>'):\n    kept = gpuconf.memory.allocate('1GiB')")
    cell = kernel.run("%gpu")
    assert "gpuconf  <weights>  1.00GiB" in cell.text
    assert "&lt;weights&gt;" in cell.html
    assert "<weights>" not in cell.html


def test_limits_and_growth_are_shown_as_they_are(kernel: Kernel) -> None:
    def shown(line: str) -> list[list[str]]:
        return [row.split()[-2:] for row in kernel.run(line).text.splitlines() if row.startswith("GPU:")]

    assert shown("%gpu limit none") == [["-", "-"]] * 2
    assert shown("%gpu limit 7GiB, none --growth") == [["7.00GiB", "yes"], ["-", "yes"]]
    assert shown("%gpu limit 6GiB") == [["6.00GiB", "yes"]] * 2
    assert shown("%gpu limit 6GiB --no-growth") == [["6.00GiB", "no"]] * 2
    assert "the limit of /physical_device:GPU:0 cannot be removed" in kernel.run("%gpu limit none").stderr


def test_limit_and_the_same_limit_again(kernel: Kernel) -> None:
    first = kernel.run("%gpu limit 6GiB --growth")
    assert (first.stdout, first.stderr) == ("", "")
    assert "GPU:1   NVIDIA H100 80GB HBM3  79.18GiB  6.00GiB     yes" in first.text
    assert kernel.run("%gpu limit 6GiB --growth").text == first.text
    assert kernel.run("kept = gpuconf.memory.allocate('1GiB')").status == "ok"
    again = kernel.run("%gpu limit 6GiB --growth")
    assert (again.status, again.stderr) == ("ok", "")
    assert "6.00GiB" in again.text
    refused = kernel.run("%gpu limit 7GiB").stderr.splitlines()
    assert re.fullmatch(r"  by .*:1 \(memory.allocate\)", refused.pop(1))
    assert refused == [
        "UsageError: %gpu: limit 7GiB: the GPUs are initialized with another configuration",
        "  GPU:0: limit 6.00GiB, 1.00GiB in use",
        "  GPU:1: limit 6.00GiB, 0B in use",
        "  next: del what you no longer need, or run %gpu release, which lists what still holds memory",
        "  %gpu reset discards the configuration; then set the limit again",
    ]
    refused_growth = kernel.run("%gpu limit 6GiB --no-growth").stderr.splitlines()
    assert re.fullmatch(r"  by .*:1 \(memory.allocate\)", refused_growth.pop(1))
    assert refused_growth[1:] == refused[1:]
    assert kernel.run("%gpu reset").stderr.splitlines() == [
        "UsageError: %gpu: cannot reset while device memory is in use",
        "  GPU:0: 1.00GiB in use in 1 block",
        "  next: del what you no longer need, or run %gpu release, which lists what still holds memory",
    ]
    assert kernel.run("kept.free()\n%gpu reset\n%gpu limit 50%, none").status == "ok"
    assert kernel.run("gpuconf.memory.stats('GPU:0').bytes_limit >> 20").text == "40540"


def test_map(kernel: Kernel) -> None:
    kernel.run("kept = gpuconf.memory.allocate('1GiB')")
    cell = kernel.run("%gpu map")
    assert len(cell.shown) == 2
    assert "GPU:0: 1.00GiB in use of 77.42GiB reserved" in cell.text
    assert "nothing reserved yet" in kernel.run("%gpu map GPU:1").text


def test_release(kernel: Kernel) -> None:
    """Memory that an error's frames and an output hold comes back; memory that a variable holds does not."""
    kernel.run("kept = gpuconf.memory.allocate('1GiB', 'GPU:1')")
    kernel.run("gpuconf.memory.allocate('2GiB', 'GPU:1')")
    kernel.run("def work():\n    own = gpuconf.memory.allocate('3GiB', 'GPU:1')\n    1 / 0\nwork()")
    assert kernel.run("gpuconf.memory.stats('GPU:1').bytes_in_use >> 30").text == "6"
    cell = kernel.run("%gpu release")
    assert (cell.status, cell.stdout, cell.stderr) == ("ok", "", "")
    assert "still in use: 1.00GiB" in cell.text
    assert "5.00GiB freed, 1.00GiB still in use" in cell.html
    assert "kept" in cell.html.rpartition("held by")[2]
    assert kernel.run("kept.freed").text == "False"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%gpu bogus", "unknown command 'bogus': use simulate, "),
        ("%gpu limit", "limit needs a size"),
        ("%gpu limit 6XiB", "'6XiB' is not a size"),
        ("%gpu limit 0", "at least 1 MiB"),
        ("%gpu limit 1GiB, 2GiB, 3GiB", "limit has 3 entries, but 2 GPUs are visible"),
        ("%gpu limit 1GiB --fast", "there is no option '--fast'"),
        ("%gpu limit 1GiB --growth --no-growth", "one of --growth and --no-growth"),
        ("%gpu limit 900%", "at most 100%"),
        ("%gpu map GPU:9", "No matching devices found for 'GPU:9'"),
        ("%gpu map 😀", "😀"),
        ("%gpu release GPU:9", "No matching devices found"),
        ("%gpu reset now", "takes no arguments, but got 'now'"),
        ("%gpu watch maybe", "use on or off, not 'maybe'"),
        ("%%gpumem all\n1", "takes no arguments, but got 'all'"),
        ("%%gpumem", "body is empty"),
    ],
)
def test_bad_input_is_one_line(kernel: Kernel, code: str, says: str) -> None:
    assert says in usage_error(kernel, code)
    assert kernel.run("%gpu").status == "ok"


def test_gpumem(kernel: Kernel) -> None:
    cell = kernel.run("""%%gpumem
        kept = gpuconf.memory.allocate('300MiB', 'GPU:1')
        with gpuconf.memory.tag('scratch'), gpuconf.memory.allocate('1GiB', 'GPU:1'):
            pass
        kept.nbytes >> 20""")
    result, report = cell.shown
    assert result["text/plain"] == "300"
    assert [line.split() for line in report["text/plain"].splitlines()] == [
        ["this", "cell", "took", "1.29GiB", "at", "its", "peak", "and", "left", "300.00MiB", "on", "GPU:1"],
        ["device", "memory", "of", "took", "left", "peak", "after"],
        ["GPU:1", "all", "1.29GiB", "+300.00MiB", "1.29GiB", "300.00MiB"],
        ["gpuconf", "(untagged)", "300.00MiB", "+300.00MiB", "300.00MiB", "300.00MiB"],
        ["gpuconf", "scratch", "1.00GiB", "0B", "1.00GiB", "0B"],
    ]
    assert "scratch" in report["text/html"]
    assert kernel.run("%%gpumem\nkept.free()").text.startswith("this cell freed 300.00MiB on GPU:1\n")
    assert kernel.run("%%gpumem\n1").text == "1\nthis cell used no device memory"


def test_gpumem_keeps_what_a_plain_cell_has(kernel: Kernel) -> None:
    failed = kernel.run("%%gpumem\nkept = gpuconf.memory.allocate('1GiB')\n1 / 0")
    assert (failed.status, failed.error) == ("error", "ZeroDivisionError")
    assert "left 1.00GiB on GPU:0" in failed.text
    awaited = kernel.run("%%gpumem\nimport asyncio\nawait asyncio.sleep(0, 'slept')")
    assert awaited.shown[0]["text/plain"] == "'slept'"
    timed = kernel.run("%%gpumem\n%%time\nkept.free()")
    assert "Wall time" in timed.stdout
    assert "freed 1.00GiB" in timed.text
    inside = kernel.run("%%capture seen\n%%gpumem\nkept = gpuconf.memory.allocate('1GiB')")
    assert (inside.text, kernel.run("seen.show()").text.splitlines()[0][:26]) == ("", "this cell took 1.00GiB at ")
    rest = kernel.run("more = gpuconf.memory.allocate('2GiB')\n%gpumem\nkept.free()")
    assert rest.text.startswith("this cell freed 1.00GiB")
    called = kernel.run("get_ipython().run_cell_magic('gpumem', '', 'x = more.free()')")
    assert called.text.startswith("this cell freed 2.00GiB")


def test_gpumem_of_a_cell_that_configures_or_resets(kernel: Kernel) -> None:
    assert "took 1.00GiB" in kernel.run("%%gpumem\n%gpu limit 6GiB\nkept = gpuconf.memory.allocate('1GiB')").text
    cell = kernel.run("%%gpumem\nkept.free()\ngpuconf.reset()\nkept = gpuconf.memory.allocate('2GiB')")
    assert (cell.status, cell.text.splitlines()[0]) == (
        "ok",
        "this cell took 2.00GiB at its peak and left 2.00GiB on GPU:0",
    )
    assert "used no device memory" in kernel.run("%%gpumem\nkept.free()\ngpuconf.reset()").text


def test_gpumem_with_sessions(kernel: Kernel) -> None:
    kernel.run("import gpuconf.compat.v1 as tf1\nwith tf1.Session() as session:\n    session.run(tf1.constant(1.0))")
    assert kernel.run("%%gpumem\n1").shown[1]["text/plain"] == "not measured: only sessions have used the GPUs"
    assert "not in use yet" in kernel.run("%gpu").text
    kernel.run("tf1.reset_default_graph()")


def test_a_line_after_each_cell(kernel: Kernel) -> None:
    assert kernel.run("%gpu watch on").stdout == "memory after each cell: on\n"
    assert kernel.run("1").stdout == ""  # nothing is initialized
    assert (
        kernel.run("kept = gpuconf.memory.allocate('1GiB')").stdout == "GPU:0 1.00GiB in use (+1.00GiB, peak 1.00GiB)\n"
    )
    assert kernel.run("1").stdout == "GPU:0 1.00GiB in use, GPU:1 0B in use (unchanged)\n"
    assert kernel.run("1 / 0").stdout.endswith("(unchanged)\n")
    assert kernel.run("%%gpumem\nkept.free()").stdout == ""  # instead of the line, the report
    assert kernel.run("%gpu watch off").stdout == "memory after each cell: off\n"
    assert kernel.run("1").stdout == ""


def test_lists_are_tables(kernel: Kernel) -> None:
    physical = kernel.run("gpuconf.config.list_physical_devices()")
    assert physical.text.startswith("[PhysicalDevice(")
    assert physical.html.count("<tr>") == 4
    assert "NVIDIA H100" in physical.html
    assert kernel.run("gpuconf.config.list_logical_devices()").html.count("<tr>") == 4
    assert "GPU-" in kernel.run("gpuconf.visible_devices()").html
    assert "<b>2 buffers</b>" in kernel.run("kept = [gpuconf.memory.allocate(1000) for _ in range(2)]\nkept").html
    assert "freed" in kernel.run("for one in kept: one.free()\nkept").html
    for other in ("[]", "[1]", "gpuconf.config.list_physical_devices() + [1]", "(gpuconf.visible_devices()[0],)"):
        assert kernel.run(other).html == ""


def test_other_formatters_of_lists_keep_working(kernel: Kernel) -> None:
    own = "class Own(list):\n    def _repr_html_(self): return '<i>own</i>'\nclass Plain(list): pass\n"
    assert kernel.run(f"{own}Own([1])").html == "<i>own</i>"
    assert kernel.run("Plain([1])").html == ""
    theirs = (
        "f = get_ipython().display_formatter.formatters['text/html']\nf.for_type(list, lambda things: "
        "'<i>theirs</i>')\n"
    )
    kernel.run(f"%unload_ext gpuconf\n{theirs}%load_ext gpuconf")
    assert kernel.run("[1]").html == "<i>theirs</i>"
    assert "<table>" in kernel.run("gpuconf.visible_devices()").html
    assert kernel.run("%unload_ext gpuconf\ngpuconf.visible_devices()").html == "<i>theirs</i>"
    kernel.run("f.pop(list)")


STATE = """
def state():
    shell = get_ipython()
    return (
        {kind: dict(found) for kind, found in shell.magics_manager.magics.items()},
        list(shell.input_transformers_cleanup),
        {name: list(found) for name, found in shell.events.callbacks.items()},
        dict(shell.display_formatter.formatters["text/html"].type_printers),
    )
"""


def test_unload_restores_everything(kernel: Kernel) -> None:
    kernel.run(f"%unload_ext gpuconf\n{STATE}\nbefore = state()")
    assert kernel.run("%load_ext gpuconf\n%gpu watch on\nstate() == before").text == "False"
    assert kernel.run("%unload_ext gpuconf\nstate() == before").text == "True"
    assert "not found" in usage_error(kernel, "%gpu")
    kernel.run("from IPython.core.magic import register_line_magic\n@register_line_magic\ndef gpu(line): return 'mine'")
    kernel.run("%load_ext gpuconf")
    assert kernel.run("%gpu").text.startswith("simulated")
    assert kernel.run("%unload_ext gpuconf\n%gpu").text == "'mine'"


def test_help(kernel: Kernel) -> None:
    assert "%gpu limit 6GiB" in kernel.run("%gpu help").stdout
    assert kernel.run("%gpu?").status == "ok"
    assert kernel.run("%%gpumem?").status == "ok"


def test_buffers_and_errors_in_cells(kernel: Kernel) -> None:
    failed = kernel.run("gpuconf.memory.allocate('100GiB')")
    assert (failed.error, failed.stderr) == ("ResourceExhaustedError", "")
    assert "1.00GiB" in kernel.run("kept = gpuconf.memory.allocate('1GiB')\nkept").html
    kernel.run("%xdel kept")


def test_a_waiting_allocation_is_interrupted(kernel: Kernel) -> None:
    cell = kernel.run(
        "full = gpuconf.memory.allocate('77GiB')\nprint('waiting', flush=True)\ngpuconf.memory.allocate('1GiB', "
        "wait=60)",
        interrupt_at="waiting",
    )
    assert cell.error == "KeyboardInterrupt"
    assert kernel.run("full.free()\ngpuconf.memory.allocate('1GiB', wait=60).free()").status == "ok"


def test_an_interrupted_measured_cell(kernel: Kernel) -> None:
    code = (
        "%%gpumem\nimport time\nkept = gpuconf.memory.allocate('1GiB')\nprint('sleeping', flush=True)\ntime.sleep(60)"
    )
    cell = kernel.run(code, interrupt_at="sleeping")
    assert cell.error == "KeyboardInterrupt"
    assert "left 1.00GiB on GPU:0" in cell.text
    assert "used no device memory" in kernel.run("%%gpumem\n1").text


def test_autoreload(kernel: Kernel) -> None:
    """A module that is edited and loaded again keeps its buffers."""
    module = """if True:
        import gpuconf
        kept = globals().get("kept") or gpuconf.memory.allocate("1GiB")
        @gpuconf.memory.tag("work")
        def work():
            with gpuconf.memory.allocate("{size}") as buffer:
                return buffer.nbytes >> 20
    """
    write = """if True:
        import os, pathlib
        def write(text, time):
            path = pathlib.Path("reloaded.py")
            path.write_text(text)
            os.utime(path, (time, time))
    """
    assert kernel.run(f"{write}\nwrite({module.format(size='1MiB')!r}, 1e9)").status == "ok"
    assert kernel.run("%load_ext autoreload\n%autoreload 2\nimport reloaded\nreloaded.work()").text == "1"
    kernel.run(f"write({module.format(size='2MiB')!r}, 2e9)")
    cell = kernel.run("%%gpumem\nreloaded.work()")
    assert (cell.shown[0]["text/plain"], cell.stderr) == ("2", "")
    assert "took 2.00MiB" in cell.text
    assert kernel.run("reloaded.kept.freed, len(gpuconf.memory.live_buffers())").text == "(False, 1)"
    kernel.run("%autoreload off\nreloaded.kept.free()")


def test_a_fork_in_a_cell(kernel: Kernel) -> None:
    cell = kernel.run("""%%gpumem
        import os
        kept = gpuconf.memory.allocate('1GiB')
        child = os.fork()
        if child == 0:
            try:
                get_ipython().run_line_magic('gpu', '')
            except BaseException as error:
                os._exit(7 if 'forked child' in str(error) else 1)
            os._exit(0)
        os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])""")
    assert cell.shown[0]["text/plain"] == "7"
    assert "left 1.00GiB" in cell.text


FIRST = """# A comment.
from __future__ import annotations
base: there_is_no_such_type = 3
%env GPUCONF_TEST_FRESH=1
if base:
    !true
print(display, get_ipython)"""


@pytest.fixture
def own_kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in which nothing has run but the magic that loads the extension."""
    with Kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext gpuconf").status == "ok"
        yield kernel


def test_a_fresh_process_runs_the_cells_that_succeeded(own_kernel: Kernel, tmp_path: Path) -> None:
    """Lines that need a notebook are left out and named, and the cell itself does not run in the kernel."""
    written = tmp_path / "written"
    assert own_kernel.run(FIRST).status == "ok"
    own_kernel.run("base = 4\nraise KeyError(base)")
    assert own_kernel.run("%%time\n\ndouble = base * 2").status == "ok"
    assert (
        own_kernel.run("import asyncio\n%time triple = base * 3\nslept = await asyncio.sleep(0, triple)").status == "ok"
    )
    body = f"open({str(written)!r}, 'w').close()\nimport inspect\ndef own(): pass\nkept_here = 1\n"
    fails = "raise ValueError(f'{base} {double} {triple} {kept_here} {__name__} {inspect.getsource(own)}')"
    cell = own_kernel.run(f"%gpu fits --fresh T4\n{body}{fails}", timeout=100)
    assert (cell.status, cell.stderr) == ("ok", "")
    said = "no verdict: the program failed: ValueError: 3 6 9 1 __main__ def own(): pass"
    assert " ".join(cell.text.split()).endswith(f"{said} (In[6], line 6)")
    assert "left out, as they failed: In[3]\n" in cell.stdout
    left_out = [line.partition("can run it: ")[2] for line in cell.stdout.splitlines() if "can run it" in line]
    assert left_out == ["In[2], line 4: %env GPUCONF_TEST_FRESH=1", "In[2], line 6: !true"]
    assert not written.exists()
    assert own_kernel.run("kept_here").error == "NameError"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%gpu fits --fresh\n1", "fits --fresh needs cards, such as T4,L4"),
        ("%gpu fits --fresh T5", "T5"),
        ("1\n%gpu fits --fresh T4", "fits --fresh goes into the first line of a cell"),
        ("%%gpu\n1", "takes fits --fresh and cards, such as %%gpu fits --fresh T4,L4"),
        ("%%gpu map\n1", "takes fits --fresh and cards, but got 'map'"),
        ("%gpu fits --fresh T4\nif:", "invalid syntax"),
    ],
)
def test_a_bad_request_for_a_fresh_process(kernel: Kernel, code: str, says: str) -> None:
    cell = kernel.run(code, timeout=100)
    assert (cell.status, cell.error, cell.shown) == ("error", "UsageError", [])
    assert says in cell.stderr


def test_a_fresh_process_for_a_cell_without_history() -> None:
    """It took the last cell of the history for its own, and failed without one."""
    done = script.run_well("""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext gpuconf")
shell.run_cell("%gpu fits --fresh T4\\nraise KeyError('mine')")
""")
    assert "KeyError: 'mine' (In[1], line 2)" in done
    assert "Traceback" not in done


def test_a_limit_without_a_gpu_names_the_simulation() -> None:
    """It named a command of the shell and an argument that %gpu does not have."""
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_cell('%load_ext gpuconf\\n%gpu limit 6GiB')"
    )
    done = script.completed([sys.executable, "-c", code], env=script.environment())
    said = (done.stdout + done.stderr).splitlines()[-2:]
    assert "limit='6GiB' is not in force: this process sees no GPU" in said[0]
    assert said[1] == "  %gpu simulate T4 simulates one"


def test_restart(kernel: Kernel) -> None:
    """Last: the kernel is a new process afterwards."""
    kernel.run("kept = gpuconf.memory.allocate('70GiB')")
    kernel.restart()
    assert kernel.run("import gpuconf\ngpuconf.simulate('H100-80GB')\n%load_ext gpuconf").status == "ok"
    assert "not in use yet" in kernel.run("%gpu").text
    assert kernel.run("%%gpumem\nkept = gpuconf.memory.allocate('70GiB')").text.startswith("this cell took 70.00GiB")


def test_the_tab_key_completes_commands(kernel: Kernel) -> None:
    """IPython adds Python's names."""
    assert {"help", "limit", "map", "release", "reset", "watch"} <= set(kernel.completions("%gpu "))
    assert {"release", "reset"} <= set(kernel.completions("%gpu re"))
    assert {"off", "on"} <= set(kernel.completions("%gpu watch o"))
    assert "GPU:0" not in kernel.completions("%gpu map G"), "before the devices exist"
    kernel.run("gpuconf.config.list_logical_devices()")
    assert {"GPU:0", "GPU:1"} <= set(kernel.completions("%gpu map G"))
    kernel.run("%unload_ext gpuconf")
    assert "release" not in kernel.completions("%gpu re")


def test_release_names_no_frames_of_the_shell(kernel: Kernel) -> None:
    kernel.run("more = gpuconf.memory.allocate('1GiB')\nmore")
    shown = kernel.run("%gpu release").text
    assert "__main__.more" in shown
    assert "IPython" not in shown
    assert "ipykernel" not in shown
    kernel.run("more = [more]")
    shown = kernel.run("found = gpuconf.memory.release()\nprint(found)\nfound").text
    assert "__main__.more[0]" in shown
    assert "site-packages" not in shown
