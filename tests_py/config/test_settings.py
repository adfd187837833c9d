"""Settings: calls, the environment, gpuconf.toml and pyproject.toml, and the administrator's ceilings.

They take effect.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import command
import gpuconf
import pytest
from gpuconf._core import settings
from script import environment, execute

GIB = 1 << 30
TRUST = "GPUCONF_TRUST_SETTINGS"


def run(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    return command.run(*arguments, cwd=cwd, env={TRUST: os.environ[TRUST], **(env or {})})


def explained(cwd: Path, env: dict[str, str] | None = None) -> dict[str, tuple[Any, str]]:
    code, out, err = run("config", "--explain", "--json", cwd=cwd, env=env)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["schema"] == 1
    return {one["variable"]: (one["value"], one["source"]) for one in told["settings"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TRUST, str(tmp_path))  # its files may simulate; test_settings_trust.py has the others
    monkeypatch.setattr(settings, "ADMINISTRATOR", str(tmp_path / "etc.toml"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "head"),
    [("gpuconf.toml", ""), ("pyproject.toml", "[tool.gpuconf]\n")],
    ids=["gpuconf.toml", "pyproject.toml"],
)
def test_a_file_takes_effect(here: Path, name: str, head: str) -> None:
    (here / name).write_text(f'{head}simulate = "2xT4"\nlimit = "6GiB"\n')
    (here / "below").mkdir()
    found = explained(here / "below")
    assert found["GPUCONF_SIMULATE"] == ("2xT4", str(here / name))
    assert found["GPUCONF_LIMIT"] == (6 * GIB, str(here / name))
    code, out, _ = run("devices", cwd=here / "below")
    assert code == 0
    assert "simulated: 2xT4" in out


def test_the_order(here: Path) -> None:
    (here / "gpuconf.toml").write_text('simulate = "2xT4"\ngrowth = true\n')
    assert gpuconf.simulated() == "2xT4"
    assert gpuconf.memory.stats("GPU:0").bytes_reserved == 0
    gpuconf.reset()
    os.environ["GPUCONF_SIMULATE"] = "H100"
    try:
        assert gpuconf.simulated() == "H100-80GB"
        with gpuconf.simulate("A100"):
            assert gpuconf.simulated() == "A100-40GB"
        os.environ["GPUCONF_SIMULATE"] = ""
        gpuconf.reset()
        assert gpuconf.simulated() == "", "a variable that is empty is set"
    finally:
        del os.environ["GPUCONF_SIMULATE"]
    called = settings.explain({TRUST: str(here)}, {"GPUCONF_GROWTH": "false"})
    assert called["GPUCONF_GROWTH"] == ("false", "call", "")
    assert called["GPUCONF_SIMULATE"][:2] == ("2xT4", str(here / "gpuconf.toml"))
    assert called["CUDA_DEVICE_ORDER"] == ("FASTEST_FIRST", "default", "")
    assert settings.explain({"GPUCONF_SIMULATE": "T4"}, {})["GPUCONF_SIMULATE"] == ("T4", "environment", "")
    gpuconf.reset()


def test_growth_of_a_file(here: Path) -> None:
    (here / "gpuconf.toml").write_text('simulate = "T4"\ngrowth = true\n')
    with gpuconf.memory.allocate(1 << 20, "GPU:0"):
        assert gpuconf.memory.stats("GPU:0").bytes_reserved < GIB
    gpuconf.reset()
    gpuconf.configure(growth=False)
    with gpuconf.memory.allocate(1 << 20, "GPU:0"):
        assert gpuconf.memory.stats("GPU:0").bytes_reserved > GIB, "a call takes precedence"


def test_the_nearest_file_counts(here: Path) -> None:
    (here / "gpuconf.toml").write_text('simulate = "T4"\n')
    (here / "below").mkdir()
    (here / "below" / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert explained(here / "below")["GPUCONF_SIMULATE"][0] == "T4", "a pyproject.toml without our table is none"
    (here / "below" / "gpuconf.toml").write_text("")
    assert explained(here / "below")["GPUCONF_SIMULATE"] == (None, "default")
    assert explained(here / "below", {"GPUCONF_CONFIG": str(here / "gpuconf.toml")})["GPUCONF_SIMULATE"][0] == "T4"
    assert explained(here, {"GPUCONF_CONFIG": ""})["GPUCONF_SIMULATE"] == (None, "default")


def test_a_changed_file_is_read_again(here: Path) -> None:
    for spec in ("T4", "2xT4"):
        (here / "gpuconf.toml").write_text(f'simulate = "{spec}"\n')
        assert gpuconf.simulated() == spec
        gpuconf.reset()


def test_a_ledger_in_a_file_is_beside_it(here: Path) -> None:
    (here / "gpuconf.toml").write_text('ledger = "shared/ledger"\n')
    assert settings.value("GPUCONF_LEDGER", {TRUST: str(here)}) == str(here / "shared" / "ledger")
    assert settings.value("GPUCONF_LEDGER", {"GPUCONF_LEDGER": "/x"}) == "/x"


def test_a_relative_ledger_is_refused(here: Path) -> None:
    """It was another one in each working directory: two programs each leased the whole card, and nothing said so."""
    relative = {"GPUCONF_LEDGER": "ledger", "GPUCONF_SIMULATE": "T4"}
    said = "GPUCONF_LEDGER='ledger' is a relative path, which names another folder in each working directory"
    for words in (("run", "--memory", "4GiB", "true"), ("lease", "--list"), ("ps",), ("ledger", "check"), ("doctor",)):
        code, out, err = run(*words, cwd=here, env=relative)
        lines = " ".join((out + err).split())  # doctor's are wrapped
        assert (code != 0, said in lines, "Traceback" in err) == (True, True, False), (words, out, err)
    assert not (here / "ledger").exists()
    with pytest.raises(gpuconf.errors.InvalidArgumentError, match="is a relative path"):
        settings.default_folder(relative)
    assert settings.default_folder({"GPUCONF_LEDGER": "~/ledger"}) == os.path.expanduser("~/ledger")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("simulate = ", "is not valid TOML: "),
        ('max_memory = "6GiB"', "unknown setting 'max_memory'. Did you mean limit?"),
        ("color = 1", "unknown setting 'color'; the settings are simulate, limit, growth, memory, turns, ledger"),
        ('limit = "much"', "limit in {path} 'much' is not a size"),
        ("limit = 0", "must be at least 1 MiB"),
        ("limit = true", "must be at least 1 MiB"),
        ("limit = 6", "must be at least 1 MiB"),
        ("limit = 1.5", "must be a number of bytes"),
        ('growth = "yes"', "must be true or false, but got 'yes'"),
        ("simulate = 2", "simulate in {path} must be text, but got 2"),
        ('simulate = "Z80"', 'unknown GPU model "Z80"'),
    ],
)
def test_a_mistake_in_a_file(here: Path, text: str, complaint: str) -> None:
    path = here / "gpuconf.toml"
    path.write_text(text)
    with pytest.raises(gpuconf.errors.InvalidArgumentError) as caught:
        gpuconf.config.list_physical_devices()
    assert complaint.format(path=path) in str(caught.value)
    code, out, err = run("devices", cwd=here)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["config"], ["ps"], ["run", "--memory", "1GiB", "true"], ["lease", "--memory", "1GiB", "true"]]
)
def test_a_chosen_file_must_exist(here: Path, words: list[str]) -> None:
    """It is an error like any other wrong setting: run and lease ended with 3, as without a GPU."""
    code, _, err = run(*words, cwd=here, env={"GPUCONF_CONFIG": "nowhere.toml"})
    assert (
        code,
        err.startswith(f"gpuconf {words[0]}: GPUCONF_CONFIG is 'nowhere.toml', but there is no such file"),
    ) == (1, True)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("memory = 10", 2, "memory in FILE must be at least 1 MiB, but got '10'; did you mean '10GiB'?"),
        ("memory = true", 1, "memory in FILE must be text, but got True"),
        ("memory = '99GiB'", 3, "Request less memory. memory in FILE sets it"),
        ("memory = 1073741824", 0, ""),
    ],
)
def test_memory_of_gpuconf_run(here: Path, text: str, code: int, said: str) -> None:
    """A number of bytes was refused, and what is too much named no file."""
    (here / "gpuconf.toml").write_text(text)
    done = run("run", "true", cwd=here, env={"GPUCONF_SIMULATE": "T4"})
    assert (done[0], done[2].strip().endswith(said.replace("FILE", str(here / "gpuconf.toml")))) == (code, True), done


def test_a_ceiling_is_lowered_and_not_raised(here: Path) -> None:
    (here / "etc.toml").write_text('[ceilings]\nlimit = "4GiB"\n')

    def limit(environ: dict[str, str]) -> settings.Origin:
        return settings.explain(environ, {})["GPUCONF_LIMIT"]

    ceiling = str(here / "etc.toml")
    assert limit({}) == (str(4 * GIB), "default", ceiling)
    assert limit({"GPUCONF_LIMIT": "6GiB"}) == (str(4 * GIB), "environment", ceiling)
    assert limit({"GPUCONF_LIMIT": "3GiB"}) == (str(3 * GIB), "environment", "")
    (here / "gpuconf.toml").write_text('limit = "8GiB"\n')
    assert limit({}) == (str(4 * GIB), str(here / "gpuconf.toml"), ceiling)
    assert settings.ceiling() == (4 * GIB, settings.ADMINISTRATOR)


def test_a_ceiling_holds_for_live_pools(here: Path) -> None:
    """No way to configure a pool gets beyond the ceiling.

    A pool that lives when the file changes keeps its limit until a reset.
    """
    ceilings = here / "etc.toml"
    ceilings.write_text('[ceilings]\nlimit = "4GiB"\n')
    gpuconf.simulate("T4")

    def limits() -> list[int]:
        found = [gpuconf.memory.stats(gpu.name).bytes_limit >> 20 for gpu in gpuconf.config.list_logical_devices("GPU")]
        gpuconf.reset()
        return found

    (gpu,) = gpuconf.config.list_physical_devices("GPU")
    logical = gpuconf.config.LogicalDeviceConfiguration
    assert limits() == [4096], "the default"
    gpuconf.configure(limit="6GiB", growth=True)
    assert limits() == [4096]
    gpuconf.config.set_logical_device_configuration(gpu, [logical(3072), logical(3072)])
    assert sum(limits()) <= 4096
    gpuconf.configure(limit="3GiB")
    with pytest.raises(MemoryError):
        gpuconf.memory.allocate("3.5GiB")
    ceilings.write_text('[ceilings]\nlimit = "1GiB"\n')
    with gpuconf.memory.allocate("2GiB") as buffer:
        assert buffer.nbytes == 2 * GIB
    assert limits() == [3072], "a live pool keeps its limit"
    assert limits() == [1024]


# The MiB that the driver reports to a program that does not know gpuconf, and the result of allocating 2 GiB.
_OF_THE_DRIVER = """
import ctypes
driver, made, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0) == 0
assert driver.cuCtxPushCurrent_v2(made) == driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(total.value >> 20, driver.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(2 << 30)))
"""


def test_a_limit_of_a_file_limits_a_program_of_run(here: Path) -> None:
    """Only the variable did: a program had the whole card, no message said so, and --guard was refused."""
    (here / "gpuconf.toml").write_text('limit = "1GiB"\n')
    ledger = {"GPUCONF_LEDGER": str(here / "ledger")}
    words = ("run", "--simulate", "T4", "--guard=proxy", "python", "-c", _OF_THE_DRIVER)
    assert run(*words, cwd=here, env=ledger) == (0, "1024 2\n", "")
    failing = (*words[:-1], _OF_THE_DRIVER + "raise SystemExit(1)")
    said = f"the program ran out of memory, at its limit of 1.00GiB. limit in {here / 'gpuconf.toml'} sets it\n"
    assert run(*failing, cwd=here, env=ledger) == (1, "1024 2\n", f"gpuconf run: {said}")
    shown = "import os; print(os.environ['GPUCONF_LIMIT'])"
    assert run("run", "--simulate", "T4", "-c", shown, cwd=here, env=ledger) == (0, f"{GIB}\n", "")
    assert run("run", "--simulate", "T4", "-c", shown, cwd=here, env={**ledger, "GPUCONF_LIMIT": "3GiB"})[1] == (
        f"{3 * GIB}\n"
    )
    code, out, err = run("run", "--simulate", "T4", "--check", cwd=here, env=ledger)
    assert (code, "needs --memory" in err) == (0, False), out + err


def test_a_ceiling_limits_a_program_of_run(here: Path) -> None:
    (here / "etc.toml").write_text('[ceilings]\nlimit = "1GiB"\n')
    command_line = ["run", "--simulate", "T4", "python", "-c", _OF_THE_DRIVER]
    code = f"""
    from gpuconf._core import settings
    settings.ADMINISTRATOR = {str(here / "etc.toml")!r}
    from gpuconf.cli.main import main
    raise SystemExit(main({command_line!r}))
    """
    done = execute([sys.executable, "-c", textwrap.dedent(code)], env=environment({"GPUCONF_LEDGER": str(here / "l")}))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1024 2\n", "")


def test_a_mistake_of_the_administrator(here: Path) -> None:
    (here / "etc.toml").write_text('[ceiling]\nlimit = "4GiB"\n')
    with pytest.raises(gpuconf.errors.InvalidArgumentError, match=r"unknown setting 'ceiling'\. Did you mean"):
        gpuconf.config.list_physical_devices()


def test_python_3_10_reads_files_with_tomli(here: Path) -> None:
    without = "import sys; sys.modules['tomllib'] = None; "
    (here / "pyproject.toml").write_text('[project]\nname = "x"\n')
    code = "import gpuconf; print(gpuconf.simulated())"

    env = environment({TRUST: str(here)})

    def python(text: str) -> tuple[str, str]:
        done = execute([sys.executable, "-c", without + text], cwd=here, env=env)
        return done.stdout, done.stderr

    assert python(code) == ("\n", ""), "a pyproject.toml that does not mention gpuconf is not parsed"
    (here / "gpuconf.toml").write_text('simulate = "T4"\n')
    assert (
        "for which Python 3.10 needs tomli: pip install 'gpuconf[toml]'"
        in python("sys.modules['tomli'] = None; " + code)[1]
    )
    (here / "tomli.py").write_text("def loads(text): return {'simulate': text.split('\"')[1]}\n")
    assert python(code) == ("T4\n", "")


def test_explain_as_a_table(here: Path) -> None:
    (here / "gpuconf.toml").write_text('limit = "6GiB"\n')
    _, out, err = run("config", "--explain", cwd=here, env={"GPUCONF_SIMULATE": "T4"})
    assert err == ""
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "6.00GiB" in rows["GPUCONF_LIMIT"]
    assert str(here / "gpuconf.toml") in rows["GPUCONF_LIMIT"]
    assert rows["GPUCONF_SIMULATE"].split()[1:3] == ["T4", "environment"]
    _, out, _ = run("config", cwd=here)
    assert len(out.splitlines()[0].split()) == 2


@pytest.mark.parametrize("head", ["[ tool . gpuconf ]", "['tool'.\"gpuconf\"]", "tool.gpuconf = {}"])
def test_every_spelling_of_the_table(here: Path, head: str) -> None:
    if "=" in head:
        (here / "pyproject.toml").write_text(head.replace("{}", '{limit = "6GiB"}'))
    else:
        (here / "pyproject.toml").write_text(f'{head}\nlimit = "6GiB"\n')
    assert explained(here)["GPUCONF_LIMIT"] == (6 * GIB, f"{here / 'pyproject.toml'}")


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "is nested too deeply"),
        ("#" * (5 << 20), "it is larger than 4 MiB"),
    ],
    ids=["deep", "large"],
)
def test_a_hostile_file_is_one_sentence(here: Path, contents: str, told: str) -> None:
    (here / "gpuconf.toml").write_text(contents)
    code, _, err = run("devices", cwd=here)
    assert (code, err.count("\n")) == (1, 1)
    assert told in err


def test_a_file_that_does_not_end(here: Path) -> None:
    os.mkfifo(here / "gpuconf.toml")
    for chosen, told in (
        ("", "it is a pipe"),
        ("/dev/ptmx", "or a terminal"),
        ("/dev/zero", "/dev/zero: it is larger than 4 MiB"),
    ):
        code, _, err = run("devices", cwd=here, env=({"GPUCONF_CONFIG": chosen} if chosen else {}))
        assert (code, err.count("\n")) == (1, 1)
        assert told in err


def test_a_folder_in_a_files_place_takes_no_descriptors(here: Path) -> None:
    (here / "gpuconf.toml").mkdir()
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(gpuconf.errors.UnavailableError, match="Is a directory"):
            settings.value("GPUCONF_LEDGER", {})
    assert os.listdir("/proc/self/fd") == before


def test_a_working_directory_that_may_not_be_searched_has_no_settings(here: Path) -> None:
    """Such as root's in a container that runs as another user."""
    code = """
        import os, sys, gpuconf
        gpuconf.memory.stats("GPU:0")
        gpuconf.reset()
        os.chmod(".", 0o600)
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        print(gpuconf.memory.stats("GPU:0").bytes_reserved)
        """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    done = execute(words, cwd=here, env=environment({"GPUCONF_SIMULATE": "T4"}))
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_another_programs_table_is_not_ours(here: Path) -> None:
    (here / "pyproject.toml").write_text("tool = 5  # not tool.gpuconf\n")
    assert explained(here)["GPUCONF_LIMIT"] == (None, "default")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("GPUCONF_GROWTH", "1", "GPUCONF_GROWTH must be true or false, but got '1'; did you mean true?"),
        ("GPUCONF_LIMIT", "0", "GPUCONF_LIMIT must be at least 1 MiB, such as '6GiB', but got '0'"),
        (
            "GPUCONF_LIMIT",
            "6144",
            "GPUCONF_LIMIT must be at least 1 MiB, such as '6GiB', but got '6144'; did you mean '6144MiB'?",
        ),
    ],
)
def test_a_bad_value_is_never_ignored(here: Path, variable: str, value: str, told: str) -> None:
    env = {"GPUCONF_SIMULATE": "T4", variable: value}
    code, _, err = run("devices", cwd=here, env=env)
    assert (code, err) == (1, f"gpuconf devices: {told}\n")
    code, out, _ = run("doctor", cwd=here, env=env)
    assert code == 3
    assert f"problem settings: {told}" in " ".join(out.split())
