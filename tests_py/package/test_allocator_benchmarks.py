"""The comparison of allocators: a broken contender cannot win, and the page agrees with its data.

Speed is not tested.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from script import execute

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"
PAGE = ROOT / "benchmarks" / "reports" / "allocator-benchmarks.md"

# A contender of a few lines: it never reuses memory. FAULT selects its defect.
BUMP = """
#include <stdlib.h>
#include "peer.h"

enum { NONE, OVERLAP, UNDERSTATE, LOSE, REFUSE };

typedef struct { uint64_t next, current, peak, blocks; uint64_t *addrs, *sizes; } pool;

const char *peer_name(int which) { return which == 0 ? "bump" : NULL; }
const char *peer_league(int which) { (void)which; return "equal"; }

void *peer_open(int which, uint64_t bytes, uint64_t blocks) {
  (void)which, (void)bytes;
  pool *p = calloc(1, sizeof *p);
  p->addrs = calloc(blocks, sizeof *p->addrs);
  p->sizes = calloc(blocks, sizeof *p->sizes);
  p->blocks = blocks;
  return p;
}

int64_t peer_run(void *of, const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos) {
  pool *p = of;
  (void)nanos;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t block = ops[i].block;
    if (ops[i].bytes == 0) {
      if (FAULT != LOSE) p->current -= p->sizes[block];
    } else {
      if (FAULT == REFUSE && i == 100) return -1 - (int64_t)i;
      p->addrs[block] = p->next;
      p->next += FAULT == OVERLAP && i == 100 ? ops[i].bytes - 1 : ops[i].bytes;
      p->sizes[block] = ops[i].bytes;
      p->current += ops[i].bytes;
      if (p->current > p->peak) p->peak = p->current;
    }
    if (addrs != NULL) addrs[i] = p->addrs[block];
  }
  return 0;
}

void peer_count(void *of, peer_counters *counters) {
  pool *p = of;
  *counters = (peer_counters){p->current, FAULT == UNDERSTATE ? p->peak - 1 : p->peak, 0, 16 * p->blocks};
}

void peer_close(void *of) {
  pool *p = of;
  free(p->addrs);
  free(p->sizes);
  free(p);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that runs contenders."""
    go = shutil.which("go", path=os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]))
    assert go, "make test has a Go"
    target = tmp_path_factory.mktemp("peers") / "peers"
    env = {**os.environ, "CGO_ENABLED": "1"}
    subprocess.run([go, "build", "-o", target, "./benchmarks/peers"], cwd=ROOT, check=True, env=env)
    return target


def bump(folder: Path, fault: str) -> Path:
    source, target = folder / "bump.c", folder / "bump.so"
    source.write_text(BUMP)
    compiler = os.environ.get("CC", "cc")
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-DFAULT={fault}", "-I", PEERS / "cpp"]
    subprocess.run([compiler, *flags, source, "-o", target], check=True)
    return target


def verify(program: Path, *objects: Path) -> subprocess.CompletedProcess[str]:
    return execute([program, "-task", "verify", *objects])


def test_every_contender_has_the_same_live_peak_in_a_trace_and_needs_no_less(program: Path, tmp_path: Path) -> None:
    done = verify(program, bump(tmp_path, "NONE"))
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    traces = {trace for _, _, trace, _, _ in rows}
    assert len(traces) == 4
    for trace in traces:
        found = {(league, name): (int(live), int(needed)) for league, name, of, live, needed in rows if of == trace}
        assert {name for _, name in found} == {
            "gpuconf",
            "gpuconf, TensorFlow's split rule",
            "gpuconf, as it is",
            "bump",
        }
        assert len({live for live, _ in found.values()}) == 1
        assert all(live <= needed for live, needed in found.values())
        assert found["equal", "gpuconf"][1] < found["equal", "bump"][1]


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        pytest.param("OVERLAP", "where a block is live", id="two live blocks overlap by a byte"),
        pytest.param("UNDERSTATE", "its peak is", id="its peak is a byte too low"),
        pytest.param("LOSE", "are in use after all was freed", id="it counts no frees"),
        pytest.param("REFUSE", "operation 100 found no memory", id="it refuses"),
    ],
)
def test_a_broken_contender_is_found_out(program: Path, tmp_path: Path, fault: str, complaint: str) -> None:
    done = verify(program, bump(tmp_path, fault))
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "bump, equal league" in done.stderr


def test_an_object_that_is_no_contender_is_named(program: Path, tmp_path: Path) -> None:
    done = verify(program, tmp_path / "none.so")
    assert done.returncode == 1
    assert "none.so" in done.stderr


def test_the_page_has_a_row_for_each_contender_and_its_plot() -> None:
    text = PAGE.read_text()
    equal = text.partition("## Equal interface")[2].partition("\n## ")[0]
    for contender in (
        "**gpuconf**",
        "**gpuconf, TensorFlow's split rule**",
        "TensorFlow's BFCAllocator",
        "RMM's free list",
        "torch's shape",
        "offset-allocator",
        "Vulkan Memory Allocator",
        "rlsf (TLSF)",
    ):
        assert f"| {contender} | " in equal, contender
    assert "| mimalloc | " in text
    assert "](allocator-benchmarks.png)" in text
    assert (PAGE.with_suffix(".png")).read_bytes().startswith(b"\x89PNG")
    for page in ("docs/measurements.md", "CONTRIBUTING.md", "benchmarks/reports/benchmarks.md"):
        assert "allocator-benchmarks.md" in (ROOT / page).read_text(), page


def test_the_page_has_a_place_for_each_part_that_a_run_writes() -> None:
    names = "import json; from benchmarks.peers.page import PARTS; print(json.dumps([*PARTS]))"
    done = execute([sys.executable, "-c", names], cwd=ROOT, check=True)
    places = re.findall(r"^<!-- (.+) -->\n(?:(?!<!--).*\n)+<!-- end -->$", PAGE.read_text(), re.MULTILINE)
    assert places == json.loads(done.stdout)
