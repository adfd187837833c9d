"""The shipped libcuda and NVML with GPUCONF_SIMULATE, as any program sees them: cards, attributes and profiles."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import gpuconf
import pytest
import script
from gpuconf._core.native import core

SHIPPED = Path(gpuconf.__file__).parent / "_simulator"
MODELS = [name for name, *_ in json.loads(core.pybind_Models())]
GIB = 1 << 30

# What the driver says of all cards: [name, UUID, bytes, bus id, {attribute: value}].
DRIVER = """
import ctypes, json, sys
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint64, c_void_p, create_string_buffer
cu, count = ctypes.CDLL("libcuda.so.1"), c_int()
def ok(result):
    assert result == 0, result
def cards():
    ok(cu.cuInit(0))
    ok(cu.cuDeviceGetCount(byref(count)))
    out = []
    for device in range(count.value):
        name, bus, uuid = create_string_buffer(100), create_string_buffer(20), (c_ubyte * 16)()
        total, value = c_size_t(), c_int()
        ok(cu.cuDeviceGetName(name, 100, device))
        ok(cu.cuDeviceGetPCIBusId(bus, 20, device))
        ok(cu.cuDeviceGetUuid_v2(uuid, device))
        ok(cu.cuDeviceTotalMem_v2(byref(total), device))
        attributes = {n: value.value for n in range(160) if cu.cuDeviceGetAttribute(byref(value), n, device) == 0}
        out.append([name.value.decode(), bytes(uuid).hex(), total.value, bus.value.decode(), attributes])
    return out
def context():
    one = c_void_p()
    ok(cu.cuInit(0)), ok(cu.cuDevicePrimaryCtxRetain(byref(one), 0)), ok(cu.cuCtxSetCurrent(one))
def allocate(size):
    address = c_uint64()
    return cu.cuMemAlloc_v2(byref(address), c_size_t(size)), address.value
def free():
    one, total = c_size_t(), c_size_t()
    ok(cu.cuMemGetInfo_v2(byref(one), byref(total)))
    return one.value, total.value
"""
NVML = """
import json, pynvml as n
n.nvmlInit()
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
def ask(function, *arguments):
    try:
        return function(*arguments)
    except n.NVMLError as error:
        return type(error).__name__
def memory(card):
    found = ask(n.nvmlDeviceGetMemoryInfo, card)
    return found if isinstance(found, str) else found.total
"""
OURS = """
import json, gpuconf
print(json.dumps([[d.name, d.uuid.split("-", 1)[1].replace("-", ""), d.total_memory, d.pci_bus_id, d.compute_capability]
                  for d in gpuconf.visible_devices()]))
"""


def run(program: str, spec: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return script.completed(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=script.plain() | {"LD_LIBRARY_PATH": str(SHIPPED), "GPUCONF_SIMULATE": spec} | environment,
        timeout=60,
    )


def answer(program: str, spec: str, **environment: str) -> Any:
    done = run(program, spec, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def driver(program: str, spec: str, **environment: str) -> Any:
    return answer(DRIVER + textwrap.dedent(program), spec, **environment)


def nvml(program: str, spec: str) -> Any:
    return answer(NVML + textwrap.dedent(program), spec)


C_PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
	void *library = dlopen(names[count - 1], RTLD_NOW);
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit"), cards = 0, value = 0;
	int (*number)(int *) = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
	int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(library, "cuDeviceGetName");
	int (*ask)(int *, int, int) = (int (*)(int *, int, int))dlsym(library, "cuDeviceGetAttribute");
	printf("cuInit %d\\n", init(0));
	number(&cards);
	for (int i = 0; i < cards; i++) {
		char text[100];
		name(text, sizeof text, i);
		ask(&value, 16, i);
		printf("%s, %d multiprocessors\\n", text, value);
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(C_PROGRAM)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-o", folder / "program", folder / "program.c", "-ldl"], check=True)
    return folder / "program"


def lines(program: Path, **environment: str) -> tuple[list[str], str]:
    done = script.completed([program, SHIPPED / "libcuda.so.1"], check=True, env=environment, timeout=60)
    return done.stdout.splitlines(), done.stderr


def test_a_c_program_that_opens_the_shipped_library_has_the_cards(c_program: Path) -> None:
    card = "NVIDIA A100-SXM4-40GB, 108 multiprocessors"
    assert lines(c_program, GPUCONF_SIMULATE="2xA100-40GB") == (["cuInit 0", card, card], "")
    assert lines(c_program) == (["cuInit 100"], "")
    assert lines(c_program, GPUCONF_SIMULATE="2xA100-40GB", CUDA_VISIBLE_DEVICES="1") == (["cuInit 0", card], "")


def test_a_program_with_rights_that_its_caller_lacks_has_none(c_program: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a folder whose programs may have rights of their own")
    privileged = tmp_path / "program"
    privileged.write_bytes(c_program.read_bytes())
    os.chown(privileged, 65534, 65534)
    privileged.chmod(0o4755)
    if subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "test", "-r", SHIPPED], check=False).returncode:
        pytest.skip("other users cannot read this environment")
    assert lines(privileged, GPUCONF_SIMULATE="2xA100-40GB") == (["cuInit 100"], "")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("A1000", ["unknown GPU model", "did you mean A100", "such as RTX4090:12GiB"]),
        ("T4:8", ["such as 8GiB"]),
        ("T4:wls", ["unknown profile", "did you mean wsl?"]),
        ("T4:driver=11.9", ["such as driver=11.8"]),
        ("T4:driver=11.8,L4:driver=12.4", ["two drivers, 11.8 and 12.4"]),
        ("T4:mig-container", ["T4 is not simulated with MIG", "A100-40GB"]),
        ("2xA100:mig-container", ["has one card"]),
        ("A100:mig-container:wsl", ["mig-container excludes wsl"]),
        ("\\xff" * 300, ["unknown GPU model"]),
    ],
)
def test_a_wrong_specification_is_refused_alike(spec: str, words: list[str]) -> None:
    """By the driver and by NVML in one line, and by gpuconf."""
    driver = run(DRIVER + "print([cu.cuInit(0), cu.cuInit(0), cu.cuDeviceGetCount(byref(count))])", spec)
    assert (driver.stdout, driver.stderr.count("\n")) == ("[100, 100, 3]\n", 1)
    nvml = run("import pynvml; pynvml.nvmlInit()", spec)
    assert "NVMLError_DriverNotLoaded" in nvml.stderr
    ours = run(f"import gpuconf; gpuconf.simulate({spec!r})", "")
    assert "InvalidArgumentError" in ours.stderr
    for text in (driver.stderr, nvml.stderr.splitlines()[0], ours.stderr):
        assert [word for word in words if word not in text] == []


# MiB that nvidia-smi prints as a card's memory.
PHYSICAL = {
    "NVIDIA GB200": 189471,
    "NVIDIA B200": 183359,
    "NVIDIA GeForce RTX 5090": 32607,
    "NVIDIA H200": 143771,
    "NVIDIA GH200 480GB": 97871,
    "NVIDIA GH200 144G HBM3e": 146831,
    "NVIDIA H100 80GB HBM3": 81559,
    "NVIDIA L40S": 46068,
    "NVIDIA L4": 23034,
    "NVIDIA GeForce RTX 4090": 24564,
    "NVIDIA A100-SXM4-80GB": 81920,
    "NVIDIA A100-SXM4-40GB": 40960,
    "NVIDIA A30": 24576,
    "NVIDIA A10": 23028,
    "NVIDIA GeForce RTX 3090": 24576,
    "Tesla T4": 15360,
    "Tesla V100-SXM2-32GB": 32768,
    "Tesla V100-SXM2-16GB": 16384,
    "NVIDIA GeForce GTX 1080 Ti": 11264,
    "Tesla P100-SXM2-16GB": 16280,
    "Tesla P100-PCIE-12GB": 12198,
    "Tesla K80": 11442,
    "Tesla K40c": 11442,
    "Tesla K20m": 4800,
    "NVIDIA B300 SXM6 AC": 275040,
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": 97887,
    "NVIDIA GeForce RTX 5080": 16303,
    "NVIDIA GeForce RTX 5070": 12227,
    "NVIDIA H20": 97871,
    "NVIDIA L20": 46068,
    "NVIDIA GeForce RTX 4080": 16376,
    "NVIDIA GeForce RTX 4070": 12282,
    "NVIDIA GeForce RTX 4060": 8188,
    "NVIDIA A10G": 23028,
    "NVIDIA A40": 46068,
    "NVIDIA A16": 15356,
    "NVIDIA A2": 15356,
    "NVIDIA RTX A6000": 49140,
    "NVIDIA RTX A5000": 24564,
    "NVIDIA RTX A4000": 16376,
    "NVIDIA GeForce RTX 3080": 10240,
    "NVIDIA GeForce RTX 3070": 8192,
    "NVIDIA GeForce RTX 3060": 12288,
    "NVIDIA TITAN RTX": 24576,
    "NVIDIA GeForce RTX 2080 Ti": 11264,
    "NVIDIA GeForce RTX 2070": 8192,
}


@pytest.mark.parametrize(
    "spec", [MODELS[::3], MODELS[1::3], MODELS[2::3], ["A30:mig-container"], ["2xT4:8GiB:wsl"], ["GB10:mps"]]
)
def test_driver_nvml_and_gpuconf_agree_on_every_model(spec: list[str]) -> None:
    text = ",".join(spec)
    theirs = driver("print(json.dumps(cards()))", text)
    ours = answer(OURS, text)
    assert [card[:4] for card in theirs] == [card[:4] for card in ours]
    assert [[card[4]["75"], card[4]["76"]] for card in theirs] == [card[4] for card in ours]
    seen = nvml(
        """
        def facts(card):
            return [n.nvmlDeviceGetUUID(card)[4:].replace("-", ""), n.nvmlDeviceGetName(card), memory(card),
                    *(ask(n.nvmlDeviceGetMaxClockInfo, card, clock) for clock in (n.NVML_CLOCK_SM, n.NVML_CLOCK_MEM)),
                    ask(n.nvmlDeviceGetMemoryBusWidth, card), n.nvmlDeviceGetNumGpuCores(card),
                    n.nvmlDeviceGetPciInfo(card).bus]
        instances = [ask(n.nvmlDeviceGetMigDeviceHandleByIndex, card, 0) for card in cards]
        found = [facts(card if isinstance(instance, str) else instance) for card, instance in zip(cards, instances)]
        print(json.dumps({uuid: rest for uuid, *rest in found}))
        """,
        text,
    )
    lanes = {"3": 192, "6.0": 64, "7": 64, "8.0": 64}
    for name, uuid, total, _, have in theirs:
        capability = f"{have['75']}.{have['76']}"
        cores = lanes.get(
            capability, lanes.get(capability[0] if have["75"] < 10 and capability[0] in "37" else "", 128)
        )
        memory_clock = have["36"] // 1000 or "NVMLError_NotSupported"
        memory = (
            "NVMLError_NotSupported"
            if have["18"]
            else total
            if total == 8 * GIB
            else PHYSICAL.get(name, total >> 20) << 20
        )
        cores_in_all = have["16"] * cores
        assert seen[uuid] == [name, memory, have["13"] // 1000, memory_clock, have["37"], cores_in_all, have["33"]]


def test_attributes_are_the_cards() -> None:
    """Some that public deviceQuery outputs of these cards show."""
    (t4, *_), (gtx, *_), (h100, *_), (gb10, *_) = (
        driver("print(json.dumps(cards()))", s) for s in ("T4", "GTX1080Ti", "H100", "GB10")
    )
    named = {
        "shared": "8",
        "clock": "13",
        "multiprocessors": "16",
        "integrated": "18",
        "ecc": "32",
        "l2": "38",
        "threads": "39",
    }
    named |= {"shared of a multiprocessor": "81", "opt in": "97", "managed": "89"}
    assert {name: [card[4][n] for card in (t4, gtx, h100, gb10)] for name, n in named.items()} == {
        "shared": [49152] * 4,
        "clock": [1590000, 1582000, 1980000, 2418000],
        "multiprocessors": [40, 28, 132, 48],
        "integrated": [0, 0, 0, 1],
        "ecc": [1, 0, 1, 0],
        "l2": [4194304, 2883584, 52428800, 25165824],
        "threads": [1024, 2048, 2048, 1536],
        "shared of a multiprocessor": [65536, 98304, 233472, 102400],
        "opt in": [65536, 49152, 232448, 101376],
        "managed": [1, 1, 1, 1],
    }
    assert set(map(int, t4[4])) >= set(range(1, 120))


def test_properties_are_those_attributes() -> None:
    program = """
    fields = (c_int * 14)()
    found = cards()[0][4]
    ok(cu.cuDeviceGetProperties(fields, 0))
    assert list(fields) == [found[n] for n in range(1, 15)], (list(fields), found)
    print(cu.cuDeviceGetProperties(None, 0), cu.cuDeviceGetProperties(fields, 1), cu.cuDeviceGetProperties(fields, -1))
    """
    assert run(DRIVER + textwrap.dedent(program), "L4").stdout == "1 101 101\n"


def test_visible_devices_and_their_order_are_as_gpuconf_takes_them() -> None:
    spec = "T4,2xH100:1GiB,GB10,K80"
    orders: list[dict[str, str]] = [{}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {"CUDA_DEVICE_ORDER": "nonsense"}]
    values = (None, "", "2,0", "0,-1,1", "1,1", " +3abc")
    environments = [
        order | ({} if value is None else {"CUDA_VISIBLE_DEVICES": value}) for order in orders for value in values
    ]
    program = f"""
    import json, os, gpuconf
    for environment in {environments!r}:
        for name in ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"):
            os.environ.pop(name, None)
        os.environ.update(environment)
        gpuconf.reset()
        print(json.dumps([d.uuid.split("-", 1)[1].replace("-", "") for d in gpuconf.visible_devices()]))
    """
    ours = map(json.loads, run(program, spec).stdout.splitlines())
    for environment, cards in zip(environments, ours, strict=True):
        program = "print(json.dumps([c[1] for c in cards()] if cu.cuInit(0) == 0 else []))"
        assert driver(program, spec, **environment) == cards, environment


def test_wsl() -> None:
    """microsoft/WSL#11050, pytorch/pytorch#192330."""
    program = """
    context()
    card = cards()[0]
    half = card[2] * 3 // 4
    results = [allocate(half)[0] for _ in range(2)]
    overcommitted = free()
    while allocate(64 << 20)[0] == 0:
        pass
    managed = c_uint64()
    class Prop(ctypes.Structure):
        _fields_ = [("type", c_int), ("handles", c_int), ("kind", c_int), ("id", c_int), ("meta", c_void_p),
                    ("compression", c_ubyte), ("rdma", c_ubyte), ("rest", c_ubyte * 6)]
    def mapped(rdma):
        handle, address = c_uint64(), c_uint64()
        prop = Prop(type=1, kind=1, id=0, rdma=rdma)
        ok(cu.cuMemCreate(byref(handle), c_size_t(2 << 20), byref(prop), c_uint64(0)))
        ok(cu.cuMemAddressReserve(byref(address), c_size_t(2 << 20), c_size_t(2 << 20), c_uint64(0), c_uint64(0)))
        ok(cu.cuMemMap(address, c_size_t(2 << 20), c_size_t(0), handle, c_uint64(0)))
        return cu.cuMemSetAccess(address, c_size_t(2 << 20), (c_int * 3)(1, 0, 3), c_size_t(1))
    refused = cu.cuMemAllocManaged(byref(managed), c_size_t(1 << 20), 1)
    ok(cu.cuDevicePrimaryCtxReset_v2(0)), context()
    print(json.dumps([results, overcommitted, refused, card[4][89], card[4][110], mapped(0), mapped(1)]))
    """
    total = 1 * GIB
    assert driver(program, "T4:1GiB:wsl") == [[0, 0], [0, total], 2, 0, 1, 0, 999]
    assert driver(program.replace("mapped(1)", "0"), "T4:1GiB")[:3] == [[0, 2], [total // 4, total], 0]


def test_a_freed_reservation_is_the_next_ones_whatever_the_process_maps() -> None:
    """The stack of a thread got the addresses, and a stale pointer to the reservation read it."""
    program = """
    import mmap, threading
    def reserve(blocks):
        address = c_uint64()
        ok(cu.cuMemAddressReserve(byref(address), c_size_t(blocks * BLOCK), c_size_t(0), c_uint64(0), c_uint64(0)))
        return address.value
    def free(address, blocks):
        return cu.cuMemAddressFree(c_uint64(address), c_size_t(blocks * BLOCK))
    BLOCK = 2 << 20
    context()
    kept, first, last = reserve(3), reserve(4), reserve(2)
    assert free(first, 4) == 0
    maps, go_on = [], threading.Event()
    for size in range(1, 12):
        maps += [mmap.mmap(-1, size << 20)]
        threading.stack_size(size << 20), threading.Thread(target=go_on.wait, daemon=True).start()
    taken = [[int(x, 16) for x in line.split()[0].split("-")] for line in open("/proc/self/maps")]
    between = [pair for pair in taken if pair[0] < first + 4 * BLOCK and first < pair[1]]
    large, again = reserve(5), reserve(4)
    smaller = [free(first, 4), reserve(2), reserve(2)]
    go_on.set()
    apart = len({kept, first, last, large}) == 4
    print(json.dumps([between, apart, again - first, free(first, 2), free(first, 4), [x - first for x in smaller[1:]],
                      smaller[0]]))
    """
    block = 2 << 20
    assert driver(program, "H200") == [[], True, 0, 0, 1, [0, 2 * block], 0]


def test_a_card_without_a_limit_refuses_handles_beyond_its_size_until_they_are_mapped() -> None:
    """PyTorch up to 2.6 fills a segment of 9/8 of a card with handles, then maps them: it must meet the card's end."""
    program = """
    class Prop(ctypes.Structure):
        _fields_ = [(n, c_int) for n in ("type", "handles", "kind", "id")] + [("meta", c_void_p), ("rest", c_ubyte * 8)]
    size, card = c_size_t(512 << 20), 8 << 30
    reserved = c_uint64()
    context(), ok(cu.cuMemAddressReserve(byref(reserved), c_size_t(4 * card), c_size_t(0), c_uint64(0), c_uint64(0)))
    def create():
        handle = c_uint64()
        return cu.cuMemCreate(byref(handle), size, byref(Prop(1, 0, 1, 0)), c_uint64(0)), handle
    rounds, place = [], reserved.value
    for _ in range(3):
        handles = []
        while len(handles) < 100:
            result, handle = create()
            if result:
                break
            handles.append(handle)
        rounds.append([result, len(handles)])
        for handle in handles:
            ok(cu.cuMemMap(c_uint64(place), size, c_size_t(0), handle, c_uint64(0)))
            place += size.value
    print(json.dumps(rounds))
    """
    assert driver(program, "A100-40GB:8GiB:no-limit") == [[2, 16]] * 3


def test_gpuconf_under_wsl() -> None:
    """A pool has its limit, though the driver gives more; unified memory does not oversubscribe."""
    program = """
    import json, gpuconf
    gpuconf.configure(limit="512MiB")
    try:
        gpuconf.memory.allocate("600MiB", "GPU:0")
    except gpuconf.errors.ResourceExhaustedError:
        print(json.dumps([gpuconf.simulated(), gpuconf.visible_devices()[0].total_memory]))
    """
    assert answer(program, "T4:1GiB:wsl") == ["T4:1GiB:wsl", GIB]


def test_mig_in_a_container() -> None:
    """NVIDIA/nvidia-container-toolkit#842, NVIDIA/k8s-device-plugin#1683, vllm-project/vllm#50463."""
    spec = "A100-40GB:mig-container"
    ((name, uuid, total, _, have),) = driver("print(json.dumps(cards()))", spec)
    assert (name, total, have["16"], have["38"]) == ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 << 20, 14, 5 << 20)
    program = """
    card, = cards
    instance = n.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
    parent = n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
    print(json.dumps([n.nvmlDeviceGetName(card), ask(n.nvmlDeviceGetMemoryInfo, card),
                      ask(n.nvmlDeviceGetUtilizationRates, card),
                      ask(n.nvmlDeviceGetComputeRunningProcesses, card), n.nvmlDeviceGetMigMode(card), memory(instance),
                      n.nvmlDeviceGetUUID(instance), n.nvmlDeviceGetUUID(parent) == n.nvmlDeviceGetUUID(card)]))
    """
    denied = "NVMLError_NoPermission"
    *seen, mine, same = nvml(program, spec)
    assert seen == ["NVIDIA A100-SXM4-40GB", denied, denied, denied, [1, 1], 4864 << 20]
    assert (mine[:4], mine[4:].replace("-", ""), same) == ("MIG-", uuid, True)
    assert driver("print(json.dumps([c[1] for c in cards()]))", spec, CUDA_VISIBLE_DEVICES=mine) == [uuid]
    program = """
    import json, gpuconf
    from gpuconf.machine.cards import survey
    block = gpuconf.memory.allocate("64MiB", "GPU:0")
    card, = survey().cards
    instances = [i.uuid for i in card.instances]
    print(json.dumps([gpuconf.visible_devices()[0].uuid, card.mig, instances, card.memory.total, bool(card.errors)]))
    """
    assert answer(program, spec, CUDA_VISIBLE_DEVICES=mine) == [mine, "on", [mine], None, True]


def test_unified() -> None:
    """XuehaiPan/nvitop#208."""
    ((*_, have),) = driver("print(json.dumps(cards()))", "RTX4090:unified")
    assert have["18"] == 1
    assert nvml("print(json.dumps([memory(c) for c in cards]))", "RTX4090:unified,GB10,T4") == [
        *["NVMLError_NotSupported"] * 2,
        15 * GIB,
    ]
    program = (
        "import json; from gpuconf.machine.cards import survey; print(json.dumps([c.memory.kind for c in "
        "survey().cards]))"
    )
    assert answer(program, "RTX4090:unified,GB10,T4") == ["unified", "unified", "dedicated"]


@pytest.mark.parametrize(
    ("spec", "can", "atomics"),
    [
        ("2xA100-40GB", 1, 1),
        ("2xT4", 1, 0),
        ("2xRTX4090", 0, 0),
        ("A100-40GB,A100-80GB", 0, 0),
        ("2xA100-40GB:no-peers", 0, 0),
    ],
)
def test_peers(spec: str, can: int, atomics: int) -> None:
    """Equal cards access each other, unless NVIDIA's driver excludes them.

    To enable it twice is an error, and so to disable it.
    """
    program = """
    can, value, contexts = c_int(7), c_int(7), [c_void_p(), c_void_p()]
    ok(cu.cuInit(0))
    for device, one in enumerate(contexts):
        ok(cu.cuDevicePrimaryCtxRetain(byref(one), device))
    ok(cu.cuCtxSetCurrent(contexts[0]))
    ok(cu.cuDeviceCanAccessPeer(byref(can), 0, 1))
    said = [can.value]
    for attribute in (2, 3, 4):
        ok(cu.cuDeviceGetP2PAttribute(byref(value), attribute, 0, 1)), said.append(value.value)
    enable, disable = cu.cuCtxEnablePeerAccess, cu.cuCtxDisablePeerAccess
    print(json.dumps([said, enable(contexts[1], 0), enable(contexts[1], 0), disable(contexts[1]), disable(contexts[1]),
                      enable(contexts[0], 0), cu.cuDeviceCanAccessPeer(byref(can), 0, 2)]))
    enable(contexts[1], 0)
    ok(cu.cuDevicePrimaryCtxRelease_v2(1)), ok(cu.cuDevicePrimaryCtxRetain(byref(contexts[1]), 1))
    assert enable(contexts[1], 0) == (0 if can.value else 217), "what was enabled ended with the other context"
    """
    enabled = [0, 704, 0, 705] if can else [217, 217, 705, 705]
    assert driver(program, spec) == [[can, can, atomics, can], *enabled, 217, 101]


@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.parametrize("call", ["cuMemcpyPeer", "cuMemcpyPeerAsync", "cuMemcpyDtoD_v2"])
@pytest.mark.parametrize(("spec", "peers"), [("2xA100-40GB", True), ("2xRTX4090", False)])
def test_copies_between_pools(spec: str, peers: bool, call: str, growth: bool) -> None:
    """Copies between two pools that grow once failed.

    Without peer access only those that name both contexts can work.
    """
    program = f"""
    import os, sys, gpuconf
    gpuconf.configure(limit="64MiB", growth={growth}, libraries=[])
    one, other = gpuconf.memory.allocate("4MiB", "GPU:0"), gpuconf.memory.allocate("4MiB", "GPU:1")
    one.copy_from_host(bytes(range(256)) * 16384)
    at = [c_uint64(ctypes.addressof(c_ubyte.from_buffer(x.view()))) for x in (one, other)]
    contexts, size = [c_void_p(), c_void_p()], c_size_t(4 << 20)
    for device, context_ in enumerate(contexts):
        ok(cu.cuDevicePrimaryCtxRetain(byref(context_), device))
    ok(cu.cuCtxPushCurrent_v2(contexts[0]))
    result = {{
        "cuMemcpyPeer": lambda: cu.cuMemcpyPeer(at[1], contexts[1], at[0], contexts[0], size),
        "cuMemcpyPeerAsync": lambda: cu.cuMemcpyPeerAsync(at[1], contexts[1], at[0], contexts[0], size, None),
        "cuMemcpyDtoD_v2": lambda: cu.cuMemcpyDtoD_v2(at[1], at[0], size),
    }}["{call}"]()
    ok(cu.cuCtxSynchronize())
    print(json.dumps([result, bytes(other.copy_to_host()) == bytes(range(256)) * 16384]))
    """
    works = not growth or peers or "Peer" in call
    assert driver(program, spec) == ([0, True] if works else [1, False])


# Every copy and fill that the driver does, to or from memory that another card has: {name: result}.
EVERY_COPY = """
class End(ctypes.Structure):
    _fields_ = [("x", c_size_t), ("y", c_size_t), ("type", c_int),
                *((name, c_size_t) for name in ("host", "device", "array", "pitch"))]
class Copy(ctypes.Structure):
    _fields_ = [("one", End), ("other", End), ("width", c_size_t), ("height", c_size_t)]
class End3(ctypes.Structure):
    _fields_ = [(n, c_size_t) for n in ("x", "y", "z", "level")] + [("type", c_int)] + [
        (n, c_size_t) for n in ("host", "device", "array", "context", "pitch", "height")]
class Copy3(ctypes.Structure):
    _fields_ = [("one", End3), ("other", End3), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]
class Prop(ctypes.Structure):
    _fields_ = [(n, c_int) for n in ("type", "handles", "kind", "id")] + [("meta", c_void_p), ("rest", c_ubyte * 8)]
ok(cu.cuInit(0))
contexts, stream, pinned = [c_void_p(), c_void_p()], c_void_p(), c_uint64()
for device, one in enumerate(contexts):
    ok(cu.cuDevicePrimaryCtxRetain(byref(one), device))
ok(cu.cuCtxSetCurrent(contexts[0]))
ok(cu.cuStreamCreate(byref(stream), 1)), ok(cu.cuMemHostAlloc(byref(pinned), c_size_t(4096), 0))
own, size = allocate(4096)[1], c_size_t(64)
def mapped(device):
    handle, address, bytes = c_uint64(), c_uint64(), c_size_t(2 << 20)
    ok(cu.cuMemCreate(byref(handle), bytes, byref(Prop(1, 0, 1, device)), c_uint64(0)))
    ok(cu.cuMemAddressReserve(byref(address), bytes, bytes, c_uint64(0), c_uint64(0)))
    ok(cu.cuMemMap(address, bytes, c_size_t(0), handle, c_uint64(0)))
    return address.value, lambda gpu: cu.cuMemSetAccess(address, bytes, (c_int * 3)(1, gpu, 3), c_size_t(1))
def pooled(device):
    pool, address = c_void_p(), c_uint64()
    ok(cu.cuDeviceGetDefaultMemPool(byref(pool), device)), ok(cu.cuCtxSetCurrent(contexts[device]))
    ok(cu.cuMemAllocAsync(byref(address), c_size_t(2 << 20), None)), ok(cu.cuCtxSynchronize())
    ok(cu.cuCtxSetCurrent(contexts[0]))
    return address.value, lambda gpu: cu.cuMemPoolSetAccess(pool, (c_int * 3)(1, gpu, 3), c_size_t(1))
def every_copy(other):
    tried = {}
    def now(name, *arguments):
        tried[name] = getattr(cu, name)(*arguments) or cu.cuStreamSynchronize(stream) or cu.cuCtxSynchronize()
    at, o, p = c_uint64(own), c_uint64(other), c_uint64(pinned.value)
    for to, source in ((o, at), (at, o)):
        for name in ("cuMemcpy", "cuMemcpy_ptds", "cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds"):
            now(name, to, source, size)
        for name in ("cuMemcpyAsync", "cuMemcpyDtoDAsync_v2"):
            now(name, to, source, size, stream)
        box = Copy(End(0, 0, 2, 0, source.value, 0, 64), End(0, 0, 2, 0, to.value, 0, 64), 64, 2)
        cube = Copy3(End3(0, 0, 0, 0, 2, 0, source.value, 0, 0, 64, 2), End3(0, 0, 0, 0, 2, 0, to.value, 0, 0, 64, 2),
                     64, 2, 2)
        now("cuMemcpy2D_v2", byref(box))
        now("cuMemcpy2DUnaligned_v2", byref(box))
        now("cuMemcpy2DAsync_v2", byref(box), stream)
        now("cuMemcpy3D_v2", byref(cube))
        now("cuMemcpy3DAsync_v2", byref(cube), stream)
        now("cuMemcpy3DPeer", byref(cube))
        now("cuMemcpyPeer", to, contexts[0], source, contexts[0], size)
    for name in ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"):
        now(name, o, p, size)
    for name in ("cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"):
        now(name, p, o, size)
    now("cuMemcpyHtoDAsync_v2", o, p, size, stream), now("cuMemcpyDtoHAsync_v2", p, o, size, stream)
    for bits in (8, 16, 32):
        now(f"cuMemsetD{bits}_v2", o, 1, size), now(f"cuMemsetD{bits}Async", o, 1, size, stream)
        now(f"cuMemsetD2D{bits}_v2", o, size, 1, c_size_t(2), c_size_t(1))
    return tried
def both(other):
    return [cu.cuMemcpyPeer(c_uint64(own), contexts[0], c_uint64(other), contexts[1], size), cu.cuCtxSynchronize()]
"""


@pytest.mark.parametrize("kind", ["mapped", "pooled"])
@pytest.mark.parametrize(("spec", "granted"), [("2xA100-40GB", 0), ("2xRTX4090", 101)])
def test_every_copy_needs_access(spec: str, granted: int, kind: str) -> None:
    """To mapped memory and that of pools, which cuCtxEnablePeerAccess does not open.

    A copy that names both contexts needs none.
    """
    program = f"""
    other, grant = {kind}(1)
    if {kind == "mapped"}:
        ok(grant(1))  # its own card
    before = every_copy(other)
    results = [sorted(set(before.values())), len(before), both(other)]
    said = grant(0)
    print(json.dumps([*results, said, sorted(set(every_copy(other).values()))]))
    """
    one, count, named, said, after = answer(DRIVER + EVERY_COPY + textwrap.dedent(program), spec)
    assert (one, named, after) == ([1], [0, 0], [0] if granted == 0 else [1])
    assert count >= 25
    assert said == granted


@pytest.mark.parametrize(
    ("profile", "attribute", "lists"), [("", 0, [[96], []]), (":mps", 1, [[], [96]]), (":wsl", 0, [[None], []])]
)
def test_what_nvml_says_of_the_program_itself(profile: str, attribute: int, lists: list[list[int | None]]) -> None:
    """A client of the multi-process service is in a list of its own; under WSL how much a program uses is unknown."""
    program = """
    import os, pynvml as n
    context()
    ok(allocate(96 << 20)[0])
    n.nvmlInit()
    card = n.nvmlDeviceGetHandleByIndex(0)
    found = [f(card) for f in (n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetMPSComputeRunningProcesses)]
    assert all(one.pid == os.getpid() for some in found for one in some)
    print(json.dumps([cards()[0][4][133], n.nvmlDeviceGetMemoryInfo(card, n.nvmlMemory_v2).used >> 20,
                      [[one.usedGpuMemory and one.usedGpuMemory >> 20 for one in some] for some in found]]))
    """
    assert driver(program, "T4" + profile) == [attribute, 96, lists]


@pytest.mark.parametrize(("profile", "lists"), [("", [1, 0, 0]), (":mps", [1, 1, 0])])
def test_the_lists_of_processes_that_nvidia_smi_requests(profile: str, lists: list[int]) -> None:
    """A row is nvmlProcessDetail_v1_t and a name: pid, bytes, no instance.

    With less room, the error says how many there are.
    """
    program = """
    import os, struct
    context()
    ok(allocate(96 << 20)[0])
    nvml, table = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.POINTER(ctypes.c_size_t)()
    ok(nvml.nvmlInit_v2())
    ok(nvml.nvmlInternalGetExportTable(byref(table), bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4")))
    card = c_void_p()
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)))
    room, rows, said = ctypes.c_uint(), create_string_buffer(250 * 4128), []
    for at in (212, 213, 214):
        ask = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)(table[1 + at])
        room.value = 250
        ok(ask(card, byref(room), rows))
        count = room.value
        said.append(count)
        if count:
            *row, name = struct.unpack_from("<Q Q I I Q 4096s", rows)
            assert row == [os.getpid(), 96 << 20, 2**32 - 1, 2**32 - 1, 0]
            assert name.rstrip(b"\\0").decode() == os.path.realpath(sys.executable)
        room.value = 0
        assert (ask(card, byref(room), None), room.value) == (7 if count else 0, count)
    assert (ask(None, byref(room), rows), ask(card, None, rows)) == (2, 2)
    print(json.dumps(said))
    """
    assert driver(program, "T4" + profile) == lists


@pytest.mark.parametrize(("version", "number"), [("11.8", 11080), ("12.2", 12020), ("13.0", 13000)])
def test_another_driver(version: str, number: int) -> None:
    """Versions, functions and attributes are that driver's; gpuconf runs on it, and calls it by its version."""
    program = """
    version, place, status = c_int(), c_void_p(), c_int()
    ok(cu.cuDriverGetVersion(byref(version)))
    pool = c_void_p()
    found = cards()[0][4]
    newer = cu.cuMemGetDefaultMemPool(byref(pool), (c_int * 2)(1, 0), 1)  # since 13.0
    print(json.dumps([version.value, newer, 125 in found, 144 in found]))
    """
    spec = f"T4:driver={version}"
    expected = [number, 0 if number >= 13000 else 801, number >= 12000, number >= 13000]
    assert driver(program, spec) == expected
    seen = nvml("print(json.dumps([n.nvmlSystemGetCudaDriverVersion(), n.nvmlSystemGetDriverVersion()]))", spec)
    assert seen[0] == number
    assert seen[1].split(".")[0] == {"11.8": "520", "12.2": "535", "13.0": "580"}[version]
    program = """
    import ctypes, json, gpuconf
    block = gpuconf.memory.allocate("64MiB", "GPU:0")
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    block.free()
    gpuconf.reset()
    try:
        with gpuconf.simulate("T4:driver=12.6"):
            gpuconf.memory.allocate("1MiB", "GPU:0")
    except gpuconf.errors.FailedPreconditionError as error:
        print(json.dumps([version.value, str(error)]))
    """
    had, refusal = answer(program, spec)
    assert had == number
    assert f"simulated driver for CUDA {version}, and a process has one driver" in refusal


def test_a_simulated_driver_is_chosen_by_the_call_too() -> None:
    program = """
    import ctypes, json, gpuconf
    gpuconf.simulate("T4:driver=11.8")
    block = gpuconf.memory.allocate("64MiB", "GPU:0")
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    print(json.dumps([version.value, gpuconf.simulated()]))
    """
    assert answer(program, "") == [11080, "T4:driver=11.8"]


def test_ordinary_programs_meet_no_check_of_the_tests() -> None:
    """NVIDIA's driver takes host memory that is not page-locked in a stream, and a free waits for the work on its
    memory.
    """
    program = """
    context, stream, address = c_void_p(), c_void_p(), c_uint64()
    ok(cu.cuInit(0))
    ok(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
    ok(cu.cuCtxSetCurrent(context))
    ok(cu.cuStreamCreate(byref(stream), 1))
    for _ in range(20):
        ok(cu.cuMemAlloc_v2(byref(address), c_size_t(1 << 20)))
        there, back = create_string_buffer(b"x" * 4096), create_string_buffer(4096)
        ok(cu.cuMemcpyHtoDAsync_v2(address, there, c_size_t(4096), stream))
        ok(cu.cuMemcpyDtoHAsync_v2(back, address, c_size_t(4096), stream))
        ok(cu.cuMemsetD8Async(address, 1, c_size_t(1 << 20), stream))
        ok(cu.cuMemFree_v2(address))
        ok(cu.cuStreamSynchronize(stream))
        assert back.raw == there.raw[:4096]
    print("done")
    """
    assert run(DRIVER + textwrap.dedent(program), "T4").stdout == "done\n"


def test_contexts_take_memory() -> None:
    """448 MiB each on an A100, also the second one of a process. Where that does not fit, there is no context."""
    program = """
    def used():
        left, total = free()
        return (total - left) >> 20
    context()
    second, third = c_void_p(), c_void_p()
    said = [used(), cu.cuCtxCreate_v2(byref(second), 0, 0), used(), cu.cuCtxDestroy_v2(second), used()]
    said += [allocate((40960 - 448 - 446) << 20)[0], cu.cuCtxCreate_v2(byref(third), 0, 0), third.value]
    said += [used(), allocate(446 << 20)[0]]
    ok(cu.cuDevicePrimaryCtxReset_v2(0)), context()
    said += [used(), cu.cuDevicePrimaryCtxRelease_v2(0), cu.cuDevicePrimaryCtxRelease_v2(0)]
    active, flags, primary = c_int(), c_int(), c_void_p()
    ok(cu.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)))
    ok(cu.cuCtxCreate_v2(byref(second), 0, 0))
    said += [active.value, used(), allocate((40960 - 448 - 100) << 20)[0]]
    said += [cu.cuDevicePrimaryCtxRetain(byref(primary), 0), primary.value]
    print(json.dumps(said))
    """
    first, failed, after = [448, 0, 896, 0, 448], [0, 2, None, 40960 - 446, 0], [448, 0, 0, 0, 448, 0, 2, None]
    assert driver(program, "A100-40GB:40GiB:contexts") == first + failed + after


def test_a_context_is_not_what_a_test_has_left_behind() -> None:
    """The pytest plugin compares what the process has on the card before and after a test, which may make the
    context.
    """
    program = """
    held, second = c_uint64(), c_void_p()
    def now():
        ok(cu.gpuconf_simulator_held(0, byref(held)))
        return held.value >> 20
    ok(cu.cuInit(0))
    said = [now()]
    context(), ok(cu.cuCtxCreate_v2(byref(second), 0, 0))
    said += [now(), allocate(96 << 20)[0], now(), cu.cuCtxDestroy_v2(second), now()]
    print(json.dumps(said))
    """
    assert driver(program, "A100-40GB:40GiB:contexts") == [0, 0, 0, 96, 0, 0]


@pytest.mark.parametrize(
    ("spec", "taken"), [("T4", 320), ("H200", 528), ("B200", 576), ("T4:1GiB", 128), ("A100-40GB:mig-container", 448)]
)
def test_what_a_context_takes_is_what_a_lease_reserves_for_it(spec: str, taken: int) -> None:
    program = """
    context()
    left, total = free()
    print(json.dumps([total - left, total, cards()[0][4][75]]))
    """
    used, total, major = driver(program, f"{spec}:contexts")
    assert used == taken << 20 == core.pybind_ContextBytes(total, major)
    assert driver(program, spec)[0] == 0


def test_processes_have_their_contexts_on_the_card_of_their_job() -> None:
    """NVML and ``ps`` list what each has, free memory is the same number in all, and it comes back when a process
    ends.
    """
    program = (
        DRIVER
        + """
import os, subprocess
import pynvml as n
context()
ok(allocate(1 << 30)[0])
if len(sys.argv) > 1:
    print(free()[0] >> 20, flush=True)
    sys.stdin.read()
    sys.exit()
other = subprocess.Popen([sys.executable, __file__, "x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
theirs, mine = int(other.stdout.readline()), free()[0] >> 20
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
listed = {p.pid: p.usedGpuMemory >> 20 for p in n.nvmlDeviceGetComputeRunningProcesses(card)}
shown = subprocess.run([sys.executable, "-m", "gpuconf", "ps"], capture_output=True, text=True, check=True).stdout
other.communicate()
print(json.dumps([theirs, mine, listed == {os.getpid(): 1472, other.pid: 1472}, shown.count("1.44GiB"),
                  free()[0] >> 20]))
"""
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        command = [
            sys.executable,
            *"-m gpuconf run --simulate A100-40GB:40GiB:contexts --".split(),
            sys.executable,
            file.name,
        ]
        done = script.completed(command, env=script.plain(), timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    both, one = 40960 - 2 * 1472, 40960 - 1472
    assert json.loads(done.stdout) == [both, both, True, 2, one]


@pytest.mark.parametrize(
    ("profile", "noted"),
    [
        ("wsl", []),
        (
            "mig-container",
            ["the driver refuses queries of the whole card here", "MIG instances: the GPU enforces them"],
        ),
        ("unified", ["shares the host's memory"]),
        ("no-peers", []),
        ("mps", []),
        ("no-limit", []),
        ("contexts", []),
        ("driver=11.8", []),
    ],
)
def test_commands_and_limits_under_a_profile(profile: str, noted: list[str], tmp_path: Path) -> None:
    """``run`` leases and limits, ``ps`` lists the program, and ``doctor`` finds no problem and names what differs."""
    spec = f"A100-40GB:{profile}"
    program = """
    import json, os, subprocess, sys
    import gpuconf
    limits = gpuconf.configure().limits
    block = gpuconf.memory.allocate("512MiB", "GPU:0")
    try:
        gpuconf.memory.allocate("600MiB", "GPU:0")
    except gpuconf.errors.ResourceExhaustedError:
        gpuconf_command = [sys.executable, "-m", "gpuconf"]
        told = subprocess.run([*gpuconf_command, "doctor"], capture_output=True, text=True, check=True).stdout
        rows = json.loads(subprocess.run([*gpuconf_command, "ps", "--json"], capture_output=True, text=True,
                                         check=True).stdout)
        print(json.dumps([list(limits.values()), " ".join(told.split()), str(os.getpid()) in json.dumps(rows)]))
    """
    command = [
        *"-m gpuconf run --simulate".split(),
        spec,
        "--memory",
        "1GiB",
        "--",
        sys.executable,
        "-c",
        textwrap.dedent(program),
    ]
    out = script.printed(
        [sys.executable, *command], env=script.plain() | {"GPUCONF_LEDGER": str(tmp_path / "ledger")}, timeout=120
    )
    limits, told, listed = json.loads(out)
    assert (limits, listed) == ([GIB], True)
    assert "no problems" in told
    assert [text for text in noted if text not in told] == []
