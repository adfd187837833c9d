"""What notebooks show:
HTML beside the text of each object. It is static, escaped and small, and showing an object never fails.
"""

from __future__ import annotations

import html.parser
from typing import Any

import gpuconf
import pytest
from IPython.core.formatters import DisplayFormatter
from script import run_well

MIB = 1 << 20


class Page(html.parser.HTMLParser):
    """The text and the tags of a piece of HTML, which must be balanced."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == [], source
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def shown(thing: Any) -> tuple[str, Page]:
    """The text and the HTML that a notebook gets for an object."""
    formats, _ = DisplayFormatter().format(thing)
    page = Page(formats["text/html"])
    assert set(page.tags) <= {"b", "code", "div", "pre", "span", "table", "tbody", "td", "th", "thead", "tr"}
    assert {name for name, _ in page.attributes} <= {"style", "title", "aria-hidden"}
    assert "url(" not in formats["text/html"]
    formats["text/html"].encode()  # a notebook's messages are UTF-8
    assert type(thing._repr_html_()) is str  # marimo refuses subclasses
    if isinstance(thing, tuple):
        assert thing._display_()._repr_html_() == formats["text/html"]  # marimo shows it in lists by this
    return formats["text/plain"], page


def test_devices(two_gpus: None) -> None:
    physical = gpuconf.config.list_physical_devices("GPU")[1]
    text, page = shown(physical)
    assert text == repr(physical)
    assert "/physical_device:GPU:1 GPU" in page.text
    text, page = shown(gpuconf.config.list_logical_devices("GPU")[1])
    assert "/device:GPU:1 GPU" in page.text
    visible = gpuconf.visible_devices()[1]
    text, page = shown(visible)
    assert text.startswith("VisibleDevice(cuda_ordinal=1")
    for part in (
        "NVIDIA H100 80GB HBM3",
        "79.18GiB",
        "9.0",
        visible.uuid,
        visible.pci_bus_id,
        "/physical_device:GPU:1",
    ):
        assert part in page.text


def test_stats_and_map(two_gpus: None) -> None:
    for gpu in gpuconf.config.list_physical_devices("GPU"):
        gpuconf.config.experimental.set_memory_growth(gpu, True)
    with gpuconf.memory.allocate(300 * MIB, "GPU:0"):
        text, page = shown(gpuconf.memory.stats("GPU:0"))
        assert text.startswith("MemoryStats(num_allocs=1")
        assert "bytes_in_use 300.00MiB" in page.text
        assert "num_allocs 1 " in page.text
        assert ("title", f"{300 * MIB} bytes") in page.attributes
        text, page = shown(gpuconf.memory.memory_map("GPU:0"))
        assert text.startswith("GPU:0: 300.00MiB in use of 300.00MiB reserved")
        assert page.text.startswith("GPU:0: 300.00MiB in use of 300.00MiB reserved")
        assert "300.00MiB 1" in page.text
    assert "nothing reserved yet" in shown(gpuconf.memory.memory_map("GPU:1"))[1].text


def test_a_map_says_whose_each_block_is(one_gpu: None) -> None:
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    with gpuconf.memory.tag("<weights>"):
        first = gpuconf.memory.allocate(300 * MIB)
    with gpuconf.memory.tag("optimizer"), gpuconf.memory.allocate(100 * MIB), first:
        picture = gpuconf.memory.memory_map()
    assert [(c.library, c.tag) for c in picture.regions[0].chunks] == [
        ("gpuconf", "<weights>"),
        ("gpuconf", "optimizer"),
    ]
    text, page = shown(picture)
    assert text.endswith("in use by gpuconf <weights> 300.00MiB, gpuconf optimizer 100.00MiB")
    assert "gpuconf <weights> 300.00MiB" in page.text
    styles = [value for name, value in page.attributes if name == "style"]
    for color in ("#3b82d0", "#d9730d"):
        assert sum(color in style for style in styles) == 2, "in the bar and in the legend"
    many = [gpuconf.memory.Chunk(MIB * i, MIB, MIB, True, "c", f"tag {i}") for i in range(9)]
    region = gpuconf.memory.Region(0, 10 * MIB, (*many, gpuconf.memory.Chunk(9 * MIB, MIB, 0, False)))
    text, page = shown(gpuconf.memory.MemoryMap("GPU:0", 100 * MIB, (region,), 0))
    assert text.endswith("c tag 4 1.00MiB, others 4.00MiB")
    assert "others 4.00MiB" in page.text


def test_a_map_of_many_blocks_is_small(one_gpu: None) -> None:
    buffers = [gpuconf.memory.allocate(MIB) for _ in range(2000)]
    for buffer in buffers[::2]:
        buffer.free()
    found = gpuconf.memory.memory_map()._repr_html_()
    for buffer in buffers[1::2]:
        buffer.free()
    assert len(Page(found).tags) < 200
    assert len(found) < 30_000


def test_a_map_of_many_regions_is_small(one_gpu: None) -> None:
    region = gpuconf.memory.Region(4096, MIB, (gpuconf.memory.Chunk(4096, MIB, MIB, True),))
    page = shown(gpuconf.memory.MemoryMap("GPU:0", 100 * MIB, (region,) * 100, 3 * MIB))[1]
    assert page.tags.count("tr") == 41
    assert "and 60 more regions" in page.text
    assert "memory in use exceeds this GPU's memory by 3.00MiB" in page.text


def test_measurement(one_gpu: None) -> None:
    measured = gpuconf.memory.measure()
    assert "not finished" in shown(measured)[1].text
    with measured:
        gpuconf.memory.allocate(5 * MIB).free()
    text, page = shown(measured)
    assert repr(measured) == f"<gpuconf.Measurement: before 0, peak {5 * MIB}, after 0 bytes>"
    assert text == str(measured)
    assert "all 0B 5.00MiB 0B gpuconf (untagged) 0B 5.00MiB 0B" in page.text


def test_usage(one_gpu: None) -> None:
    assert shown(gpuconf.memory.usage())[1].text == "GPU:0: 0B in use in 0 blocks, peak 0B"
    with gpuconf.memory.tag("<b>weights"), gpuconf.memory.allocate(5 * MIB):
        text, page = shown(gpuconf.memory.usage())
    assert text.startswith("GPU:0: 5.00MiB in use in 1 block, peak 5.00MiB\n")
    assert "gpuconf <b>weights 5.00MiB 5.00MiB 1" in page.text


def test_plan(one_gpu: None) -> None:
    with gpuconf.memory.record() as recording:
        gpuconf.memory.allocate(5 * MIB).free()
    plan = gpuconf.plan(recording, limit="2MiB")
    text, page = shown(plan)
    assert "does not fit" in text.splitlines()[-1]
    assert page.text.startswith("Plan: does not fit")
    assert page.tags.count("tr") == 1 + len(plan.results)
    assert "requests 5.00MiB: too large" in page.text
    assert "no allocations" in shown(gpuconf.plan(gpuconf.memory.record().start().stop()))[1].text


def test_buffer_until_it_is_freed_and_after_a_reset(two_gpus: None) -> None:
    buffer = gpuconf.memory.allocate("300MiB", "GPU:1")
    assert f"300.00MiB on /device:GPU:1 at {buffer.ptr:#x}" in shown(buffer)[1].text
    buffer.free()
    text, page = shown(buffer)
    assert text == "<gpuconf.Buffer of 314572800 bytes on /device:GPU:1, freed>"
    assert page.text.endswith("freed")
    gpuconf.reset()
    assert shown(buffer)[0] == text
    assert "freed" in shown(buffer)[1].text


def test_tensor(one_gpu: None) -> None:
    with gpuconf.device("GPU:0"):
        text, page = shown(gpuconf.constant([[1.0, 2.0]]))
        assert "numpy=array([[1., 2.]]" in text
        assert page.text.startswith("Tensor (1, 2) float32 on GPU:0")
        assert "[[1. 2.]]" in page.text
        assert "values: tensor.numpy()" in shown(gpuconf.constant([0.0] * (MIB // 4 + 1)))[1].text


def test_a_tensor_whose_operation_is_not_complete(one_gpu: None) -> None:
    tensor: Any = object.__new__(gpuconf.Tensor)
    tensor._receipt, tensor._ref = [], None
    assert shown(tensor)[0] == "<gpuconf.Tensor, not readable>"
    assert "not readable" in shown(tensor)[1].text


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b\"c'd", "\0", "\ud800", "</td>", "ünï"])
def test_names_are_escaped(name: str) -> None:
    _, page = shown(gpuconf.config.PhysicalDevice(name, name))
    assert page.tags == ["div", "b", "code"]
    _, page = shown(gpuconf.memory.MemoryMap(name, 1, (), 0))
    expected = name.replace("\0", "\ufffd").replace("\ud800", "\\ud800")
    assert page.text.startswith(f"{expected}: 0B in use")


def test_nothing_fails_in_a_forked_child() -> None:
    out = run_well("""
        import os, sys, warnings
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # from Python 3.12 on, at every fork
        import gpuconf
        gpuconf.simulate("H100-80GB")
        buffer, tensor = gpuconf.memory.allocate(1000, "GPU:0"), gpuconf.constant([1.0])
        with gpuconf.memory.record() as recording, gpuconf.memory.measure() as measured:
            gpuconf.memory.allocate(10).free()
        things = [
            buffer, tensor, gpuconf.memory.stats(), gpuconf.memory.memory_map(), gpuconf.plan(recording), measured,
            *gpuconf.config.list_physical_devices(), *gpuconf.config.list_logical_devices(), *gpuconf.visible_devices(),
        ]
        if os.fork() == 0:
            shown = [(repr(thing), thing._repr_html_()) for thing in things]
            print(shown[0][0].replace(hex(buffer.ptr), "PTR"), shown[1], len(shown), sep="\\n", flush=True)
            os._exit(0)
        os.wait()
        buffer.free()
        """)
    assert out.splitlines() == [
        "<gpuconf.Buffer of 1000 bytes on /device:GPU:0, at PTR>",
        "('<gpuconf.Tensor, in the memory of the parent process>', '<div><b>Tensor</b> in the memory of the parent "
        "process</div>')",
        "11",
    ]
