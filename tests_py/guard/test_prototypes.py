"""The prototypes that were copied by hand, of the guard and of the simulator, against those of NVIDIA's bindings."""

import json
import re

import pytest
import simulator_sources
from conftest_guard import ROOT
from recordings import Recording

# Functions that only binaries of older CUDA versions call, and that the bindings do not declare, as CUDA 2 to 12 had
# them.
OLD = {
    "cuMemAlloc": [8, 4],
    "cuMemAllocPitch": [8, 8, 4, 4, 4],
    "cuMemFree": [4],
    "cuMemGetInfo": [8, 8],
    "cuDeviceTotalMem": [8, 4],
    "cuArrayCreate": [8, 8],
    "cuArray3DCreate": [8, 8],
    "cuCtxCreate": [8, 4, 4],
    "cuCtxDestroy": [8],
    "cuDevicePrimaryCtxRelease": [4],
    "cuDevicePrimaryCtxReset": [4],
    "cuDeviceGetUuid": [8, 4],
    "cuGetProcAddress": [8, 8, 4, 8],
    "cuGraphInstantiate": [8, 8, 8, 8, 8],
    "cuGraphInstantiate_v2": [8, 8, 8, 8, 8],
}
BYTES = {"char": 1, "short": 2, "int": 4, "unsigned": 4, "float": 4, "CUdevice": 4, "CUdeviceptr_v1": 4}


def declared() -> dict[str, list[int]]:
    recorded = json.loads(Recording("driver/headers.json").read_text())
    return {**OLD, **{name: sizes for name, *sizes in recorded["parameters"]}}


def bytes_of(parameter: str) -> int:
    """Of `size_t *pitch`, `unsigned long long flags`, `struct address handle`."""
    words = parameter.replace("const ", "").split()
    if "*" in parameter or words[0] not in ("struct", *BYTES):
        return 64 if words[0].startswith("CUipc") else 8
    if words[0] == "struct":
        return 64
    return 8 if "long" in words else BYTES["short" if "short" in words else "char" if "char" in words else words[0]]


def sizes(parameters: str) -> list[int]:
    without_callbacks = re.sub(r"\(\*\w*\)\([^()]*\)", "*", parameters)
    return [bytes_of(part) for part in without_callbacks.split(",") if part.strip() not in ("", "void")]


def wrong(found: list[tuple[str, str]]) -> dict[str, str]:
    known = declared()
    pairs = [(name, sizes(text), known.get(re.sub("_pt[ds]s?z?$", "", name))) for name, text in found]
    return {name: f"{ours}, NVIDIA's: {theirs}" for name, ours, theirs in pairs if ours != theirs}


def guards() -> list[tuple[str, str]]:
    text = simulator_sources.table("gocore/lease/guard/functions.h")
    return re.findall(r"^\tX\((cu\w+),.*?, \d+, \d, \((.*)\), \(.*\)\)", text, re.M)


def test_the_guards_prototypes() -> None:
    assert len(guards()) >= 99
    assert wrong(guards()) == {}


def test_the_simulators_prototypes() -> None:
    sources = sorted((ROOT / "gocore/sim/cuda").glob("*.c"))
    text = "".join(source.read_text() for source in sources if source.name != "exports.c")
    text = re.sub(r"\n {4}", " ", text)
    found = [
        (name, rest)
        for name, rest in re.findall(r"^EXPORT CUresult (cu\w+)\((.*)\) \{", text, re.M)
        if name in declared()
    ]
    assert len(found) >= 200
    assert wrong(found) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "cuMemMap",
            "(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle, unsigned long long flags)",
        ),
        ("cuMemSetMemPool", "(CUmemLocation * location, CUmemoryPool pool, int type)"),
        (
            "cuMulticastUnbind",
            "(CUmemGenericAllocationHandle multicast, CUdevice device, unsigned int at, size_t bytes)",
        ),
    ],
)
def test_a_wrong_prototype_is_found(name: str, text: str) -> None:
    """A parameter less, two in another order, and one with half of its bits."""
    assert list(wrong([(name, text[1:-1])])) == [name]
