"""Settings files are untrusted input: whose files count, what they may set, and what is said of the rest."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gpuconf
import pytest
from command import COMMAND
from gpuconf._core import runtime, settings, settings_file
from hypothesis import given
from hypothesis import strategies as st
from script import environment, execute, run_well

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
OTHER = 54321  # a user that is neither root nor the one of the tests

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def command(*words: str, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    env = environment({"GPUCONF_LEDGER": str(cwd / "no-ledger"), **(env or {})})
    done = execute([COMMAND, *words], cwd=cwd, env=env)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the files of a test, one above the working directory."""
    before = os.umask(0o022)  # the files of a user whose group has others would be untrusted
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    yield tmp_path / "project"
    os.umask(before)


@pytest.fixture(scope="module")
def code_that_tells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library that says so when it is loaded."""
    folder = tmp_path_factory.mktemp("code")
    text = '#include <stdio.h>\n__attribute__((constructor)) static void run(void) { fputs("LOADED\\n", stderr); }\n'
    (folder / "code.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "code.so", "code.c"], check=True, cwd=folder)
    return folder / "code.so"


PRODUCT = "import gpuconf, numpy as np; a = np.ones((256, 256), 'f'); gpuconf.matmul(a, a); print('done')"


def loads_nothing(cwd: Path, trusted: str = "") -> bool:
    env = {"GPUCONF_SIMULATE": "T4", "GPUCONF_TRUST_SETTINGS": trusted}
    _, _, said = command("doctor", cwd=cwd, env=env)
    product = execute([sys.executable, "-c", PRODUCT], cwd=cwd, env=environment(env))
    return "LOADED" not in said + product.stderr


def test_a_project_names_no_code(here: Path, code_that_tells: Path) -> None:
    """`cd repository; gpuconf doctor` loaded the library that the repository's own pyproject.toml names."""
    (here / "libblas.so").write_bytes(code_that_tells.read_bytes())
    (here / "pyproject.toml").write_text('[tool.gpuconf]\nblas = "./libblas.so"\n')
    assert loads_nothing(here)
    assert loads_nothing(here / "below")
    assert loads_nothing(here, trusted=str(here / "below")), "another folder is trusted"
    assert not loads_nothing(here / "below", trusted=f"/nowhere::{here}"), "the test shows what it claims"


@needs_root
def test_another_users_file_names_no_code(here: Path, code_that_tells: Path) -> None:
    """As /tmp/gpuconf.toml of any user did, for everybody below /tmp, root included."""
    path = here / "gpuconf.toml"
    path.write_text(f'blas = "{code_that_tells}"\n')
    for one in (path, code_that_tells):
        os.chown(one, OTHER, OTHER)
    assert loads_nothing(here / "below")
    code, said, _ = command("doctor", "--json", cwd=here / "below", env={"GPUCONF_SIMULATE": "T4"})
    (note,) = [one for one in json.loads(said)["findings"] if str(path) in one["text"]]
    assert (code, note["level"]) == (0, "note")
    assert note["text"] == f"{path} is ignored: it belongs to user {OTHER}"
    assert note["fix"].startswith(f"GPUCONF_TRUST_SETTINGS={here} makes it count")


def limit() -> str:
    return settings.explain(os.environ, {})["GPUCONF_LIMIT"].value


def reasons() -> list[str]:
    return [one.reason for one in settings.ignored(os.environ)]


def test_whose_files_count(here: Path) -> None:
    path = here / "gpuconf.toml"
    path.write_text('limit = "6GiB"\n')
    assert (limit(), reasons()) == (str(6 * GIB), [])
    for what, mode, why in (
        (path, 0o666, "everyone can write it"),
        (path, 0o646, "everyone can write it"),
        (here, 0o777, "everyone can write its folder"),
        (here, 0o1777, "everyone can write its folder"),  # as /tmp: anybody can be the first to put a file there
    ):
        before = what.stat().st_mode
        what.chmod(mode)
        assert (limit(), reasons()) == ("", [why])
        what.chmod(before)
        assert limit() == str(6 * GIB), "it counts again"


@needs_root
def test_groups_and_owners(here: Path) -> None:
    path = here / "gpuconf.toml"
    path.write_text('limit = "6GiB"\n')
    for what in (path, here):
        name = "it" if what == path else "its folder"
        mode = what.stat().st_mode & 0o777
        os.chown(what, 0, OTHER)
        what.chmod(mode | 0o020)
        assert reasons() == [f"the group {OTHER} can write {name}"]
        os.chown(what, 0, 0)
        assert reasons() == [], "root's group has no other member"
        os.chown(what, OTHER, 0)
        assert reasons() == [f"{name} belongs to user {OTHER}"]
        os.chown(what, 0, 0)
        what.chmod(mode)
    assert limit() == str(6 * GIB)


@needs_root
def test_the_users_own_group(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A umask of 002 makes files that the group may write. It counts as the user's if no other user is in it."""
    import grp
    import pwd

    me = pwd.struct_passwd(("ann", "x", os.geteuid(), 700, "", "/", "/bin/sh"))
    bob = pwd.struct_passwd(("bob", "x", OTHER, 800, "", "/", "/bin/sh"))
    users = [me, bob]
    members: list[str] = []
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {"ann": me, "bob": bob}[name])
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group((group, "x", 700, members)))
    (here / "gpuconf.toml").write_text("")
    (here / "gpuconf.toml").chmod(0o664)
    os.chown(here / "gpuconf.toml", os.geteuid(), 700)
    for group, members, users, counts in (
        ("ann", [], [me, bob], True),
        ("ann", ["ann"], [me, bob], True),
        ("ann", ["bob"], [me, bob], False),
        ("ann", ["ghost"], [me, bob], False),
        ("users", [], [me, pwd.struct_passwd(("bob", "x", OTHER, 700, "", "/", "/bin/sh"))], False),
        ("users", [], [bob], False),  # the directory of users does not list all
        ("ann", [], [bob], True),
    ):
        assert (reasons() == []) == counts, (group, members, users)


def test_links(here: Path, tmp_path: Path) -> None:
    """The file that is opened counts, and the folder that has the link."""
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "settings"
    target.write_text('limit = "6GiB"\n')
    (here / "gpuconf.toml").symlink_to(target)
    assert limit() == str(6 * GIB)
    target.chmod(0o666)
    assert reasons() == ["everyone can write it"]
    target.chmod(0o644)
    here.chmod(0o777)
    assert reasons() == ["everyone can write its folder"]


def test_what_others_put_there_breaks_nothing(here: Path) -> None:
    """Files that cannot be read or parsed, in a folder where anybody can put them."""
    here.chmod(0o1777)
    path = here / "gpuconf.toml"
    for text in ("limit = 5", "not TOML", "x = 1"):
        path.write_text(text)
        assert (limit(), reasons()) == ("", ["everyone can write its folder"])
    path.unlink()
    path.symlink_to("gpuconf.toml")
    assert reasons() == ["everyone can write its folder"]
    path.unlink()
    os.mkfifo(path)
    assert reasons() == ["everyone can write its folder"]
    path.unlink()
    (here / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert reasons() == [], "it says nothing about gpuconf"
    (here / "pyproject.toml").write_text("[tool.gpuconf]\nlimit = 5\n")
    assert reasons() == ["everyone can write its folder"]
    (here / "pyproject.toml").unlink()
    os.mkfifo(here / "pyproject.toml")
    assert reasons() == []


@needs_root
def test_another_users_file_that_cannot_be_read() -> None:
    code = f"""
        import os
        from gpuconf._core import settings
        os.setresgid({OTHER}, {OTHER}, {OTHER})
        os.setresuid({OTHER}, {OTHER}, {OTHER})
        print([one.reason for one in settings.ignored({{}})])
        """
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, which other users cannot search
        path = Path(folder, "gpuconf.toml")
        path.write_text("")
        path.chmod(0)
        os.chown(path, OTHER + 1, OTHER + 1)
        Path(folder).chmod(0o755)
        assert run_well(code, cwd=folder) == f"['it belongs to user {OTHER + 1}']\n"


def test_the_file_above_an_ignored_one_counts(here: Path) -> None:
    (here / "gpuconf.toml").write_text('limit = "6GiB"\n')
    (here / "below" / "gpuconf.toml").write_text('limit = "1GiB"\n')
    (here / "below" / "gpuconf.toml").chmod(0o666)
    assert (limit(), reasons()) == (str(6 * GIB), ["everyone can write it"])


def test_what_a_found_file_cannot_set(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = here / "gpuconf.toml"
    path.write_text('simulate = "T4"\nledger = "ledger"\nblas = "libblas.so.3"\nlimit = "6GiB"\n')
    monkeypatch.delenv("GPUCONF_LEDGER")
    code, said, err = command("config", "--explain", "--json", cwd=here / "below", env={})
    assert (code, err) == (0, "")
    told = json.loads(said)
    values = {one["variable"]: one["value"] for one in told["settings"] if one["source"] == str(path)}
    assert values == {"GPUCONF_LIMIT": 6 * GIB}
    ignored = {one["key"]: one["reason"] for one in told["ignored"]}
    assert ignored == {
        "simulate": "a file found in or above the working directory cannot replace the GPUs by simulated ones",
        "ledger": "a file found in or above the working directory cannot move the ledger",
        "blas": "a file found in or above the working directory cannot name code to load",
    }
    _, said, _ = command("config", "--explain", cwd=here / "below")
    assert f"simulate in {path} is ignored: a file found" in said
    for chosen in ({"GPUCONF_TRUST_SETTINGS": str(here)}, {"GPUCONF_CONFIG": str(path)}):
        found = settings.explain(chosen, {})
        assert settings.ignored(chosen) == []
        assert found["GPUCONF_SIMULATE"].value == "T4"
        assert found["GPUCONF_LEDGER"].value == str(here / "ledger")
        assert found["GPUCONF_BLAS"].value == "libblas.so.3", "a name for the loader is no path"
    for harmless in ("auto", "gonum"):
        path.write_text(f'blas = "{harmless}"\n')
        assert settings.explain({}, {})["GPUCONF_BLAS"].value == harmless


def test_what_is_ignored_is_logged_once(
    here: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "_logged", set())
    (here / "gpuconf.toml").write_text('simulate = "T4"\n')
    with caplog.at_level(logging.WARNING, "gpuconf"):
        for _ in range(3):
            gpuconf.config.list_physical_devices()
            gpuconf.reset()
    said = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"simulate in {here}/gpuconf.toml is ignored: ")
    assert f"GPUCONF_TRUST_SETTINGS={here}" in said[0]


# GPUCONF_TRUST_SETTINGS


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("*", "there is none for all folders"),
        (".", "a relative name"),
        ("~/work", "a relative name"),
        ("a\0b", "a relative name"),
    ],
)
def test_an_entry_that_is_no_folder(entry: str, why: str) -> None:
    with pytest.raises(gpuconf.errors.InvalidArgumentError, match="GPUCONF_TRUST_SETTINGS has the entry ") as caught:
        settings.explain({settings_file.VARIABLE: f"/srv:{entry}"}, {})
    assert why in str(caught.value)
    if "\0" not in entry:
        code, said, _ = command("doctor", cwd=Path("/"), env={settings_file.VARIABLE: entry, "GPUCONF_SIMULATE": "T4"})
        assert code == 3
        assert "problem settings: GPUCONF_TRUST_SETTINGS has the entry" in said


def test_entries_that_name_nothing(here: Path) -> None:
    (here / "gpuconf.toml").write_text('simulate = "T4"\n')
    for text in (
        "",
        ":",
        ":::",
        "/nowhere",
        "/" + "x" * 5000,
        "/x:" * 20_000,
        str(here / "below"),
        str(here / "gpuconf.toml"),
    ):
        assert len(settings.ignored({settings_file.VARIABLE: text})) == 1
    (here / "link").symlink_to(here)
    for text in (str(here), f"{here}/", f"::{here}:", f"{here}/below/..", str(here / "link")):
        assert settings.ignored({settings_file.VARIABLE: text}) == []


@given(st.text(max_size=40))
def test_no_text_trusts_this_folder(text: str) -> None:
    """Nor raises another error than the documented one."""
    try:
        entries = settings_file.folders({settings_file.VARIABLE: text})
    except gpuconf.errors.InvalidArgumentError:
        return
    assert all(os.path.isabs(entry) for entry in entries)
    assert not settings_file.names([entry for entry in entries if os.path.realpath(entry) != os.getcwd()], os.stat("."))


# Simulations beside real GPUs


@pytest.mark.parametrize("by", ["variable", "file", "call"])
def test_a_simulation_beside_real_gpus_says_who_requested_it(
    by: str, here: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "DRIVER_FILES", (str(here / "nvidiactl"),))
    monkeypatch.setattr(runtime, "_told", set())

    def simulated() -> list[str]:
        with caplog.at_level(logging.WARNING, "gpuconf"):
            if by == "call":
                gpuconf.simulate("T4")
            assert gpuconf.simulated()
            gpuconf.reset()
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith(runtime.BEGINNING)]

    if by == "variable":
        monkeypatch.setenv("GPUCONF_SIMULATE", "T4")
    if by == "file":
        (here / "pyproject.toml").write_text(
            '[project]\nsimulate = 1\n[tool.gpuconf]\ngrowth = true\n"simulate" = "T4"\n'
        )
        monkeypatch.setenv("GPUCONF_TRUST_SETTINGS", str(here))
    assert simulated() == [], "no driver"
    (here / "nvidiactl").touch()
    (said,) = simulated()
    asked = {
        "variable": "GPUCONF_SIMULATE=T4 in the environment",
        "file": f"simulate in {here}/pyproject.toml, line 5",
        "call": "test_settings_trust.py:",
    }[by]
    assert asked in said
    assert by != "call" or said.endswith("(gpuconf.simulate)")
    assert len(simulated()) == 1, "once"


@pytest.mark.parametrize(
    "text", ["tool.gpuconf.simulate = 'T4'", "[tool]\ngpuconf = {simulate = 'T4'}", "tool.gpuconf = {\n}"]
)
def test_the_line_of_a_setting_is_for_people_only(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert settings_file.line_of(str(tmp_path / "pyproject.toml"), "simulate") in (0, 1, 2)
