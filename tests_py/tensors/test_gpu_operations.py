"""Operations on the GPU of a CUDA driver, through cuBLAS, over a driver and a cuBLAS that need no GPU.

The libraries are those of tests_go/machine/fakecuda and tests_go/machine/fakecublas: built here, found by the loader
and among the wheels like the real ones, and strict about CUDA's and cuBLAS's rules. Each test runs its program in a new
process, because a loaded library stays loaded.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import run_programs
from script import execute

ROOT = Path(__file__).resolve().parents[2]
MACHINE = ROOT / "tests_go" / "machine"


def listing(name: str) -> str:
    """A listing of TensorFlow's page "Using GPUs"."""
    source = run_programs.read(f"using_gpus_{name}").source
    return run_programs.changed(source.partition("import gpuconf\n")[0])  # after it are figures of the simulator


PRELUDE = """
import ctypes, gc, runpy, sys
import numpy as np
import gpuconf as tf
import gpuconf.compat.v1 as tf1
MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
driver.fakecuda_live.argtypes = driver.fakecuda_count.argtypes = [ctypes.c_char_p]
driver.fakecuda_count.restype = driver.fakecuda_fired.restype = ctypes.c_ulong
driver.fakecuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_int]
driver.fakecuda_delay(50)  # a consumer that does not wait reads garbage
LIVE = (b"allocations", b"host", b"handles", b"mappings", b"reservations", b"streams", b"events", b"retains")
def live():
    return {what.decode(): driver.fakecuda_live(what) for what in LIVE if driver.fakecuda_live(what)}
def blas():
    library = ctypes.CDLL("libcublas.so.12", mode=4)  # the loaded one
    library.fakecublas_complaint.restype = ctypes.c_char_p
    return library
def books():
    stats = [tf.memory.stats(gpu.name) for gpu in tf.config.list_logical_devices("GPU")]
    return [(one.live_blocks, one.bytes_in_use) for one in stats]
def end():
    gc.collect()
    assert set(books()) <= {(0, 0)}, books()
    assert blas().fakecublas_complaint() == b""
    tf.reset()
    assert (live(), blas().fakecublas_live()) == ({}, 0)
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver on the loader's path, and cuBLAS among the wheels of a package folder."""
    place = tmp_path_factory.mktemp("gpu")
    wheel = place / "site" / "nvidia" / "cublas" / "lib"
    wheel.mkdir(parents=True)
    subprocess.run([sys.executable, MACHINE / "fakecuda" / "build.py", place], check=True, capture_output=True)
    subprocess.run([sys.executable, MACHINE / "fakecublas" / "build.py", wheel], check=True, capture_output=True)
    return place


def run(folder: Path, program: str, *, cublas: bool = True, **environment: str) -> tuple[str, str]:
    """Run a program, which must succeed. Returns its output and its standard error."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GPUCONF_", "TF_", "CUDA_", "FAKECU", "LD_", "PYTHONPATH"))
    }
    kept["LD_LIBRARY_PATH"] = str(folder)
    if cublas:
        kept["PYTHONPATH"] = str(folder / "site")
    done = execute([sys.executable, "-X", "dev", "-W", "error", "-c", PRELUDE + program], env=kept | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_eager_operations_compute_on_the_gpu(folder: Path) -> None:
    out, err = run(
        folder,
        """
rng = np.random.default_rng(1)
a, b = rng.integers(-9, 9, (30, 20)), rng.integers(-9, 9, (20, 40))
for dtype in (np.float32, np.float64):
    x, y = tf.constant(a.astype(dtype)), tf.constant(b.astype(dtype))
    z = tf.matmul(x, y)
    assert z.device == z.backing_device == "/job:localhost/replica:0/task:0/device:GPU:0"
    assert z.dtype == dtype and (z.numpy() == a @ b).all()
    assert (tf.matmul(y, x, transpose_a=True, transpose_b=True).numpy() == b.T @ a.T).all()
    assert (tf.add_n([z, z, z]).numpy() == 3 * (a @ b)).all()
    assert ((z + 1).numpy() == a @ b + 1).all()
    assert ((z + tf.constant(b[0].astype(dtype))).numpy() == a @ b + b[0]).all()
    assert ((z + tf.constant((a @ b)[:, :1].astype(dtype))).numpy() == a @ b + (a @ b)[:, :1]).all()
    sums = tf.matmul(tf.constant(np.zeros((2, 0), dtype)), tf.constant(np.zeros((0, 3), dtype))).numpy()
    assert sums.tolist() == [[0.0] * 3] * 2
    assert tf.add(tf.constant(np.zeros((0, 3), dtype)), tf.constant(np.zeros((0, 3), dtype))).shape == (0, 3)
    odd = tf.matmul(tf.constant(np.array([[0, np.inf]], dtype)),
                    tf.constant(np.array([[np.nan, 1], [1, 0]], dtype))).numpy()
    assert np.isnan(odd).all(), odd
    del x, y, z
i = tf.matmul(tf.constant([[2, 3]]), tf.constant([[4], [5]]))
print(i.dtype, i.numpy().tolist(), i.device[-5:])
print([driver.fakecuda_count(name) > 0 for name in (b"cublasSgemm_v2", b"cublasDgeam")],
      driver.fakecuda_count(b"cublasCreate"))
del i
end()
""",
    )
    assert out.splitlines() == ["int32 [[23]] CPU:0", "[True, True] 1"]
    assert err == ""


def test_copies_between_gpus_and_the_cpu(folder: Path) -> None:
    out, _ = run(
        folder,
        """
with tf.device("GPU:1"):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
with tf.device("GPU:0"):
    y = tf.identity(x) @ x
with tf.device("CPU:0"):
    z = y + x
print([t.device[-5:] for t in (x, y, z)], z.numpy().tolist(), books())
del x, y, z
end()
""",
        FAKECUDA_GPUS="2",
    )
    assert out == "['GPU:1', 'GPU:0', 'CPU:0'] [[8.0, 12.0], [18.0, 26.0]] [(1, 256), (1, 256)]\n"


def test_logical_gpus_keep_their_limits(folder: Path) -> None:
    """The temporary memory of cuBLAS is within the limit of the logical GPU, and so is counted."""
    out, _ = run(
        folder,
        """
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0],
    [tf.config.LogicalDeviceConfiguration(memory_limit=1), tf.config.LogicalDeviceConfiguration(memory_limit=20)])
small, large = np.ones((64, 64), np.float32), np.ones((256, 256), np.float32)
with tf.device("GPU:0"):
    x = tf.constant(small)
    y = x @ x
    print(y.numpy()[0, 0], tf.memory.stats("GPU:0").peak_bytes_in_use - 2 * 16384)
    a = tf.constant(large)
    try:
        a @ a
    except MemoryError as error:
        print(error)
    print(books())
with tf.device("GPU:1"):
    a = tf.constant(large)
    print((a @ a).numpy()[0, 0], tf.memory.stats("GPU:1").peak_bytes_in_use - 2 * 262144)
print(driver.fakecuda_count(b"cublasCreate"))
del a, x, y
end()
""",
    )
    lines = out.splitlines()
    assert lines[0] == "64.0 131072"
    assert "an operation needs 2097152 bytes of scratch memory" in out
    assert "GPU:0: out of memory" in out
    assert lines[-3:] == ["[(3, 294912), (0, 0)]", "256.0 2097152", "1"]


LISTING_MACHINES = {
    "log_device_placement": (1, 0, "[[22. 28.]\n [49. 64.]]"),
    "place_manually": (1, 0, "[[22. 28.]\n [49. 64.]]"),
    "choose_one_gpu": (4, 2, "[[22. 28.]\n [49. 64.]]"),
    "soft_placement": (1, 0, "[[22. 28.]\n [49. 64.]]"),
    "use_several_gpus": (4, 3, "[[ 44.  56.]\n [ 98. 128.]]"),
}


@pytest.mark.parametrize("name", LISTING_MACHINES)
def test_the_page_using_gpus_runs_on_the_driver(folder: Path, name: str) -> None:
    gpus, where, result = LISTING_MACHINES[name]
    out, err = run(
        folder,
        f"""
exec({listing(name)!r}, {{}})
print(driver.fakecuda_count(b"cublasSgemm_v2"), file=sys.stderr)
end()
""",
        FAKECUDA_GPUS=str(gpus),
    )
    assert out == result + "\n"
    assert f"MatMul{'_1' if gpus == 4 and where == 3 else ''}: /job:localhost/replica:0/task:0/gpu:{where}\n" in err
    assert "/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: NVIDIA Fake 1GB, pci bus id: 0000:1a:00.0" in err
    assert err.endswith("\n2\n" if name == "use_several_gpus" else "\n1\n")


def test_a_fraction_and_growth_bound_a_session(folder: Path) -> None:
    out, _ = run(
        folder,
        f"""
exec({listing("memory_fraction")!r}, listed := dict())
session = listed["session"]
session.run(tf1.constant([1.0]) + tf1.constant([1.0]))
print([tf.memory.stats("GPU:%d" % n).bytes_limit // MIB for n in (0, 1)], driver.fakecuda_live(b"allocations"))
session.close()
tf.reset()
exec({listing("allow_growth")!r}, listed := dict())
session = listed["session"]
print(live().get("mappings", 0))
session.run(tf1.matmul([[1.0]], [[1.0]]))
print(live()["mappings"], tf.memory.stats().bytes_reserved // MIB)
session.run(tf1.identity(tf1.constant(1.0, shape=[4 << 20])))
print(tf.memory.stats().bytes_reserved >= 16 * MIB)
session.close()
end()
""",
        FAKECUDA_GPUS="2",
    )
    assert out.splitlines() == ["[409, 409] 1", "0", "1 2", "True"]


def test_a_session_that_wants_no_gpu_makes_no_context(folder: Path) -> None:
    """The old way to keep a program off the GPUs, whose contexts take hundreds of MiB each. Later programs get them."""
    out, _ = run(
        folder,
        """
with tf1.Session(config=tf1.ConfigProto(device_count={"GPU": 0})) as session:
    print(session.run(tf1.matmul([[2.0]], [[3.0]])), live())
    with tf1.Session() as other:
        print(other.run(tf1.matmul([[2.0]], [[3.0]])), live()["retains"], len(tf.config.list_logical_devices("GPU")))
    print(session.run(tf1.matmul([[2.0]], [[4.0]])), driver.fakecuda_count(b"cublasSgemm_v2"))
tf.reset()
with tf1.Session(config=tf1.ConfigProto(device_count={"GPU": 0})) as session:
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)  # still possible
    x = tf.constant([[2.0]])
    print(x.device[-5:], live()["retains"], session.run(tf1.constant(7.0)))
    del x
end()
""",
        FAKECUDA_GPUS="2",
    )
    assert out.splitlines() == ["[[6.]] {}", "[[6.]] 2 2", "[[8.]] 1", "GPU:0 2 7.0"]


def test_without_cublas_the_error_says_what_to_install(folder: Path) -> None:
    out, _ = run(
        folder,
        """
x = tf.constant([[1.0]])  # needs no cuBLAS
for compute in (lambda: x @ x, lambda: x + x):
    try:
        compute()
    except tf.errors.UnavailableError as error:
        print(error)
with tf.device("CPU:0"):
    print((x @ x).numpy())
print(books())
with tf1.Session() as session:
    try:
        session.run(tf1.matmul([[1.0]], [[1.0]], name="product"))
    except tf.errors.UnavailableError as error:
        print(error)
del x
gc.collect()
print(books())
tf.reset()
print(live())
""",
        cublas=False,
    )
    lines = out.splitlines()
    for line in lines[:2]:
        assert line.startswith("operations on a GPU need cuBLAS (libcublas.so.12: cannot open ")
        assert "): pip install 'gpuconf[cublas-cu12]', or run them on the CPU" in line
    assert lines[0].endswith("[Op:MatMul] name: ")
    assert lines[2:4] == ["[[1.]]", "[(1, 256)]"]
    assert "[[Node: product = MatMul" in out
    assert lines[-2:] == ["[(0, 0)]", "{}"]


def test_what_the_errors_name_is_an_extra() -> None:
    candidates = (ROOT / "gocore" / "machine" / "cublas" / "library_cgo.go").read_text()
    assert '"gpuconf[cublas-cu%d]"' in candidates
    extras = importlib.metadata.metadata("gpuconf").get_all("Provides-Extra") or []
    assert {"cublas-cu11", "cublas-cu12", "cublas-cu13"} <= set(extras)


WALK = """
def work():
    if not tf.config.list_physical_devices("GPU"):
        raise RuntimeError("a driver that does not start is a machine without GPUs")
    tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf1.Session() as session:
        assert session.run(tf1.add_n([tf1.matmul([[1.0]], [[2.0]]), tf1.constant([[3.0]])])).tolist() == [[5.0]]
    return ((x @ x) + 1.0).numpy().tolist()
kinds, n = set(), 0
while True:
    driver.fakecuda_fail(b"*", n, 13)
    fired = driver.fakecuda_fired()
    try:
        assert work() == [[8.0, 11.0], [16.0, 23.0]]
        tf.reset()
    except (RuntimeError, MemoryError) as error:
        kinds.add(type(error).__name__)
    if driver.fakecuda_fired() == fired:
        break
    driver.fakecuda_clear()
    tf1.reset_default_graph()
    gc.collect()
    tf.reset()
    assert live() == {}, (n, live())
    n += 1
driver.fakecuda_clear()
print(n > 60, sorted(kinds))
work()
end()
"""


def test_every_call_may_fail_and_nothing_leaks(folder: Path) -> None:
    out, _ = run(folder, WALK)
    assert out.startswith("True [")
    assert "InternalError" not in out


def test_other_libraries_take_a_tensor_of_a_gpu(folder: Path) -> None:
    """With DLPack and the consumer's stream, and with the CUDA array interface.

    The consumer owns the memory until it frees it.
    """
    out, _ = run(
        folder,
        f"""
sys.path.insert(0, {str(Path(__file__).parents[1] / "memory")!r})
from test_interchange import Managed, Versioned, drop, take
with tf.device("GPU:1"):
    x = tf.matmul(np.ones((2, 3)), np.ones((3, 4)))
print(x.__dlpack_device__(), tf.constant([1]).__dlpack_device__(), np.from_dlpack(tf.constant([1])).tolist())
told = x.__cuda_array_interface__
address = told["data"][0]
print(told == dict(shape=(2, 4), typestr="<f8", data=(address, True), strides=None, stream=None, version=3))
newest = dict(max_version=(1, 1), stream=-1, copy=False)
for kind, asked in ((Managed, {{}}), (Versioned, dict(max_version=(1, 0), stream=1)), (Versioned, newest)):
    managed = take(x.__dlpack__(dl_device=(2, 1), **asked))
    tensor = managed.tensor
    assert type(managed) is kind and (kind is Managed or managed.flags == 1), "read-only, where that can be said"
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.byte_offset) == (address, 2, 1, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (2, 64, 1)
    assert (tensor.ndim, tensor.shape[:2], tensor.strides[:2]) == (2, [2, 4], [4, 1])
    drop(managed)
for bad in (dict(stream=0), dict(stream=-2), dict(stream="1"), dict(dl_device=(1, 0)), dict(dl_device=(2, 0)),
            dict(copy=True)):
    try:
        x.__dlpack__(**bad)
    except (BufferError, ValueError) as error:
        print(type(error).__name__, error)

def address_of_another():
    with tf.device("GPU:1"):
        return tf.constant(np.ones((2, 4))).__cuda_array_interface__["data"][0]

context, stream, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
driver.cuCtxPushCurrent_v2(context)
driver.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
driver.cuMemHostAlloc(ctypes.byref(word), ctypes.c_size_t(8), 3)
managed = take(x.__dlpack__(stream=stream.value, max_version=(1, 0)))
driver.cuStreamWaitValue64_v2(stream, word, ctypes.c_uint64(1), 0)  # the consumer's work takes long
del x
print(books()[1], end=" ")
drop(managed)
print(books()[1], address_of_another() == address, end=" ")
ctypes.c_uint64.from_address(word.value).value = 1
driver.cuStreamSynchronize(stream)
with tf.device("GPU:1"):
    y = tf.constant(np.ones((2, 4)))
address, managed = y.__cuda_array_interface__["data"][0], take(y.__dlpack__(stream=-1))
del y
drop(managed)
print(address_of_another() == address)  # no pending work was reported
driver.cuMemFreeHost(word)
driver.cuStreamDestroy_v2(stream)
driver.cuCtxPopCurrent_v2(ctypes.byref(context))
driver.cuDevicePrimaryCtxRelease_v2(1)

for value in (np.float32(3), np.zeros((0, 3), np.float32)):
    with tf.device("GPU:0"):
        y = tf.identity(tf.constant(value))
    tensor = take(capsule := y.__dlpack__()).tensor
    print(tensor.ndim, tensor.shape[: tensor.ndim], bool(tensor.data), tensor.device_id)
    drop(take.__globals__["Managed"].from_address(ctypes.addressof(tensor)))
del y
end()
""",
        FAKECUDA_GPUS="2",
    )
    lines = out.splitlines()
    assert lines[:2] == ["(2, 1) (1, 0) [1]", "True"]
    assert [line.partition(" ")[0] for line in lines[2:8]] == ["InvalidArgumentError"] * 3 + ["BufferError"] * 3
    assert lines[8:] == [
        "(1, 256) (0, 0) False True",
        "0 [] True 0",
        "2 [0, 3] False 0",
    ]


def test_a_library_that_was_loaded_before_is_used(folder: Path) -> None:
    """Like PyTorch's class, whichever was imported first."""
    wheel = folder / "site" / "nvidia" / "cublas" / "lib"
    out, _ = run(
        folder,
        f"""
for name in ("libcublasLt.so.12", "libcublas.so.12"):
    ctypes.CDLL({str(wheel)!r} + "/" + name)
print((tf.constant([[2.0]]) @ tf.constant([[3.0]])).numpy())
end()
""",
        cublas=False,
    )
    assert out == "[[6.]]\n"
