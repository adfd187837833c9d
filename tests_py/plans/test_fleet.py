"""Plans of a fleet: how many cards hold many recorded jobs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from command import run
from script import environment, execute, run_well

MIB, GIB = 1 << 20, 1 << 30


def trace_of(*mib: int, gpus: int = 1) -> str:
    """CSV of a job that allocates blocks of so many MiB on each of its GPUs, and then frees them."""
    lines = ["Thread,Time,Action,Pointer,Size,Stream,GPU"]
    for action in ("allocate", "free"):
        for gpu in range(gpus):
            lines += [
                f"1,10:00:0{i % 10}.5,{action},0x{i + 1:x}000000000,{size * MIB},0,{gpu}" for i, size in enumerate(mib)
            ]
    return "\n".join(lines)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Three jobs that fill a T4, and one that needs two cards."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "large.csv").write_text(trace_of(8 << 10))
    (folder / "middle.csv").write_text(trace_of(4 << 10))
    (folder / "small.csv").write_text(trace_of(2 << 10, 512))
    (folder / "two.csv").write_text(trace_of(3 << 10, gpus=2))
    return folder


def test_the_limits_of_a_card_can_be_leased(tmp_path: Path) -> None:
    """The whole memory of a card was planned with, but a lease also takes room for a CUDA context."""
    (tmp_path / "most.csv").write_text(trace_of(15872))
    (tmp_path / "more.csv").write_text(trace_of(16100))
    found = gpuconf.plan_fleet(tmp_path, "4xT4:16GiB")
    assert [job.name for job in found.unplaced] == ["more.csv"]
    assert "no room: more.csv needs a limit of 15.73GiB; of a card, 15.69GiB can be leased" in str(found)
    ledger = {"GPUCONF_LEDGER": str(tmp_path / "ledger")}
    code, _, err = run("run", "--simulate", "T4:16GiB", *found.jobs[1].command.split()[2:], "true", env=ledger)
    assert (code, err) == (0, "")
    code, _, err = run("run", "--simulate", "T4:16GiB", *found.jobs[0].command.split()[2:], "true", env=ledger)
    assert (code, "can never be leased" in err) == (3, True)


@pytest.mark.parametrize(
    ("sizes", "used"), [((19200, 20000), 1), ((20000, 20000), 2), ((9900,) * 4, 2), ((9728,) * 4, 1)]
)
def test_jobs_that_share_a_card_can_be_leased_together(tmp_path: Path, sizes: tuple[int, ...], used: int) -> None:
    """Each lease of an A100-40GB takes 448 MiB beside its limit; the plan keeps 512 MiB for each job."""
    for i, mib in enumerate(sizes):
        (tmp_path / f"{i}.csv").write_text(trace_of(mib))
    found = gpuconf.plan_fleet(tmp_path, "4xA100-40GB:40GiB")
    assert (found.cards_used, found.fits) == (used, True)
    limits = {job.name: job.limit for job in found.jobs}
    for card in found.cards:
        assert sum(limits[name] + 448 * MIB for name in card.jobs) <= found.fleet[0].memory == 40960 * MIB
        assert card.used <= card.memory


def test_what_a_plan_contains(jobs: Path) -> None:
    found = gpuconf.plan_fleet(jobs, "4xT4:16GiB", reserve="512MiB")
    assert [tuple(gpus) for gpus in found.fleet] == [("T4:16GiB", 4, 16 * GIB, 16064 * MIB, 320 * MIB)]
    assert [(job.name, job.gpus, job.limit >> 20, job.need - job.limit) for job in found.jobs] == [
        ("large.csv", 1, 8192, 512 * MIB),
        ("middle.csv", 1, 4096, 512 * MIB),
        ("two.csv", 2, 3072, 512 * MIB),
        ("small.csv", 1, 2560, 512 * MIB),
    ]
    assert (found.cards_used, found.lower_bound, found.gap, found.first_fit, found.fits) == (2, 2, 0.0, 2, True)
    assert all(card.used <= card.memory == 16 * GIB and card.free == card.memory - card.used for card in found.cards)
    assert sorted(name for card in found.cards for name in card.jobs) == [
        "large.csv",
        "middle.csv",
        "small.csv",
        "two.csv",
        "two.csv",
    ]
    assert found.jobs[2].cards == (0, 1), "a job of two GPUs takes two cards"
    assert found.jobs[2].command == "gpuconf run --memory 3072MiB --gpus 2 --"
    assert repr(found) == "<gpuconf.FleetPlan of 4 jobs on 2 cards>"


def test_the_text(jobs: Path) -> None:
    (jobs / "two.csv").unlink()
    found = gpuconf.plan_fleet(jobs, "T4:24GiB,2xT4", reserve=0)
    assert str(found) == (
        "fleet: 1xT4:24GiB, 2xT4\n"
        "3 jobs; each need includes 320.00MiB for the CUDA context and libraries\n"
        "\n"
        "T4:24GiB 0: 3 jobs, 15.44GiB of 24.00GiB, 8.56GiB left\n"
        "  gpuconf run --memory 8192MiB -- ...  # large.csv\n"
        "  gpuconf run --memory 4096MiB -- ...  # middle.csv\n"
        "  gpuconf run --memory 2560MiB -- ...  # small.csv\n"
        "\n"
        "first-fit decreasing alone: 1 card\n"
        "fits on 1 card; at least 1 card is needed, gap 0.00%"
    )


def test_a_fleet_that_is_too_small(jobs: Path) -> None:
    found = gpuconf.plan_fleet(jobs, "T4:16GiB")
    assert not found.fits
    assert found.gap is None
    assert found.lower_bound == 2, "two of these cards would do"
    assert [job.name for job in found.unplaced] == ["two.csv"], "it needs two cards"
    text = str(found)
    assert "no room: two.csv needs 3.50GiB on each of 2 cards\n" in text
    assert text.endswith("does not fit: 1 job of 4 without room; at least 2 cards are needed")
    tiny = gpuconf.plan_fleet(jobs, "3xT4:5GiB")
    assert [job.name for job in tiny.unplaced] == ["large.csv", "small.csv"]
    assert tiny.cards_used == 3


def test_the_policy_that_needs_least(jobs: Path) -> None:
    """With PyTorch's allocator a job may need more than with gpuconf's, and a setting of it may help."""
    (jobs / "odd.csv").write_text(trace_of(11, 11, 11))  # PyTorch takes 12 MiB for 11
    assert gpuconf.plan_fleet([jobs / "odd.csv"], "T4:16GiB", "pytorch").jobs[0].limit == 36 * MIB
    (job,) = gpuconf.plan_fleet([jobs / "odd.csv"], "T4:16GiB", ["pytorch", "virtual"]).jobs
    assert (job.policy, job.limit) == ("virtual", 33 * MIB)
    (job,) = gpuconf.plan_fleet([jobs / "odd.csv"], "T4:16GiB", "pytorch-expandable").jobs
    assert job.command.startswith("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gpuconf run --memory ")


def staggered(*mib: int) -> str:
    """CSV of a job that has so many MiB in use in each of some seconds."""
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for i, size in enumerate(mib):
        for at, action in ((0, "allocate"), (9, "free")):
            lines.append(f"1,10:00:{i:02}.{at}00000,{action},0x{i + 1:x}000000000,{size * MIB},0")
    return "\n".join(lines)


def test_phases(tmp_path: Path) -> None:
    """Peaks at different times share a card, which needs neither a lease nor more than the card at any time."""
    for i in range(4):
        (tmp_path / f"job{i}.csv").write_text(
            staggered(*(10 << 10 if second % 4 == i else 1 << 10 for second in range(8)))
        )
    without = gpuconf.plan_fleet(tmp_path, "4xT4:16GiB", reserve="100MiB")
    assert (without.cards_used, without.phases) == (4, False)
    found = gpuconf.plan_fleet(tmp_path, "4xT4:16GiB", reserve="100MiB", phases=True)
    assert (found.cards_used, found.lower_bound, found.gap, found.phases) == (1, 1, 0.0, True)
    assert found.cards[0].used == (10 + 3 << 30) + 4 * 100 * MIB
    assert found.jobs[0].command == "GPUCONF_LIMIT=10240MiB gpuconf run --"
    assert "warning: the limits on a card add up to more than its memory." in str(found)
    code, out, error = run("plan", str(tmp_path), "--fleet", "4xT4:16GiB", "--phases", "--json")
    assert (code, error, json.loads(out)["phases"], json.loads(out)["cards_used"]) == (0, "", True, 1)


def test_phases_where_they_do_not_help(jobs: Path) -> None:
    """All peaks are at the start: the plan is that without phases, and its limits are leases."""
    found = gpuconf.plan_fleet(jobs, "4xT4:16GiB", phases=True)
    assert (found.cards_used, found.phases) == (2, False)
    assert found.to_dict()["jobs"] == gpuconf.plan_fleet(jobs, "4xT4:16GiB").to_dict()["jobs"]


def test_jobs_by_name() -> None:
    """Recordings need no files."""
    with gpuconf.simulate("2xT4"):
        with gpuconf.memory.record() as recording:
            gpuconf.memory.allocate(300 * MIB, "GPU:0").free()
        found = gpuconf.plan_fleet({"one": recording, "other": recording.trace}, "T4:1GiB", reserve="100MiB")
        gpuconf.reset()
    assert [(job.name, job.limit) for job in found.jobs] == [("one", 300 * MIB), ("other", 300 * MIB)]
    assert found.cards_used == 1


def test_a_bad_file_does_not_stop_the_others(jobs: Path) -> None:
    (jobs / "bad.csv").write_text("Thread,Time,Action,Pointer,Size,Stream\n1,2,3\n")
    (jobs / "gone.csv").symlink_to("nowhere")
    found = gpuconf.plan_fleet(jobs, "4xT4:16GiB")
    assert len(found.jobs) == 4
    (bad, why), (gone, missing) = found.failed
    assert (bad, gone) == ("bad.csv", "gone.csv")
    assert "bad.csv' as a trace: " in why
    assert "No such file" in missing


def test_the_command(jobs: Path) -> None:
    code, out, error = run("plan", str(jobs), "--fleet", "4xT4:16GiB", "--json")
    assert (code, error) == (0, "")
    found = json.loads(out)
    assert found["schema"] == 1
    assert (found["cards_used"], found["lower_bound"], found["gap"], found["first_fit"]) == (2, 2, 0.0, 2)
    assert [sorted(card) for card in found["cards"]] == [["free", "gpu", "jobs", "memory", "number", "used"]] * 2
    assert found["jobs"][0] == {
        "name": "large.csv",
        "gpus": 1,
        "need": 8704 * MIB,
        "limit": 8192 * MIB,
        "policy": "virtual",
        "settings": "",
        "cards": found["jobs"][0]["cards"],
        "command": "gpuconf run --memory 8192MiB --",
    }
    code, out, error = run("plan", str(jobs), "--fleet", "4xT4:16GiB")
    assert (code, error) == (0, "")
    assert out.endswith(
        "first-fit decreasing alone: 2 cards\nfits on 2 cards; at least 2 cards are needed, gap 0.00%\n"
    )
    code, out, _ = run("plan", str(jobs), "--fleet", "T4:16GiB", "--json")
    assert code == 3
    assert json.loads(out)["unplaced"] == ["two.csv"]
    (jobs / "bad.csv").write_text("no trace")
    code, out, error = run("plan", str(jobs), "--fleet", "4xT4:16GiB", "--json")
    assert code == 1
    assert error.startswith("gpuconf plan: bad.csv: cannot read ")
    assert json.loads(out)["failed"][0]["name"] == "bad.csv"
    assert json.loads(out)["cards_used"] == 2


def test_the_page(jobs: Path, tmp_path: Path) -> None:
    """The integration tests open it in a browser."""
    pytest.importorskip("plotly")
    (jobs / "bad&.csv").write_text("no trace")
    page = tmp_path / "fleet.html"
    code, _, error = run("plan", str(jobs), "--fleet", "2xT4:16GiB,T4:24GiB", "--html", str(page))
    assert code == 1
    assert error.startswith("gpuconf plan: bad&.csv: ")
    text = page.read_text()
    assert "<title>gpuconf fleet plan</title>" in text
    assert "bad&amp;.csv" in text
    assert "gpuconf run --memory 3072MiB --gpus 2 -- ..." in text
    figure = json.loads(text.partition('id="figures">')[2].partition("</script>")[0])["cards"]["data"][0]
    for card in set(figure["x"]):  # the jobs and what is left fill each card
        pieces = [i for i, x in enumerate(figure["x"]) if x == card]
        assert sum(figure["y"][i] for i in pieces) in (16 * GIB, 24 * GIB)
        assert figure["hovertext"][pieces[-1]].partition("<br>")[2].startswith("left: ")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"fleet": 7}, TypeError, "fleet must be a string"),
        ({"jobs": 7}, TypeError, "jobs must be a folder, a list of files, or a mapping"),
        ({"jobs": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"policy": []}, ValueError, "policy must name at least one policy"),
        ({"policy": "fast"}, ValueError, "but got 'fast'"),
        ({"reserve": -1}, ValueError, "reserve must be at least 0"),
        ({"reserve": 1.5}, TypeError, "reserve must be a number of bytes"),
        ({"dask": 0}, TypeError, "dask must be the address of a scheduler"),
        (
            {"dask": "nowhere://:1"},
            gpuconf.errors.UnavailableError,
            "cannot connect to Dask's scheduler at 'nowhere://:1'",
        ),
    ],
)
def test_bad_arguments(jobs: Path, arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        gpuconf.plan_fleet(**{"jobs": jobs, "fleet": "T4", **arguments})


INTERRUPTED = """
import os, random, signal, threading, time
from fleet_problems import hard
from gpuconf.plans.fleets import patterns

problem = hard(random.Random(1), 40)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    patterns.fits(problem.sizes, problem.cards, 60)
except KeyboardInterrupt:
    print(time.monotonic() - began < 20)
"""


def test_an_interrupt_ends_the_solver() -> None:
    """CP-SAT kept it to itself: it stopped early, and the plan went on with the next step."""
    assert run_well(INTERRUPTED, cwd=Path(__file__).parent, timeout=90) == "True\n"


def test_one_file(jobs: Path) -> None:
    assert [job.name for job in gpuconf.plan_fleet(jobs / "small.csv", "T4").jobs] == ["small.csv"]


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no traces in "):
        gpuconf.plan_fleet(tmp_path, "T4")
    (tmp_path / "empty.csv").write_text("Thread,Time,Action,Pointer,Size,Stream\n")
    found = gpuconf.plan_fleet(tmp_path, "T4")
    assert [(job.name, job.limit) for job in found.jobs] == [("empty.csv", MIB)]
    (tmp_path / "empty.csv").write_text("nothing")
    found = gpuconf.plan_fleet(tmp_path, "T4")
    assert (found.cards_used, found.lower_bound, found.gap, found.jobs) == (0, 0, 0.0, ())


# A cluster in this process, by its address; and two processes, one of which is killed when the first trace is done.
DASK = """
import json, os, signal, sys
import distributed, psutil
import gpuconf
from gpuconf.plans.fleets.fleet import find

killed = []

def kill(what, fraction):
    if what.startswith("replaying 1 of"):
        workers = [p for p in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(p.cmdline())]
        workers[0].send_signal(signal.SIGKILL)
        killed.append(len(workers))

if __name__ == "__main__":
    folder = sys.argv[1]
    here = gpuconf.plan_fleet(folder, "4xT4").to_dict()
    facts = {"failed": [failed["name"] for failed in here["failed"]], "jobs": len(here["jobs"])}
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        facts["address"] = gpuconf.plan_fleet(folder, "4xT4", dask=cluster.scheduler_address).to_dict() == here
        with distributed.Client(cluster) as client:
            facts["client"] = gpuconf.plan_fleet(folder, "4xT4", dask=client).to_dict() == here
    facts["processes"] = find(folder, "4xT4", "virtual", "512MiB", False, 2, kill).to_dict() == here
    facts["killed"] = killed
    print(json.dumps(facts))
"""


def test_dask(jobs: Path, tmp_path: Path) -> None:
    """The same plan as without it, also if a worker is killed, and a bad file is reported."""
    for i in range(12):
        (jobs / f"long{i}.csv").write_text(trace_of(*range(1, 500), 100 + i))
    (jobs / "bad.csv").write_text("no trace")
    program = tmp_path / "program.py"
    program.write_text(DASK)
    done = execute([sys.executable, program, jobs], env=environment())
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts == {
        "failed": ["bad.csv"],
        "jobs": 16,
        "address": True,
        "client": True,
        "processes": True,
        "killed": [2],
    }


def test_with_dask_the_workers_read_files() -> None:
    with gpuconf.memory.record() as recording:
        pass
    with pytest.raises(TypeError, match="with dask= every trace must be a file that the workers can read"):
        gpuconf.plan_fleet({"one": recording}, "T4", dask=2)
