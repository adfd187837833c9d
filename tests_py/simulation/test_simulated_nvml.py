"""The simulated NVML (gocore/sim/nvml) as nvidia-ml-py, and programs that call it carelessly, see it."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pynvml
import pytest
import script
from fake_nvml import fake_nvml

SYMBOLS = Path(__file__).resolve().parents[2] / "gocore" / "machine" / "nvml" / "symbols.h"
NAMES = re.findall(r"^STATUS\((\w+)\)", SYMBOLS.read_text(), re.M)
GIB = 1 << 30


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built library."""
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def run(library: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that finds the library."""
    return script.completed(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=script.plain() | {"LD_LIBRARY_PATH": str(library)} | environment,
        timeout=60,
    )


def told(library: Path, program: str, **environment: str) -> object:
    """Run a program that prints JSON, and return that."""
    done = run(library, program, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


CARDS = """
import json, pynvml as n
n.nvmlInit()
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
"""


def test_nvidia_ml_py_sees_the_cards_of_the_spec(library: Path) -> None:
    """Two models: names, memory, capability, architecture and clocks of each, found by index, UUID and bus id."""
    program = """
    out = []
    for c in cards:
        pci, memory = n.nvmlDeviceGetPciInfo(c), n.nvmlDeviceGetMemoryInfo(c)
        uuid = n.nvmlDeviceGetUUID(c)
        same = [n.nvmlDeviceGetHandleByUUID(uuid), n.nvmlDeviceGetHandleByPciBusId(pci.busId)]
        out.append([n.nvmlDeviceGetName(c), memory.total, memory.used,
                    n.nvmlDeviceGetMemoryInfo(c, n.nvmlMemory_v2).total, n.nvmlDeviceGetCudaComputeCapability(c),
                    n.nvmlDeviceGetArchitecture(c), n.nvmlDeviceGetNumGpuCores(c),
                    n.nvmlDeviceGetMaxClockInfo(c, n.NVML_CLOCK_SM), [n.nvmlDeviceGetIndex(s) for s in same],
                    n.nvmlDeviceGetUtilizationRates(c).gpu, len(n.nvmlDeviceGetComputeRunningProcesses(c))])
    print(json.dumps(out))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="H100-80GB,T4:8GiB") == [
        ["NVIDIA H100 80GB HBM3", 81559 << 20, 478 << 20, 81559 << 20, [9, 0], 9, 16896, 1980, [0, 0], 0, 0],
        ["Tesla T4", 8 * GIB, 0, 8 * GIB, [7, 5], 6, 2560, 1590, [1, 1], 0, 0],
    ]


def test_the_cards_are_those_of_gpuconf(library: Path) -> None:
    """Gpuconf and NVML read names in the same way (test_simulated_cards.py has every model)."""
    spec = "2 x h100:80GB,geforce rtx 4090:24GB,NVIDIA L4:4GB,a100:512MiB"
    theirs = """
    print(json.dumps([
        [n.nvmlDeviceGetUUID(c), n.nvmlDeviceGetName(c), n.nvmlDeviceGetMemoryInfo(c).total,
         n.nvmlDeviceGetCudaComputeCapability(c)]
        for c in cards
    ]))
    """
    ours = """
    import json, gpuconf
    print(json.dumps([[d.uuid, d.name, d.total_memory, d.compute_capability] for d in gpuconf.visible_devices()]))
    """
    ordered = told(library, ours, GPUCONF_SIMULATE=spec, CUDA_DEVICE_ORDER="PCI_BUS_ID")  # NVML's order
    assert told(library, CARDS + textwrap.dedent(theirs), GPUCONF_SIMULATE=spec) == ordered


WRONG = ["H1000", "T4:8", "0xT4", "65xT4", ",", "T4:3B", "x" * 500, f"T4:{10**20}GiB", f"{10**20}xT4"]


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_spec_is_refused(library: Path, spec: str) -> None:
    """NvmlInit fails, and one line says why."""
    done = run(library, "import pynvml; pynvml.nvmlInit()", GPUCONF_SIMULATE=spec)
    assert "NVMLError_DriverNotLoaded" in done.stderr
    assert done.stderr.startswith("gpuconf's simulated NVML: GPUCONF_SIMULATE: ")


def test_no_card_is_in_a_fabric(library: Path) -> None:
    """PyTorch asks from Hopper on before it makes expandable segments, and warned that the call failed."""
    program = """
    out = []
    for card in cards:
        for kind, version in ((n.c_nvmlGpuFabricInfo_v2_t, None), (n.c_nvmlGpuFabricInfo_v3_t, None),
                              (n.c_nvmlGpuFabricInfo_v2_t, 0x1000024)):
            info = kind()
            info.state = info.healthMask = 7
            info.version = version or info.version
            try:
                n.nvmlDeviceGetGpuFabricInfoV(card, n.byref(info))
                out.append([info.state, info.healthMask, info.cliqueId, sum(info.clusterUuid)])
            except n.NVMLError as error:
                out.append(str(error))
    print(json.dumps(out))
    """
    found = told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="H100-80GB,A100-40GB")
    assert found == [[0, 0, 0, 0], [0, 0, 0, 0], "Argument version mismatch", *["Not Supported"] * 3]


def test_what_only_a_card_can_measure_is_not_supported(library: Path) -> None:
    """Power and temperature raise NotSupported; the log has each name once."""
    program = """
    for c in cards * 2:
        for ask in (n.nvmlDeviceGetPowerUsage, lambda c: n.nvmlDeviceGetTemperature(c, 0)):
            try:
                ask(c)
            except n.NVMLError_NotSupported as error:
                assert str(error) == "Not Supported"
            else:
                raise SystemExit("an invented number")
    print(0)
    """
    done = run(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="T4", GPUCONF_SIMULATOR_LOG="1")
    names = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature")
    assert done.stderr.splitlines() == [f"gpuconf: the simulated NVML does not support {name}" for name in names]
    assert done.stdout == "0\n"


def test_it_has_all_functions_of_nvidia_ml_py(library: Path) -> None:
    """Every name that nvidia-ml-py requests is exported."""
    wanted = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', Path(pynvml.__file__).read_text()))
    copy = library / "nvml_of_this_test.so"  # under NVIDIA's name, this process could not simulate GPUs any more
    shutil.copy(library / "libnvidia-ml.so.1", copy)
    nvml = ctypes.CDLL(str(copy))
    assert len(wanted) > 300
    assert [name for name in sorted(wanted | set(NAMES)) if not hasattr(nvml, name)] == []


def test_no_function_crashes_on_nulls(library: Path) -> None:
    """Before nvmlInit each returns UNINITIALIZED; after it, with NULLs, an error or the answer to no question."""
    program = f"""
    import ctypes, json
    nvml, starts = ctypes.CDLL("libnvidia-ml.so.1"), ("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown")
    names = [name for name in {NAMES!r} if name not in starts]
    ask = lambda: {{getattr(nvml, name)(*[ctypes.c_void_p()] * 8) for name in names}}
    early = ask()
    nvml.nvmlInit_v2()
    late = ask()
    assert [nvml.nvmlInit_v2(), nvml.nvmlShutdown(), nvml.nvmlShutdown(), nvml.nvmlShutdown()] == [0, 0, 0, 1]
    print(json.dumps([sorted(early), sorted(late)]))
    """
    assert told(library, program, GPUCONF_SIMULATE="T4") == [[1], [2, 3]]


def test_a_forked_child_asks_on(library: Path) -> None:
    """A child has its parent's machine."""
    program = """
    import os
    child = os.fork()
    if child == 0:
        os._exit(len(cards) if n.nvmlDeviceGetName(cards[1]) == "Tesla T4" else 99)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="2xT4") == 2


def test_a_child_that_is_forked_during_a_question_asks_on(library: Path) -> None:
    """It once waited for ever for a lock that another thread of its parent had had."""
    program = """
    import os, signal, threading
    over = []
    def ask():
        while not over:
            n.nvmlDeviceGetMemoryInfo(cards[0])
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    ends = set()
    for _ in range(400):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            n.nvmlDeviceGetMemoryInfo(cards[0])
            os._exit(0)
        ends.add(os.waitpid(child, 0)[1])
        if ends != {0}:
            break
    over.append(True)
    for thread in threads:
        thread.join()
    print(json.dumps(sorted(ends)))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="T4") == [0]


def test_a_process_with_another_nvml_cannot_simulate(library: Path) -> None:
    program = """
    import ctypes
    import gpuconf
    ctypes.CDLL("libnvidia-ml.so.1")
    try:
        gpuconf.simulate("T4")
        gpuconf.config.list_physical_devices()
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
    """
    said = run(library, textwrap.dedent(program)).stdout
    assert f"this process has loaded {library / 'libnvidia-ml.so.1'}, and a process has one driver" in said


def test_a_program_that_waits_for_events_waits_until_its_time_is_over(library: Path) -> None:
    """As programs that look for errors of a card do; nvmlEventSetCreate was not supported, and nvidia-smi ended with an
    error.
    """
    program = """
    import threading, time
    events, kinds = n.nvmlEventSetCreate(), n.nvmlDeviceGetSupportedEventTypes(cards[0])
    def answer(call, *arguments):
        try:
            call(*arguments)
        except n.NVMLError as error:
            return error.value
        return 0
    for card in cards:
        n.nvmlDeviceRegisterEvents(card, n.nvmlEventTypeXidCriticalError, events)
    begun = time.monotonic()
    results = [kinds, answer(n.nvmlDeviceRegisterEvents, cards[0], 1 << 40, events),
               answer(n.nvmlEventSetWait, events, 120)]
    assert 0.11 < time.monotonic() - begun < 10
    threading.Timer(0.2, n.nvmlEventSetFree, [events]).start()
    results += [answer(n.nvmlEventSetWait, events, 2**32 - 1), answer(n.nvmlEventSetFree, events)]
    results += [answer(n.nvmlEventSetWait, n.c_nvmlEventSet_t(), 1)]
    sets = []
    while (made := answer(lambda: sets.append(n.nvmlEventSetCreate()))) == 0:
        pass
    results += [len(sets), made]
    for one in sets:
        n.nvmlEventSetFree(one)
    n.nvmlEventSetFree(n.nvmlEventSetCreate())
    print(json.dumps(results))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="2xT4") == [0xFF9F, 3, 10, 2, 2, 2, 256, 23]


def test_fields_and_the_bus(library: Path) -> None:
    """No field of nvmlDeviceGetFieldValues is known, and each says so; the classes are those of an H200 and of a
    GeForce card.
    """
    program = """
    fields = n.nvmlDeviceGetFieldValues(cards[0], [n.NVML_FI_DEV_POWER_AVERAGE, n.NVML_FI_DEV_ECC_CURRENT])
    info = [n.nvmlPciInfoExt_v1_t(version=n.nvmlPciInfoExt_v1) for _ in cards]
    for card, one in zip(cards, info):
        n.nvmlDeviceGetPciInfoExt(card, n.byref(one))
    out = [[one.nvmlReturn for one in fields]] + [[one.busId, one.bus, one.baseClass, one.subClass] for one in info]
    print(json.dumps(out))
    """
    told_of = told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="H200,RTX4090")
    assert told_of == [[3, 3], ["00000000:17:00.0", 0x17, 3, 2], ["00000000:1A:00.0", 0x1A, 3, 0]]


def test_how_cards_are_connected(library: Path) -> None:
    """Each has a host bridge of its own; cards of one model have access to each other's memory, but for GeForce
    cards.
    """
    program = """
    pairs = [(cards[0], cards[1]), (cards[0], cards[2]), (cards[2], cards[3]), (cards[4], cards[5]),
             (cards[0], cards[0])]
    out = [[n.nvmlDeviceGetP2PStatus(*pair, capability) for capability in range(5)] for pair in pairs]
    out.append([n.nvmlDeviceGetTopologyCommonAncestor(*pair) for pair in pairs[:4]])
    try:
        n.nvmlDeviceGetTopologyCommonAncestor(*pairs[4])
    except n.NVMLError_NotSupported:
        print(json.dumps(out))
    """
    ok, gpu, none = 0, 2, 5  # nvidia-smi: OK, GNS and NS
    told_of = told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="2xA100-40GB,2xT4,2xRTX4090")
    assert told_of == [
        [ok, ok, none, ok, ok],  # read, write, NVLink, atomics, PCI Express
        [none] * 5,
        [ok, ok, none, none, ok],
        [gpu, gpu, none, none, gpu],
        [none] * 5,
        [40] * 4,
    ]


def test_the_table_without_names_that_nvidia_smi_requests(library: Path) -> None:
    """It begins with its size, and the log says once that functions are not supported; another identifier is
    invalid.
    """
    program = """
    import ctypes
    done = [22, 71, 212, 213, 214]
    nvml, table = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.POINTER(ctypes.c_size_t)()
    ask = lambda identifier, out=ctypes.byref(table): nvml.nvmlInternalGetExportTable(out, identifier)
    known = bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4")
    results = [ask(bytes(16)), ask(known, None), ask(None), bool(table), ask(known)]
    call = lambda at: ctypes.CFUNCTYPE(ctypes.c_int)(table[at])()
    entries = table[0] // 8
    print(json.dumps([results, entries > 255, sorted({call(at) for at in range(1, entries) if at - 1 not in done})]))
    """
    done = run(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="T4", GPUCONF_SIMULATOR_LOG="1")
    assert json.loads(done.stdout) == [[2, 2, 2, False, 0], True, [3]]
    assert done.stderr == "gpuconf: the simulated NVML does not support a function of nvmlInternalGetExportTable\n"


LIMITS = """
import ctypes, json, os, sys
from ctypes import byref, c_char_p, c_ulonglong, c_void_p
class Limits(ctypes.Structure):
    _fields_ = (("group", c_char_p), ("soft", c_ulonglong), ("hard", c_ulonglong), ("used", c_ulonglong))
nvml, card, other = ctypes.CDLL("libnvidia-ml.so.1"), c_void_p(), c_void_p()
folder, below = sys.argv[1].encode(), sys.argv[1].encode() + b"/below/leaf"
os.makedirs(below, exist_ok=True)
def set(card, group, soft, hard):
    return nvml.nvmlDeviceSetMemoryLimits_v1(card, byref(Limits(group, soft, hard, 7)))
def get(card, group):
    found = Limits(group, 7, 7, 7)
    result = nvml.nvmlDeviceGetMemoryLimits_v1(card, byref(found))
    return result, found.soft, found.hard, found.used
said = [get(card, folder)[0]]
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)), nvml.nvmlDeviceGetHandleByIndex_v2(1, byref(other))
"""
UNLIMITED = 2**64 - 1


def test_memory_limits_of_control_groups(library: Path, tmp_path: Path) -> None:
    """As NVIDIA's guide to MPS v3 says of a kernel without the controller: the nearest group with limits counts."""
    program = """
    said += [get(card, below), set(card, folder, 1 << 20, 2 << 20), get(card, folder), get(card, below)]
    said += [get(other, folder), set(card, below, 3, 4), get(card, below), get(card, folder)[2]]
    said += [set(card, below, 0, 2**64 - 1), get(card, below)]  # clears them
    wrong = [(None, 1, 2), (b"relative", 1, 2), (folder + b"/none", 1, 2), (folder, 2, 1)]
    said += [[set(card, *each) for each in wrong], get(card, None)[0], get(card, folder + b"/none")[0]]
    said += [nvml.nvmlDeviceSetMemoryLimits_v1(card, None), set(None, folder, 1, 2), get(card, folder)]
    os.seteuid(65534)
    said += [set(card, folder, 1, 2), get(card, folder)[0]]
    print(json.dumps(said))
    """
    command = [sys.executable, "-c", LIMITS + textwrap.dedent(program), str(tmp_path)]
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "GPUCONF_SIMULATE": "2xT4:driver=13.4"}
    if os.geteuid() != 0:
        pytest.skip("only root can set NVML's memory limits, and this user is not root")
    for folder in (tmp_path, *tmp_path.parents):  # below one that another user may enter
        if folder == Path(tempfile.gettempdir()):
            break
        os.chmod(folder, 0o755)
    done = script.completed(command, env=env, check=True, timeout=60)
    own, none = [0, 1 << 20, 2 << 20, 0], [0, 0, UNLIMITED, 0]
    assert json.loads(done.stdout) == [
        *[1, none, 0, own, own],
        *[none, 0, [0, 3, 4, 0], 2 << 20],
        *[0, none],
        *[[2, 2, 6, 2], 2, 6],
        *[2, 2, own],
        *[4, 0],
    ]
    for spec, result in (("T4", 13), ("A30:mig-container:driver=13.4", 0)):  # an older driver has no such function
        done = script.completed(
            [sys.executable, "-c", LIMITS + "print(set(card, folder, 1, 2))", str(tmp_path)],
            env={**env, "GPUCONF_SIMULATE": spec},
            check=True,
            timeout=60,
        )
        assert done.stdout == f"{result}\n"


def test_gpuconf_reads_them(library: Path, tmp_path: Path) -> None:
    program = """
    from gpuconf.jobs import cgroup, driver_limits
    cgroup.ROOT, cgroup.OWN = sys.argv[1], sys.argv[1] + "/own"
    open(cgroup.OWN, "w").write("0::/below/leaf\\n"), open(cgroup.ROOT + "/cgroup.controllers", "w").close()
    buses = {"GPU-1": "0000:17:00.0", "GPU-2": "0000:1a:00.0"}
    set(card, folder, 0, 1 << 30)
    print(list(driver_limits.below({"GPU-1": 2 << 30, "GPU-2": 2 << 30}, buses, {})))
    print([text for _, text in driver_limits.in_force({bus: f"GPU {n}" for n, bus in enumerate(buses.values())}, {})])
    """
    if os.geteuid() != 0:
        pytest.skip("only root can set NVML's memory limits, and this user is not root")
    done = script.completed(
        [sys.executable, "-c", LIMITS + textwrap.dedent(program), str(tmp_path)],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "GPUCONF_SIMULATE": "2xT4:driver=13.4"},
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "['the control group /below/leaf limits GPU-1 to 1.00GiB, less than 2.00GiB']",
        "['control group /below/leaf: 1.00GiB of GPU 0, which the driver enforces']",
    ]
