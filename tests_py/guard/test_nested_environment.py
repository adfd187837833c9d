"""What a job inside a job gets of the outer job's environment."""

from __future__ import annotations

from pathlib import Path

from conftest_guard import CARDS, MIB, job
from gpuconf.sharing import _budget


def test_the_folder_of_the_outer_job_leaves_the_environment(driver: Path) -> None:
    """The inner guard answers for both. Were the outer one's folder still there, what was kept behind it would come after it."""
    with job(driver, 512 * MIB, mode="preload") as outer:
        folder = str(Path(outer.budget.path).parent)
        assert outer.environment["LD_LIBRARY_PATH"].split(":") == [folder, str(driver)]
        assert outer.environment["LD_PRELOAD"].split() == [f"{folder}/libgpuconf-preload.so"]
        with _budget.prepare({CARDS[0]: 256 * MIB}, "preload", environment=outer.environment) as inner:
            own = str(Path(inner.path).parent)
            assert own != folder
            assert inner.environment["LD_LIBRARY_PATH"].split(":") == [own, str(driver)]
            assert inner.environment["LD_PRELOAD"].split() == [f"{own}/libgpuconf-preload.so"]
