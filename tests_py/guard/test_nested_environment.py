"""What a job gets of the environment that it is started in, which may be an outer job's."""

import os
from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, job
from gpuconf.jobs import budget


def test_the_folder_of_the_outer_job_leaves_the_environment(driver: Path) -> None:
    """The inner guard answers for both.

    Were the outer one's folder still there, what was kept behind it would come after it.
    """
    with job(driver, 512 * MIB, mode="preload") as outer:
        folder = str(Path(outer.budget.path).parent)
        assert outer.environment["LD_LIBRARY_PATH"].split(":") == [folder, str(driver)]
        assert outer.environment["LD_PRELOAD"].split() == [f"{folder}/libgpuconf-preload.so"]
        with budget.prepare({CARDS[0]: 256 * MIB}, "preload", environment=outer.environment) as inner:
            own = str(Path(inner.path).parent)
            assert own != folder
            assert inner.environment["LD_LIBRARY_PATH"].split(":") == [own, str(driver)]
            assert inner.environment["LD_PRELOAD"].split() == [f"{own}/libgpuconf-preload.so"]


def test_no_empty_element_enters_the_loaders_path(driver: Path) -> None:
    """The loader also splits at semicolons, and takes an empty element for the working directory."""
    with job(driver, MIB, LD_LIBRARY_PATH=f"{driver};;/a::/b;") as one:
        folder = os.path.dirname(one.budget.path)
        assert one.environment["LD_LIBRARY_PATH"].split(":") == [folder, str(driver), "/a", "/b"]


@pytest.mark.parametrize("name", ["a:b", "a;b", "a b", "$LIB"])
@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_a_folder_that_the_loader_would_split_is_not_used(
    driver: Path, client: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    """The guard was not found in it, and the job had no limit."""
    (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / name))
    with job(driver, 512 * MIB, mode=mode) as one:
        assert one.run(client[""], "dlsym", "fill", "linear") == "linear 8 2 0 512\n"
        assert list((tmp_path / name).iterdir()) == []


def test_a_folder_without_an_absolute_path_is_not_used(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of the job may change its working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "runtime")
    monkeypatch.setenv("TMPDIR", "runtime")
    with job(driver, MIB) as one:
        assert os.path.isabs(one.budget.path)
        assert all(map(os.path.isabs, one.environment["LD_LIBRARY_PATH"].split(":")))
