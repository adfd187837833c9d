# SPDX-License-Identifier: Apache-2.0
"""Memory and events that the processes of a job pass to each other, through the installed simulated driver."""

import ctypes
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gpuconf
import pytest
import script
from asked_program import AskedProgram
from gpuconf.jobs import simulated_cards

LIBRARY = Path(gpuconf.__file__).parent / "_simulator" / "libcuda.so.1"
SPEC = "2xA100-40GB"
MIB = 1 << 20
INVALID_VALUE, INVALID_CONTEXT, MAP_FAILED, PEER_ACCESS_UNSUPPORTED = 1, 201, 205, 217
INVALID_HANDLE, NOT_READY, NOT_SUPPORTED, UNKNOWN = 400, 600, 801, 999
PRELUDE = """
import array, ctypes, json, os, socket, sys, time
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p
cu = ctypes.CDLL(sys.argv[1])
MIB = 1 << 20
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
def handle(text):
    return Handle.from_buffer_copy(bytes.fromhex(text))
assert cu.cuInit(0) == 0
contexts = []
count = c_int()
assert cu.cuDeviceGetCount(byref(count)) == 0
for gpu in range(count.value):
    contexts.append(c_void_p())
    assert cu.cuDevicePrimaryCtxRetain(byref(contexts[gpu]), gpu) == 0
def on(gpu):
    return cu.cuCtxSetCurrent(contexts[gpu])
def result_of(kind, call, *arguments):
    # what a call makes, or its error as a negative number
    out = kind()
    result = call(byref(out), *arguments)
    return -result if result else bytes(out).hex() if kind is Handle else out.value
def allocate(bytes):
    return result_of(c_uint64, cu.cuMemAlloc_v2, c_size_t(bytes))
def free(at):
    return cu.cuMemFree_v2(c_uint64(at))
def left():
    available, total = c_size_t(), c_size_t()
    assert cu.cuMemGetInfo_v2(byref(available), byref(total)) == 0
    return (total.value - available.value) // MIB
def write(at, text):
    return cu.cuMemcpyHtoD_v2(c_uint64(at), text.encode(), c_size_t(len(text)))
def read(at, length):
    got = ctypes.create_string_buffer(length)
    result = cu.cuMemcpyDtoH_v2(got, c_uint64(at), c_size_t(length))
    return got.raw.decode() if result == 0 else -result
def export(at):
    return result_of(Handle, cu.cuIpcGetMemHandle, c_uint64(at))
def open_memory(text, flags=1):
    return result_of(c_uint64, cu.cuIpcOpenMemHandle_v2, handle(text), flags)
def close(at):
    return cu.cuIpcCloseMemHandle(c_uint64(at))
events, streams = {}, {}
def event(flags=6):
    return result_of(c_void_p, cu.cuEventCreate, flags)
def export_event(made):
    return result_of(Handle, cu.cuIpcGetEventHandle, c_void_p(made))
def open_event(text):
    return result_of(c_void_p, cu.cuIpcOpenEventHandle, handle(text))
def stream():
    made = c_void_p()
    assert cu.cuStreamCreate(byref(made), 1) == 0
    return made.value
def record(made, stream):
    return cu.cuEventRecord(c_void_p(made), c_void_p(stream))
def query(made):
    return cu.cuEventQuery(c_void_p(made))
def synchronize(made):
    return cu.cuEventSynchronize(c_void_p(made))
def wait(stream, made):
    return cu.cuStreamWaitEvent(c_void_p(stream), c_void_p(made), 0)
def destroy(made):
    return cu.cuEventDestroy_v2(c_void_p(made))
def hold(stream, word):
    return cu.cuStreamWaitValue64_v2(c_void_p(stream), c_uint64(word), c_uint64(1), 0)
def set_word(word):
    return cu.cuStreamWriteValue64_v2(c_void_p(2), c_uint64(word), c_uint64(1), 0)
class Params(ctypes.Structure):
    _fields_ = [*((name, c_int) for name in ("type", "handle_types", "location", "id")), ("rest", c_uint64 * 10)]
class Access(ctypes.Structure):
    _fields_ = [("location", c_int), ("id", c_int), ("flags", c_int)]
passed = socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None
def send(descriptor):
    socket.send_fds(passed, [b"x"], [descriptor])
    os.close(descriptor)
    return 0
def receive():
    _, (descriptor,), _, _ = socket.recv_fds(passed, 1, 1)
    return descriptor
def create(mib, gpu=0):
    return result_of(c_uint64, cu.cuMemCreate, c_size_t(mib * MIB), byref(Params(1, 1, 1, gpu)), c_uint64(0))
def map_memory(handle, mib, gpu=0):
    at = c_uint64()
    assert cu.cuMemAddressReserve(byref(at), c_size_t(mib * MIB), c_size_t(0), c_uint64(0), c_uint64(0)) == 0
    result = cu.cuMemMap(at, c_size_t(mib * MIB), c_size_t(0), c_uint64(handle), c_uint64(0))
    result = result or cu.cuMemSetAccess(at, c_size_t(mib * MIB), byref(Access(1, gpu, 3)), c_size_t(1))
    return at.value if result == 0 else -result
def unmap(at, mib):
    return cu.cuMemUnmap(c_uint64(at), c_size_t(mib * MIB))
def release(handle):
    return cu.cuMemRelease(c_uint64(handle))
def export_memory(handle):
    return result_of(c_int, cu.cuMemExportToShareableHandle, c_uint64(handle), 1, c_uint64(0))
def import_memory(descriptor):
    return result_of(c_uint64, cu.cuMemImportFromShareableHandle, c_void_p(descriptor), 1)
def make_pool(gpu=0, handle_types=1):
    return result_of(c_void_p, cu.cuMemPoolCreate, byref(Params(1, handle_types, 1, gpu)))
def export_pool(pool):
    return result_of(c_int, cu.cuMemPoolExportToShareableHandle, c_void_p(pool), 1, c_uint64(0))
def import_pool(descriptor):
    return result_of(c_void_p, cu.cuMemPoolImportFromShareableHandle, c_void_p(descriptor), 1, c_uint64(0))
def from_pool(pool, mib):
    return result_of(c_uint64, cu.cuMemAllocFromPoolAsync, c_size_t(mib * MIB), c_void_p(pool), None)
def describe(at):
    return result_of(Handle, cu.cuMemPoolExportPointer, c_uint64(at))
def import_pointer(pool, text):
    return result_of(c_uint64, cu.cuMemPoolImportPointer, c_void_p(pool), byref(handle(text)))
def end_pool(pool):
    return cu.cuMemPoolDestroy(c_void_p(pool))
class External(ctypes.Structure):
    _fields_ = [("type", c_int), *((name, c_uint64) for name in ("descriptor", "more", "bytes")),
                ("flags", c_uint * 17)]
class Buffer(ctypes.Structure):
    _fields_ = [("offset", c_uint64), ("bytes", c_uint64), ("flags", c_uint), ("rest", c_uint * 16)]
def import_external(descriptor, mib, type=1):
    return result_of(c_void_p, cu.cuImportExternalMemory, byref(External(type, descriptor, 0, mib * MIB)))
def buffer(external, offset, bytes):
    return result_of(c_uint64, cu.cuExternalMemoryGetMappedBuffer, c_void_p(external), byref(Buffer(offset, bytes)))
def end_external(external):
    return cu.cuDestroyExternalMemory(c_void_p(external))
on(0)
"""


class Program(AskedProgram):
    """A process with an environment, and a socket through which descriptors are passed."""

    def __init__(self, environment: dict[str, str], passing: socket.socket | None = None, **more: Any) -> None:
        descriptors = () if passing is None else (passing.fileno(),)
        super().__init__(PRELUDE, str(LIBRARY), *map(str, descriptors), env=environment, pass_fds=descriptors, **more)


def plain(spec: str = SPEC) -> dict[str, str]:
    return {**script.plain(), "GPUCONF_SIMULATE": spec}


def cards_of(environment: dict[str, str]) -> dict[str, int]:
    """The sizes of the cards by UUID."""
    code = """
import ctypes, json, sys, uuid
cu = ctypes.CDLL(sys.argv[1])
cu.cuInit(0)
count, sizes = ctypes.c_int(), {}
cu.cuDeviceGetCount(ctypes.byref(count))
for gpu in range(count.value):
    found, total = (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
    cu.cuDeviceGetUuid(found, gpu), cu.cuDeviceTotalMem_v2(ctypes.byref(total), gpu)
    sizes[f"GPU-{uuid.UUID(bytes=bytes(found))}"] = total.value
print(json.dumps(sizes))
"""
    told = script.completed([sys.executable, "-c", code, str(LIBRARY)], env=environment, check=True)
    sizes: dict[str, int] = json.loads(told.stdout)
    return sizes


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    return cards_of(plain())


@pytest.fixture
def job(sizes: dict[str, int]) -> Iterator[dict[str, str]]:
    """The environment of the processes of a job."""
    with simulated_cards.share(sizes, SPEC) as made:
        yield {**plain(), **made.environment}


@pytest.fixture
def pair(job: dict[str, str]) -> Iterator[tuple[Program, Program]]:
    with ExitStack() as stack:
        ends = [stack.enter_context(end) for end in socket.socketpair()]
        yield stack.enter_context(Program(job, ends[0])), stack.enter_context(Program(job, ends[1]))


def eventually(program: Program, ask: str) -> None:
    end = time.monotonic() + 5
    while not program.ask(ask):
        assert time.monotonic() < end, f"{ask} has not come true in 5 s"
        time.sleep(0.01)


def folder_of(job: dict[str, str]) -> Path:
    return Path(job[simulated_cards.VARIABLE]).parent


@pytest.mark.parametrize("size", [4 * MIB, 1000], ids=["of its own pages", "a part of a page"])
def test_one_process_sees_what_another_writes(pair: tuple[Program, Program], size: int) -> None:
    one, other = pair
    one.ask("allocate(512)")
    at = one.ask(f"allocate({size})")
    assert one.ask(f"write({at}, 'before')") == 0
    shared = one.ask(f"export({at})")
    there = other.ask(f"open_memory('{shared}')")
    assert there > 0
    assert other.ask(f"read({there}, 6)") == "before"
    assert other.ask(f"write({there + 1}, 'cross')") == 0
    assert one.ask(f"read({at}, 6)") == "bcross"
    assert other.ask(f"read({there + size}, 1)") == -INVALID_VALUE, (
        "the pages around an allocation are not the importer's"
    )
    assert other.ask(f"free({there})") == INVALID_VALUE, "imported memory is closed, not freed"
    assert other.ask(f"close({there})") == 0
    assert other.ask(f"close({there})") == other.ask(f"read({there}, 1)") * -1 == INVALID_VALUE
    assert one.ask(f"read({at}, 6)") == "bcross", "closing leaves the memory as it is"


def test_a_handle_is_of_the_whole_allocation_and_the_same_each_time(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({4 * MIB})")
    shared = one.ask(f"export({at})")
    assert one.ask(f"export({at + 12345})") == shared
    there = other.ask(f"open_memory('{shared}')")
    assert other.ask(f"open_memory('{shared}')") == there, "opening it again counts"
    assert other.ask(f"close({there})") == 0
    assert other.ask(f"write({there}, 'still')") == 0
    assert other.ask(f"close({there})") == 0
    assert other.ask(f"write({there}, 'gone')") == INVALID_VALUE
    assert one.ask(f"free({at})") == 0
    again = one.ask(f"allocate({4 * MIB})")
    assert again == at, "the test needs the same address again"
    assert one.ask(f"export({again})") != shared
    assert other.ask(f"open_memory('{shared}')") == -INVALID_VALUE


def test_exported_memory_stays_until_the_last_reference_ends(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({64 * MIB})")
    assert one.ask(f"write({at}, 'kept')") == 0
    there = other.ask(f"open_memory('{one.ask(f'export({at})')}')")
    assert one.ask("left()") == other.ask("left()") == 64, "it is charged once"
    assert one.ask(f"free({at})") == 0
    assert other.ask(f"read({there}, 4)") == "kept"
    assert one.ask(f"read({at}, 4)") == -INVALID_VALUE
    assert one.ask("left()") == 64
    second = one.ask(f"allocate({64 * MIB})")
    assert second not in range(at, at + 64 * MIB), "its place is not used meanwhile"
    assert other.ask(f"close({there})") == 0
    assert one.ask("left()") == other.ask("left()") == 64
    assert one.ask(f"free({second})") == 0
    assert one.ask(f"allocate({64 * MIB})") == at


def test_the_exporters_death_leaves_the_importer_its_memory(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({64 * MIB})")
    later = one.ask(f"export({one.ask(f'allocate({MIB})')})")
    one.ask(f"write({at}, 'kept')")
    there = other.ask(f"open_memory('{one.ask(f'export({at})')}')")
    one.kill()
    assert other.ask(f"read({there}, 4)") == "kept"
    eventually(other, "left() == 64")
    assert other.ask(f"open_memory('{later}')") == -INVALID_VALUE
    assert other.ask(f"close({there})") == 0
    assert other.ask("left()") == 0


def test_the_importers_death_gives_up_what_it_held(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({64 * MIB})")
    assert other.ask(f"open_memory('{one.ask(f'export({at})')}')") > 0
    one.ask(f"free({at})")
    assert one.ask("left()") == 64
    other.kill()
    eventually(one, "left() == 0")
    assert one.ask(f"allocate({64 * MIB})") == at


def test_the_end_of_a_context_closes_what_it_imported(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({64 * MIB})")
    shared = one.ask(f"export({at})")
    assert other.ask(f"open_memory('{shared}')") > 0
    assert one.ask(f"free({at})") == 0
    assert other.ask("cu.cuDevicePrimaryCtxReset_v2(0)") == 0
    assert one.ask("left()") == 0


def test_the_same_process_cannot_open_its_own(pair: tuple[Program, Program]) -> None:
    one, _ = pair
    shared = one.ask(f"export({one.ask(f'allocate({MIB})')})")
    assert one.ask(f"open_memory('{shared}')") == -INVALID_CONTEXT
    assert one.ask("open_event(export_event(event()))") == -INVALID_CONTEXT


def test_memory_that_has_no_handle(pair: tuple[Program, Program]) -> None:
    one, other = pair
    one.ask("bool(events.setdefault('pool', c_uint64()))")
    assert one.ask("cu.cuMemAllocAsync(byref(events['pool']), c_size_t(MIB), None)") == 0
    assert one.ask("export(events['pool'].value)") == -INVALID_VALUE
    assert one.ask("cu.cuMemAllocManaged(byref(events['pool']), c_size_t(MIB), 1)") == 0
    assert one.ask("export(events['pool'].value)") == -INVALID_VALUE
    assert one.ask("export(4096)") == -INVALID_VALUE
    there = other.ask(f"open_memory('{one.ask(f'export(allocate({MIB}))')}')")
    assert other.ask(f"export({there})") == -INVALID_VALUE, "what was imported cannot be passed on"


def test_handles_cannot_be_guessed(pair: tuple[Program, Program], job: dict[str, str]) -> None:
    one, other = pair
    handles = [bytes.fromhex(one.ask(f"export(allocate({MIB}))")) for _ in range(8)]
    assert len({handle[8:16] for handle in handles}) == len({handle[16:24] for handle in handles}) == 8
    for at in (0, 8, 23, 40, 63):
        wrong = bytearray(handles[0])
        wrong[at] ^= 1
        assert other.ask(f"open_memory('{wrong.hex()}')") == -INVALID_VALUE
    assert other.ask(f"open_memory('{bytes(64).hex()}')") == -INVALID_VALUE
    assert other.ask(f"open_event('{bytes(64).hex()}')") == -MAP_FAILED
    assert other.ask(f"open_event('{handles[0].hex()}')") == -MAP_FAILED, "a handle of memory is none of an event"
    assert other.ask(f"open_memory('{handles[0].hex()}', 2)") == -INVALID_VALUE
    assert folder_of(job).stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder_of(job).iterdir()} == {0o600}


def test_a_link_in_place_of_a_file_is_not_followed(pair: tuple[Program, Program], job: dict[str, str]) -> None:
    one, other = pair
    shared = one.ask(f"export(allocate({MIB}))")
    (note,) = folder_of(job).glob("ipc-*")
    note.rename(folder_of(job) / "note")
    note.symlink_to("note")
    assert other.ask(f"open_memory('{shared}')") == -INVALID_VALUE


def test_nothing_is_left_when_memory_is_freed(pair: tuple[Program, Program], job: dict[str, str]) -> None:
    one, other = pair
    at, made = one.ask(f"allocate({MIB})"), one.ask("event()")
    shared, event = one.ask(f"export({at})"), one.ask(f"export_event({made})")
    assert len(list(folder_of(job).glob("ipc-*"))) == 2
    there, its = other.ask(f"open_memory('{shared}')"), other.ask(f"open_event('{event}')")
    assert (
        other.ask(f"close({there})")
        == other.ask(f"destroy({its})")
        == one.ask(f"free({at})")
        == one.ask(f"destroy({made})")
        == 0
    )
    assert list(folder_of(job).glob("ipc-*")) == []
    assert other.ask(f"open_event('{event}')") == -INVALID_VALUE


def test_memory_of_another_card(pair: tuple[Program, Program]) -> None:
    """The flag enables peer access, as cuCtxEnablePeerAccess does."""
    one, other = pair
    one.ask("on(1)")
    at = one.ask(f"allocate({64 * MIB})")
    one.ask(f"write({at}, 'second')")
    there = other.ask(f"open_memory('{one.ask(f'export({at})')}')")
    assert other.ask(f"read({there}, 6)") == "second"
    assert other.ask("left()") == 0
    assert other.ask("cu.cuCtxEnablePeerAccess(contexts[1], 0)") == 704, "it is enabled already"
    assert other.ask("on(1)") == 0
    assert other.ask("left()") == 64
    number = other.ask(f"[cu.cuPointerGetAttribute(byref(count), 9, c_uint64({there})), count.value]")
    assert number == [0, 1]


def test_a_process_that_does_not_see_the_card(job: dict[str, str]) -> None:
    with (
        Program(job) as one,
        Program({**job, "CUDA_VISIBLE_DEVICES": "0"}) as other,
        Program({**job, "CUDA_VISIBLE_DEVICES": "1"}) as third,
    ):
        one.ask("on(1)")
        at = one.ask(f"allocate({MIB})")
        one.ask(f"write({at}, 'second')")
        shared = one.ask(f"export({at})")
        assert other.ask(f"open_memory('{shared}')") == -INVALID_HANDLE
        assert third.ask(f"read(open_memory('{shared}'), 6)") == "second", "the card is found by its UUID"


def test_cards_without_peer_access() -> None:
    spec = "2xA100-40GB:no-peers"
    environment = plain(spec)
    with simulated_cards.share(cards_of(environment), spec) as made:
        environment.update(made.environment)
        with Program(environment) as one, Program(environment) as other:
            one.ask("on(1)")
            shared = one.ask(f"export(allocate({MIB}))")
            assert other.ask(f"open_memory('{shared}')") == -PEER_ACCESS_UNSUPPORTED
            other.ask("on(1)")
            assert other.ask(f"open_memory('{shared}')") > 0


def test_one_context_of_a_card_has_what_a_process_exports(pair: tuple[Program, Program]) -> None:
    one, other = pair
    first, second = (one.ask(f"export(allocate({MIB}))") for _ in range(2))
    assert other.ask(f"open_memory('{first}')") > 0
    assert other.ask("cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0)") == 0
    assert other.ask(f"open_memory('{second}')") == -INVALID_CONTEXT
    assert other.ask("on(0)") == 0
    assert other.ask(f"open_memory('{second}')") > 0


def test_cards_that_are_not_shared_have_no_handles() -> None:
    with Program({**plain(), "GPUCONF_SIMULATOR_LOG": "1"}, stderr=subprocess.PIPE) as alone:
        assert alone.ask("export(allocate(MIB))") == -NOT_SUPPORTED
        assert alone.ask("export_event(event())") == -NOT_SUPPORTED
        assert alone.ask("[cu.cuDeviceGetAttribute(byref(count), 125, 0), count.value]") == [0, 0]
        _, said = alone.process.communicate()
        assert "gpuconf run --simulate" in said


def test_events_order_the_work_of_two_processes(pair: tuple[Program, Program]) -> None:
    one, other = pair
    at = one.ask(f"allocate({MIB})")
    there = other.ask(f"open_memory('{one.ask(f'export({at})')}')")
    made, stream = one.ask("event()"), one.ask("stream()")
    its = other.ask(f"open_event('{one.ask(f'export_event({made})')}')")
    assert one.ask(f"query({made})") == other.ask(f"query({its})") == 0, "without a record there is nothing to wait for"
    word = one.ask("allocate(8)")
    assert one.ask(f"cu.cuMemsetD8_v2(c_uint64({word}), 0, c_size_t(8))") == 0
    assert one.ask(f"hold({stream}, {word})") == 0
    assert one.ask(f"cu.cuMemsetD8Async(c_uint64({at}), ord('x'), c_size_t(4), c_void_p({stream}))") == 0
    assert one.ask(f"record({made}, {stream})") == 0
    assert one.ask(f"query({made})") == other.ask(f"query({its})") == NOT_READY
    queue = other.ask("stream()")
    assert other.ask(f"wait({queue}, {its})") == 0
    assert (
        other.ask(
            f"cu.cuMemcpyDtoDAsync_v2(c_uint64({there + 100}), c_uint64({there}), c_size_t(4), c_void_p({queue}))"
        )
        == 0
    )
    assert other.ask(f"cu.cuStreamQuery(c_void_p({queue}))") == NOT_READY
    assert one.ask(f"set_word({word})") == 0
    assert other.ask(f"synchronize({its})") == 0
    assert other.ask(f"cu.cuStreamSynchronize(c_void_p({queue}))") == 0
    assert other.ask(f"read({there + 100}, 4)") == "xxxx"
    assert other.ask(f"record({its}, {queue})") == one.ask(f"synchronize({made})") == 0, (
        "the importer may record it, too"
    )


def test_a_record_whose_process_dies_holds_nobody_up(pair: tuple[Program, Program]) -> None:
    one, other = pair
    made, stream, word = one.ask("event()"), one.ask("stream()"), one.ask("allocate(8)")
    its = other.ask(f"open_event('{one.ask(f'export_event({made})')}')")
    one.ask(f"cu.cuMemsetD8_v2(c_uint64({word}), 0, c_size_t(8))")
    assert one.ask(f"hold({stream}, {word})") == one.ask(f"record({made}, {stream})") == 0
    queue = other.ask("stream()")
    assert other.ask(f"wait({queue}, {its})") == 0
    one.kill()
    assert other.ask(f"synchronize({its})") == other.ask(f"cu.cuStreamSynchronize(c_void_p({queue}))") == 0


def test_events_that_have_no_handle(pair: tuple[Program, Program]) -> None:
    one, _ = pair
    assert one.ask("event(4)") == -INVALID_VALUE, "an interprocess event has no times"
    assert one.ask("export_event(event(2))") == -INVALID_HANDLE
    made = one.ask("event()")
    assert one.ask(f"destroy({made})") == 0
    assert one.ask(f"export_event({made})") == -INVALID_HANDLE


def test_physical_memory_goes_to_another_process_by_descriptor(pair: tuple[Program, Program]) -> None:
    """It is charged once, from its creation until its last handle, mapping or descriptor ends."""
    one, other = pair
    memory = one.ask("create(64, 1)")
    at = one.ask(f"map_memory({memory}, 64, 1)")
    one.ask("on(1)"), other.ask("on(1)")
    assert one.ask(f"write({at}, 'kept')") == 0
    assert one.ask(f"send(export_memory({memory}))") == 0
    assert one.ask(f"unmap({at}, 64)") == one.ask(f"release({memory})") == 0
    assert one.ask("left()") == other.ask("left()") == 64, "the descriptor is on its way"
    descriptor = other.ask("receive()")
    first, second = (other.ask(f"import_memory({descriptor})") for _ in range(2))
    assert other.ask(f"os.close({descriptor})") is None
    there = other.ask(f"map_memory({first}, 64, 1)")
    assert other.ask(f"read({there}, 4)") == "kept"
    assert other.ask(f"map_memory({second}, 64, 0)") > 0, "its card is known: the other one is its peer"
    one.kill()
    assert other.ask(f"release({second})") == other.ask(f"release({first})") == 0
    eventually(other, "left() == 64")
    assert other.ask(f"read({there}, 4)") == "kept"
    assert other.ask(f"unmap({there}, 64)") == 0


def test_a_second_import_keeps_the_charge(pair: tuple[Program, Program]) -> None:
    """The first one's end gave up the process's share."""
    one, other = pair
    memory = one.ask("create(64)")
    assert one.ask(f"send(export_memory({memory}))") == 0
    descriptor = other.ask("receive()")
    first, second = (other.ask(f"import_memory({descriptor})") for _ in range(2))
    other.ask(f"os.close({descriptor})")
    assert other.ask(f"release({first})") == 0
    one.kill()
    eventually(other, "left() == 64")
    assert other.ask(f"release({second})") == 0
    assert other.ask("left()") == 0


def test_what_is_no_descriptor_of_memory(pair: tuple[Program, Program], tmp_path: Path) -> None:
    one, _ = pair
    own = tmp_path / "file"
    own.write_bytes(bytes(4096))
    for wrong in (
        f"os.open({str(own)!r}, os.O_RDWR)",
        *"os.memfd_create('gpuconf-simulated-gpux') os.pipe()[0] 999 -1".split(),
    ):
        for function in "import_memory", "import_pool":
            assert one.ask(f"{function}({wrong})") == -UNKNOWN, (function, wrong)
        assert one.ask(f"import_external({wrong}, 2)") == -INVALID_VALUE, wrong


def test_a_pool_of_another_process(pair: tuple[Program, Program]) -> None:
    one, other = pair
    pool = one.ask("make_pool()")
    before = one.ask(f"from_pool({pool}, 64)")
    assert one.ask(f"send(export_pool({pool}))") == 0
    after = one.ask(f"from_pool({pool}, 32)")
    assert one.ask(f"write({before}, 'before')") == one.ask(f"write({after}, 'after')") == 0
    assert one.ask("left()") == other.ask("left()") == 96
    imported = other.ask("import_pool(receive())")
    assert other.ask(f"from_pool({imported}, 2)") == -INVALID_VALUE, "an imported pool allocates nothing"
    assert other.ask(f"cu.cuDeviceSetMemPool(0, c_void_p({imported}))") == INVALID_VALUE
    there, too = (other.ask(f"import_pointer({imported}, '{one.ask(f'describe({at})')}')") for at in (before, after))
    assert other.ask(f"read({there}, 6)") == "before"
    assert other.ask(f"read({too}, 5)") == "after"
    assert other.ask(f"write({too}, 'AFTER')") == 0
    assert one.ask(f"read({after}, 5)") == "AFTER"
    assert other.ask("left()") == 96
    assert other.ask(f"cu.cuMemFreeAsync(c_uint64({too}), None)") == other.ask(f"free({there})") == 0
    assert one.ask(f"read({after}, 5)") == "AFTER"
    assert one.ask(f"free({after})") == one.ask(f"free({before})") == one.ask("cu.cuStreamSynchronize(None)") == 0
    assert one.ask("left()") == other.ask("left()") == 0
    assert one.ask(f"from_pool({pool}, 4)") > 0
    assert other.ask("left()") == 32, "a segment"


def test_the_makers_death_leaves_the_importer_the_pools_memory(pair: tuple[Program, Program]) -> None:
    one, other = pair
    pool = one.ask("make_pool()")
    at = one.ask(f"from_pool({pool}, 64)")
    one.ask(f"write({at}, 'kept')")
    assert one.ask(f"send(export_pool({pool}))") == 0
    imported = other.ask("import_pool(receive())")
    there = other.ask(f"import_pointer({imported}, '{one.ask(f'describe({at})')}')")
    one.kill()
    assert other.ask(f"read({there}, 4)") == "kept"
    eventually(other, "left() == 64")
    assert other.ask(f"end_pool({imported})") == 0
    assert other.ask(f"read({there}, 4)") == "kept"
    assert other.ask("left()") == 64
    assert other.ask(f"free({there})") == 0
    assert other.ask("left()") == 0


def test_pools_that_are_not_exported(pair: tuple[Program, Program]) -> None:
    one, other = pair
    plain_pool, pool = one.ask("make_pool(0, 0)"), one.ask("make_pool()")
    assert one.ask(f"export_pool({plain_pool})") == -INVALID_VALUE
    at = one.ask(f"from_pool({plain_pool}, 2)")
    assert one.ask(f"describe({at})") == one.ask(f"describe(allocate({MIB}))") == -INVALID_VALUE
    assert one.ask("make_pool(0, 16)") == -INVALID_VALUE
    assert one.ask("make_pool(0, 8)") == -NOT_SUPPORTED
    assert one.ask(f"send(export_pool({pool}))") == 0
    imported = other.ask("import_pool(receive())")
    its = one.ask(f"describe(from_pool({pool}, 2))")
    elsewhere = one.ask("describe(from_pool(make_pool(), 2))")
    assert other.ask(f"import_pointer({imported}, '{elsewhere}')") == -INVALID_VALUE, "of another pool"
    beyond = its[:32] + (1 << 40).to_bytes(8, "little").hex() + its[48:]
    assert other.ask(f"import_pointer({imported}, '{beyond}')") == -INVALID_VALUE
    assert one.ask(f"import_pointer({pool}, '{its}')") == -INVALID_VALUE, "it was not imported"


def test_external_memory_of_a_descriptor(pair: tuple[Program, Program]) -> None:
    one, other = pair
    memory = one.ask("create(64)")
    at = one.ask(f"map_memory({memory}, 64)")
    one.ask(f"write({at + 4096}, 'external')")
    assert one.ask(f"send(export_memory({memory}))") == 0
    descriptor = other.ask("receive()")
    assert other.ask(f"import_external({descriptor}, 65)") == -INVALID_VALUE, "more than there is"
    external = other.ask(f"import_external({descriptor}, 64)")
    assert other.ask(f"os.path.exists('/proc/self/fd/{descriptor}')") is False, "the driver owns it now"
    there = other.ask(f"buffer({external}, 4096, 100)")
    assert other.ask(f"read({there}, 8)") == "external"
    assert other.ask(f"read({there + 100}, 1)") == other.ask(f"buffer({external}, {64 * MIB}, 1)") == -INVALID_VALUE
    assert other.ask(f"end_external({external})") == 0
    assert other.ask(f"end_external({external})") == INVALID_HANDLE
    one.kill()
    assert other.ask(f"read({there}, 8)") == "external"
    eventually(other, "left() == 64")
    assert other.ask(f"free({there})") == 0
    assert other.ask("left()") == 0


def test_other_external_memory_and_semaphores_are_refused_by_name(job: dict[str, str]) -> None:
    with Program({**job, "GPUCONF_SIMULATOR_LOG": "1"}, stderr=subprocess.PIPE) as one:
        assert (
            one.ask("[import_external(3, 2, kind) for kind in (4, 9, 10, 0)]")
            == [-NOT_SUPPORTED] * 2 + [-INVALID_VALUE] * 2
        )
        assert one.ask("cu.cuImportExternalSemaphore(byref(c_void_p()), byref(External(1, 3)))") == NOT_SUPPORTED
        _, said = one.process.communicate()
        for name in "a Direct3D 12 heap", "a DMA-BUF descriptor", "cuImportExternalSemaphore of a descriptor":
            assert name in said


def test_garbage_before_cuinit() -> None:
    """As NVIDIA's driver answers: tests_py/driver."""
    code = """
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
out, at = Handle(), ctypes.c_uint64()
print(cu.cuIpcGetMemHandle(None, ctypes.c_uint64(1)), cu.cuIpcGetMemHandle(ctypes.byref(out), ctypes.c_uint64(1)),
      cu.cuIpcOpenMemHandle_v2(ctypes.byref(at), out, 0), cu.cuIpcCloseMemHandle(ctypes.c_uint64(1)),
      cu.cuIpcOpenEventHandle(None, out), cu.cuIpcOpenEventHandle(ctypes.byref(at), out))
"""
    told = script.completed([sys.executable, "-c", code, str(LIBRARY)], env=plain(), check=True)
    assert told.stdout.split() == ["1", "3", "1", "3", "1", "3"]
    assert ctypes.sizeof(ctypes.c_void_p) == 8
