"""The HTML report of a trace. tests_py/integrations opens it in a browser."""

from __future__ import annotations

import gzip
import html.parser
import json
import random
import re
import sys
from typing import TYPE_CHECKING, Any

import gpuconf
import pytest
from gpuconf.memory import allocate, load_trace, record, report, tag
from gpuconf.plans.pages.program import OfProgram
from gpuconf.plans.pages.report import write
from gpuconf.plans.pages.segments import shown_segments
from gpuconf.plans.recordings.replay import find
from recordings import DATA

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("plotly", reason="plotly is not installed: pip install 'gpuconf[report]'")

MIB = 1 << 20


class Page(html.parser.HTMLParser):
    """What a page contains."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.scripts: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text())
        self.figures: dict[str, Any] = json.loads(self.scripts[1])

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img"):
            self._open.append(tag)
        self.sources += [str(value) for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif self._open and self._open[-1] != "style":
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return "\n".join(filter(None, self.words))

    def table(self, first: str) -> list[str]:
        """The rest of the row that begins with a cell."""
        return self.words[self.words.index(first) + 1 :]

    def areas(self, gpu: int = 0) -> dict[str, Any]:
        return {line["name"]: line for line in self.figures[f"time-{gpu}"]["data"] if "stackgroup" in line}


def of(trace: Any, tmp_path: Path, **options: Any) -> Page:
    report(trace, tmp_path / "out.html", **options)
    return Page(tmp_path / "out.html")


def test_a_page_has_all_it_needs(two_gpus: None, tmp_path: Path) -> None:
    with record() as recording:
        with tag("weights"):
            kept = allocate(4 * MIB)
        with tag("optimizer"), allocate(2 * MIB), allocate(MIB, "GPU:1"):
            pass
        with pytest.raises(MemoryError):
            allocate(1 << 50)
        kept.free()
    page = of(recording, tmp_path, limit="8MiB")
    assert page.sources == []
    assert "default-src 'none'" in page.path.read_text()
    assert list(page.figures) == ["time-0", "policies-0", "map-0", "time-1", "policies-1", "map-1"]
    for words in (
        "GPU:0",
        "GPU:1",
        "6.00MiB",
        "failed allocations",
        "least limit",
        "virtual",
        "tensorflow",
        "fragmentation",
    ):
        assert words in page.text, words
    lines = [line["name"] for line in page.figures["time-0"]["data"]]
    assert any(re.fullmatch(r"least limit, .*virtual: 6\.00MiB", name) for name in lines)
    assert "limit: 8.00MiB" in lines
    assert "failed allocation" in lines
    (failed,) = (line for line in page.figures["time-0"]["data"] if line["name"] == "failed allocation")
    assert failed["y"] == [4 * MIB]
    assert "1048576.00GiB" in failed["text"][0] or "1.00PiB" in failed["text"][0]


def test_the_page_of_a_program(one_gpu: None, tmp_path: Path) -> None:
    """It named no card, command or verdict, and its blocks were one line of code."""
    with record() as recording:
        for size in (3, 5):
            allocate(size << 20, "GPU:0").free()
    state = {"activations": 2 << 20}
    program = OfProgram(
        answer="peak: 5.00MiB",
        verdict="fits on T4",
        command="python train.py",
        verdicts=[("card", "needs"), ("T4", "fits 1.00"), ("L4", "fits 1.10")],
        cards={"T4": 16 << 20, "L4": 1 << 40},
        phases=[(0.0, "training"), (0.5, "evaluation"), (0.51, "training"), (0.75, "saving")],
        modules={"blocks.7.attn": state, "blocks.7.mlp": {**state, "optimizer state": 1 << 20}, "": state},
    )
    path = tmp_path / "page.html"
    write(recording.trace, find(recording.trace, None, None, ["pytorch"]), path, program)
    page = Page(path)
    text = " ".join(page.text.split())
    assert "python train.py fits on T4 card needs T4 fits 1.00 L4 fits 1.10" in text
    tree = "blocks 5.00MiB 7 5.00MiB mlp 3.00MiB of its own at the peak activations 2.00MiB optimizer state 1.00MiB"
    assert f"{tree} attn 2.00MiB" in text
    assert "outside of forward passes 2.00MiB" in text
    assert "tensorflow" not in text  # and no other policy of others
    figure = page.figures["time-0"]
    lines = [line["name"] for line in figure["data"] if "stackgroup" not in line]
    assert lines == ["T4, for the allocator: 16.00MiB"]  # a card that is far larger is off the figure
    assert [one["text"] for one in figure["layout"]["annotations"]] == ["training", "evaluation", "saving"]
    assert [one["x0"] for one in figure["layout"]["shapes"]] == [
        0,
        2,
        3,
    ]  # of four events, the last of which is number 3


def test_a_page_without_a_failure_has_no_verdict(one_gpu: None, tmp_path: Path) -> None:
    with record() as recording:
        allocate(4 * MIB).free()
    assert "class=verdict" not in of(recording, tmp_path, limit="8MiB").path.read_text()


def test_libraries_and_tags_are_stacked(one_gpu: None, tmp_path: Path) -> None:
    with record() as recording:
        with tag("weights"):
            kept = allocate(4 * MIB)
        with tag("<b>&optimizer"):
            also = allocate(2 * MIB)
        kept.free()
        also.free()
    page = of(recording, tmp_path)
    areas = page.areas()
    assert set(areas) == {"gpuconf · weights", "gpuconf · &lt;b&gt;&amp;optimizer"}
    assert areas["gpuconf · weights"]["y"] == [4 * MIB, 4 * MIB, 0, 0]
    assert areas["gpuconf · &lt;b&gt;&amp;optimizer"]["y"] == [0, 2 * MIB, 2 * MIB, 0]
    assert page.table("weights")[:2] == ["4.00MiB", "66.7%"]
    assert "<b>&optimizer" in page.text, "escaped"


def test_the_charts_of_a_page_have_one_time_axis(tmp_path: Path) -> None:
    """The second chart used to begin at the first allocation, the first chart at the first event."""
    events = ("00.0,allocate failure,0x0", "01.0,allocate,0x1000", "03.0,free,0x1000")
    lines = ["Thread,Time,Action,Pointer,Size,Stream", *(f"1,10:00:{event},1024,0" for event in events)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    page = of(tmp_path / "t.csv", tmp_path)
    (area,) = page.areas().values()
    assert area["x"] == [1, 3]
    assert {tuple(line["x"]) for line in page.figures["policies-0"]["data"]} == {(1, 3)}


def test_extremes_are_exact_however_long_the_trace(tmp_path: Path) -> None:
    """Compared with a sum over all events, at the moments that the page has."""
    rng = random.Random(1)
    lines, live, total, sums = [], {}, 0, []
    for i in range(30_000):
        if live and rng.random() < 0.5:
            address = rng.choice(list(live)) if i % 997 else max(live)
            total -= live.pop(address)
            lines.append(f"1,10:00:00.{i:06},free,0x{address:x},1,0")
        else:
            address, size = 0x1000000 + i * 0x100000, rng.choice([256, 4096, 65536, 1 << 19])
            live[address] = size
            total += size
            lines.append(f"1,10:00:00.{i:06},allocate,0x{address:x},{size},0")
        sums.append(total)
    (tmp_path / "t.csv").write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(lines) + "\n")
    page = of(tmp_path / "t.csv", tmp_path)
    (area,) = page.areas().values()
    found = dict(zip((round(x * 1e6) for x in area["x"]), area["y"], strict=True))
    assert len(found) <= 3000
    for event, value in found.items():
        assert value == sums[event]
    for start in range(0, 30_000, 30):
        stretch, shown = (
            sums[start : start + 30],
            [found[event] for event in range(start, start + 30) if event in found],
        )
        assert (min(stretch), max(stretch)) == (min(shown), max(shown))
    assert f"{max(sums) / MIB:.2f}MiB" in page.text


def test_the_map_has_every_byte_of_the_peak_once(one_gpu: None, tmp_path: Path) -> None:
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    rng = random.Random(2)
    with record() as recording:
        buffers = [allocate(rng.choice([300, 5000, 2 * MIB])) for _ in range(2000)]
        for buffer in buffers[::3]:
            buffer.free()
        last = allocate(3 * MIB)
        for buffer in [*buffers, last]:
            buffer.free()
    figure = of(recording, tmp_path).figures["map-0"]
    bar = figure["data"][0]
    width = figure["layout"]["xaxis"]["range"][1]
    pieces = sorted(zip(bar["y"], bar["base"], bar["x"], strict=True))
    assert len(pieces) <= 24 * 150 * 2
    at = 0
    for row, column, nbytes in pieces:
        assert row * width + column == at, "neither gaps nor overlaps"
        at += nbytes
    texts = figure["texts"]
    assert any(text.endswith("free") for text in texts)
    assert any(
        re.match(r"0x[0-9a-f]+: 2.00MiB \(2,097,152 bytes\), gpuconf<br>event \d+, after ", text) for text in texts
    )
    assert any(" blocks with " in text and "The largest:<br>" in text for text in texts)


def test_a_trace_without_segments_has_a_map_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n"
        "1,10:00:00.000000,allocate,0x1000000,1048576,0\n"
        "1,10:00:00.000001,allocate,0x1300000,1048576,0\n"
        "1,10:00:00.000002,allocate,0x900000000,1048576,0\n"
    )
    page = of(tmp_path / "t.csv", tmp_path)
    assert "3.00MiB in 3 blocks, 2.00MiB free in 1 piece of the address space between blocks" in page.text
    assert set(page.areas()) == {"memory in use"}


def test_odd_traces(tmp_path: Path) -> None:
    """Nothing at all, failures only, frees of unknown blocks, and frees that are missing."""
    head = "Thread,Time,Action,Pointer,Size,Stream\n"
    for lines in (
        "",
        "1,10:00:00.000000,allocate failure,0x0,1048576,0\n",
        "1,10:00:00.000000,free,0x1000,1048576,0\n",
        "1,10:00:00.000000,allocate,0x1000,0,0\n",
        "1,10:00:00.000000,allocate,0x1000,4096,0\n1,10:00:00.000001,allocate,0x1000,8192,0\n",
    ):
        (tmp_path / "t.csv").write_text(head + lines)
        page = of(tmp_path / "t.csv", tmp_path)
        assert "Memory report" in page.text
    assert [area["y"] for area in page.areas().values()] == [[4096, 8192]]


def test_many_holders_share_a_color(one_gpu: None, tmp_path: Path) -> None:
    with record() as recording:
        for i in range(30):
            with tag(f"tag {i}"):
                allocate((i + 1) * MIB).free()
    areas = of(recording, tmp_path).areas()
    assert len(areas) == 11
    assert "gpuconf · tag 29" in areas
    assert max(areas["20 others"]["y"]) == 20 * MIB


def test_without_plotly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(NotImplementedError, match=r"the report needs plotly \(.*\): pip install 'gpuconf\[report\]'"):
        report(tmp_path / "missing.csv", tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_bad_arguments_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000000,allocate,0x1000,4096,0\n"
    )
    with pytest.raises(FileNotFoundError):
        report(tmp_path / "missing.csv", tmp_path / "out.html")
    with pytest.raises(ValueError, match="limit"):
        report(tmp_path / "t.csv", tmp_path / "out.html", limit="much")
    with pytest.raises(ValueError, match="unknown GPU model"):
        report(tmp_path / "t.csv", tmp_path / "out.html", gpu="Z80")
    assert not (tmp_path / "out.html").exists()
    with pytest.raises(FileNotFoundError):
        report(tmp_path / "t.csv", tmp_path / "no" / "out.html")
    assert len(load_trace(tmp_path / "t.csv")) == 1


def test_every_policy_over_time(one_gpu: None, tmp_path: Path) -> None:
    with record() as recording:
        kept = [allocate(MIB) for _ in range(5)]
        for buffer in kept:
            buffer.free()
    data = of(recording, tmp_path, limit="8MiB").figures["policies-0"]["data"]
    found = gpuconf.plan(recording, limit="8MiB")
    assert [line["name"] for line in data] == [
        "in use (pytorch)",
        *(f"reserved by {policy}" for policy in found.policies),
        "limit",
    ]
    assert max(data[0]["y"]) == 5 * MIB
    for line, result in zip(data[1:-1], found.results, strict=True):
        assert max(line["y"]) == result.peak_bytes_reserved


def test_the_segments_of_a_snapshot_that_ran_out_of_memory(tmp_path: Path) -> None:
    file = DATA / "snapshots" / "torch-2.15-out-of-memory.pickle.gz"
    (tmp_path / "oom.pickle").write_bytes(gzip.decompress(file.read_bytes()))
    page = of(str(tmp_path / "oom.pickle"), tmp_path)
    (found,) = gpuconf.plan(tmp_path / "oom.pickle", policy="virtual").out_of_memory
    (bars,) = page.figures["segments-0"]["data"]
    assert "GPU:0 ran out of memory at event 1412, which requests 33.00MiB" in page.text
    assert "requested at /home/user/train.py:19 (forward)" in page.text
    text = page.path.read_text()
    assert text.index("<pre class=verdict>") < text.index("<h2"), "the verdict comes first"
    joined = [text for text in bars["customdata"] if re.match(r"\d+ blocks in \S+\. The largest:<br>", text)]
    assert joined, "small blocks are drawn together"
    assert not any(text.startswith("1 blocks") for text in bars["customdata"])
    assert sum(bars["x"]) == sum(s.nbytes for s in shown_segments(found))
    free = sum(x for x, color in zip(bars["x"], bars["marker"]["color"], strict=True) if color.startswith("rgba"))
    assert free == sum(found.free_blocks)
    assert any("forward" in text for text in bars["customdata"])
