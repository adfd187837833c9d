"""Nothing hangs in a forked child, whatever other threads were doing: a sample of what `make soak` runs 200 times."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import gpuconf
from script import environment, execute, run_well

HERE = Path(__file__).parent
PACKAGE = Path(gpuconf.__file__).parent

# What may block, and how it is created.
_LOCK = re.compile(
    r"\b(R?Lock|Condition|Semaphore|BoundedSemaphore|Event|Barrier|Queue|SimpleQueue|allocate_lock|\w+Executor)\("
)
_MODULE_LOCK = re.compile(r"^(\w+) = module_lock\(globals\(\), \"\1\"\)", re.M)


def run_file(name: str, *arguments: str) -> str:
    done = execute([sys.executable, HERE / name, *arguments], env=environment(), timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_children_of_a_busy_process_end_whatever_they_do() -> None:
    out = run_file("fork_matrix.py", "--forks", "10")
    pairs = re.search(r"^(\d+) pairs, 10 forks each: 0 hung, 0 went wrong", out, re.M)
    assert pairs, out
    assert int(pairs[1]) > 1500


def test_children_of_a_process_that_uses_something_for_the_first_time_end() -> None:
    assert " 2 forks each: 0 hung, 0 went wrong" in run_file("fork_first_use.py", "--forks", "2")


def test_every_lock_is_made_where_a_fork_is_thought_of() -> None:
    """A new lock must be a module_lock(), which a child replaces, or a child must be refused before it takes it, as
    graphs do.
    """
    elsewhere, replaced = set(), 0
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        replaced += len(_MODULE_LOCK.findall(text))
        assert text.count("module_lock(globals()") == len(_MODULE_LOCK.findall(text)), path
        elsewhere.update((path.relative_to(PACKAGE).as_posix(), found[1]) for found in _LOCK.finditer(text))
    # What a child has of them is in the frames of a thread that it does not have.
    made_and_used_by_one_call = {
        ("plans/fleets/patterns.py", "ThreadPoolExecutor"),
        ("plans/programs/outputs.py", "Lock"),
    }
    # A child, which has no copy of the threads, never waits for them.
    of_one_thread = {("ray/_memory.py", "Event"), ("compat/_train.py", "Event"), ("jobs/lent.py", "Event")}
    assert (
        elsewhere
        == {("_core/fork.py", "RLock"), ("compat/v1/_graph.py", "RLock")} | made_and_used_by_one_call | of_one_thread
    )
    assert replaced >= 6


def test_a_child_is_refused_before_it_imports_anything() -> None:
    """A module that another thread was importing at the fork stays locked in the child, and a second import hangs."""
    always = run_well(
        "import gpuconf.compat.v1, sys; gpuconf.config.list_physical_devices(); print(*sys.modules)"
    ).split()
    run_well(f"""
        import builtins, sys
        sys.path.insert(0, {str(HERE)!r})
        import fork_matrix, forking
        fork_matrix._import_before_the_forks()
        always, own_import, imported = {set(always)!r}, builtins.__import__, []

        def noted(name, globals=None, locals=None, fromlist=(), level=0):
            if globals and globals.get("__name__", "").startswith("gpuconf"):
                base = globals["__package__"].rsplit(".", level - 1)[0] if level else ""
                full = ".".join(filter(None, (base, name)))
                asked = {{full}} | {{f"{{full}}.{{each}}" for each in fromlist or ()}}
                imported.extend((asked & set(sys.modules)) - always)
            return own_import(name, globals, locals, fromlist, level)

        def child(notes):
            builtins.__import__ = noted
            for name, operation in fork_matrix.IN_CHILD.items():
                notes.begin(name)
                forking.refused_or_not(lambda: operation.act(world), SystemExit)
                if imported:
                    notes.wrong(f"{{name}} imports {{imported}}")
                    imported.clear()

        world = fork_matrix.World("allocate")
        world.buffer.copy_to_host()
        ended = forking.fork(child)
        assert not ended.hung_in and not ended.wrong, ended
        import os
        os._exit(0)
        """)
