"""``gpuconf plan -- PROGRAM`` with the real JAX: XLA compiles for cards without having them.

`make test-jax-plan` installs JAX with its plugin for CUDA.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import no_gpu
import pytest
import script
from no_gpu import answer, planned

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason="JAX's plugin for CUDA is not installed; make test-jax-plan does that",
)
MIB, GIB = 1 << 20, 1 << 30

STEP = """
import functools, sys
import jax, jax.numpy as jnp

def loss(layers, x):
    for layer in layers:
        x = jnp.tanh(x @ layer)
    return jnp.mean(x**2)

@jax.jit
def step(layers, x):
    value, gradients = jax.value_and_grad(loss)(layers, x)
    return [layer - 0.1 * gradient for layer, gradient in zip(layers, gradients)], value

layers = [jnp.ones((8192, 8192)) for _ in range(4)]
for number in range(1000):
    layers, value = step(layers, jnp.ones((int(sys.argv[1]), 8192)))
    print(float(value), flush=True)
"""


def refused(folder: Path, program: str, gpu: str = "A100-40GB") -> str:
    done = planned(folder, program, "--gpu", gpu)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()[-1].removeprefix("gpuconf plan: ")


def test_the_peak_is_what_xla_allocates(tmp_path: Path) -> None:
    """The layers, new layers and the batch by arithmetic, and XLA's temporaries as figures from another day."""
    found = answer(tmp_path, STEP, "--gpu", "H100-80GB", words=("train.py", "8192"))
    assert (found["ran"]["ended"], found["ran"]["optimizer_steps"], found["why_no_verdict"]) == ("repeated", 4, "")
    (step,) = (one for one in found["functions"] if one["name"] == "step")
    layers, batch = 4 * 8192 * 8192 * 4, 8192 * 8192 * 4
    assert step["arguments"] == layers + batch
    assert layers <= step["outputs"] < layers + MIB
    assert step["peak"] == step["arguments"] + step["outputs"] - step["aliased"] + step["temporary"]
    assert abs(step["peak"] - 2.75 * GIB) < MIB
    (process,) = found["processes"]
    assert step["peak"] <= process["allocated"] <= step["peak"] + MIB
    assert process["allocated"] <= process["reserved"] <= process["allocated"] + 300 * MIB  # fragments
    assert process["parts"]["arrays that calls update"] == 2 * layers
    assert process["parts"]["temporaries of compiled functions"] == step["temporary"]
    assert any("train.py:17" in line for line in process["lines"])


def test_four_times_the_batch(tmp_path: Path) -> None:
    step = answer(tmp_path, STEP, "--gpu", "H100-80GB", words=("train.py", "32768"))["functions"][0]
    assert abs(step["peak"] - 8 * GIB) < MIB  # of it the batch and four activations, 1 GiB each, and a gradient of one


def test_the_text_has_80_columns_and_a_verdict_for_each_card(tmp_path: Path) -> None:
    done = planned(tmp_path, STEP, "--gpu", "T4,L4,H100-80GB", words=("train.py", "72000"))
    assert done.returncode == 4, done.stderr
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines if "train.py" not in line) <= 80
    assert lines[-2] == "not seen: what comes after the steps that repeat: see --all"
    assert lines[-1] == "depends on L4, H100-80GB; does not fit on T4"
    assert "unproven: XLA publishes no description of T4, L4, and got gpuconf's" in " ".join(map(str.strip, lines))
    assert set(no_gpu.printed(done)) == {"0.0"}  # nothing large is computed


def test_a_program_that_ran_to_its_end_was_seen(tmp_path: Path) -> None:
    program = STEP.replace("range(1000)", "range(20)")
    found = answer(tmp_path, program, "--gpu", "H100-80GB", "--all", words=("train.py", "8192"))
    assert (found["ran"]["ended"], found["unseen"]) == ("program", [])
    assert {one["verdict"] for one in found["cards"]} == {"fits"}


def test_values_are_computed_if_they_are_wanted(tmp_path: Path) -> None:
    program = STEP.replace("8192", "512").replace("ones((512, 512)) for", "ones((512, 512)) / 512 for")
    done = planned(tmp_path, program, "--gpu", "A10", "--values", "cpu", words=("train.py", "4096"))
    assert done.returncode == 4, done.stderr  # it repeats, and its end is not seen
    assert 0.1 < float(no_gpu.printed(done)[0]) < 1


def test_an_allocator_that_grows_gives_blocks_more_than_they_need(tmp_path: Path) -> None:
    program = 'import os\nos.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"\n' + STEP
    (grows,) = answer(tmp_path, program, "--gpu", "H100-80GB", words=("train.py", "64"))["processes"]
    (taken,) = answer(tmp_path, STEP, "--gpu", "H100-80GB", words=("train.py", "64"))["processes"]
    assert taken["allocated"] <= grows["allocated"] <= grows["reserved"]
    assert taken["least"]["default"] < grows["least"]["default"]
    assert taken["allocated"] <= taken["compiling"]
    assert grows["reserved"] > taken["reserved"] + GIB  # its regions double


def test_donated_arguments_are_taken_over(tmp_path: Path) -> None:
    kept = answer(tmp_path, STEP, "--gpu", "H100-80GB", words=("train.py", "64"))
    program = STEP.replace("@jax.jit", "@functools.partial(jax.jit, donate_argnums=0)")
    donated = answer(tmp_path, program, "--gpu", "H100-80GB", words=("train.py", "64"))
    assert donated["functions"][0]["aliased"] == 4 * 8192 * 8192 * 4
    saved = kept["processes"][0]["allocated"] - donated["processes"][0]["allocated"]
    assert saved > 0.9 * GIB


def test_arrays_outside_of_a_call_count(tmp_path: Path) -> None:
    program = """
    import jax, jax.numpy as jnp, numpy as np
    held = jnp.ones((64, 1 << 20))
    batch = np.ones((32, 1 << 20))  # float64, which becomes float32 on the card
    print(jax.jit(lambda x: x * 2)(batch).shape)
    """
    (process,) = answer(tmp_path, program, "--gpu", "A10")["processes"]
    assert process["allocated"] == (256 + 128 + 128) * MIB
    assert process["parts"] == {"other arrays": 384 * MIB, "arrays from the host": 128 * MIB}


def test_shardings_over_several_cards(tmp_path: Path) -> None:
    program = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P
    assert jax.device_count() == len(jax.local_devices()) == 4
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    weights = jax.device_put(jnp.ones((4096, 4096)), NamedSharding(mesh, P()))
    x = jax.device_put(np.ones((16384, 4096), np.float32), NamedSharding(mesh, P("data")))

    @jax.jit
    def step(weights, x):
        return weights - jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(weights)

    for _ in range(9):
        weights = step(weights, x)
    assert weights.sharding == NamedSharding(mesh, P())
    """
    found = answer(tmp_path, program, "--gpu", "4xA100-40GB")
    step = next(one for one in found["functions"] if one["name"] == "step")
    assert (step["gpus"], step["arguments"]) == (4, 2 * 64 * MIB)  # on each: the weights, and a quarter of the batch
    assert [one["gpu"] for one in found["processes"]] == [0, 1, 2, 3]
    assert len({one["allocated"] for one in found["processes"][1:]}) == 1  # the first made the weights
    assert "NCCL" in {one["what"] for one in found["beside"]}


def test_a_program_sees_the_card(tmp_path: Path) -> None:
    program = """
    import jax, jax.numpy as jnp
    jax.config.update("jax_platforms", "cuda")
    card, = jax.devices("gpu")
    assert jax.devices() == jax.devices("cuda") == [card] and jax.default_backend() == "gpu"
    assert (card.platform, card.device_kind) == ("gpu", "NVIDIA A10")
    host, = jax.devices("cpu")
    assert host.platform == "cpu" and host not in jax.devices()
    with jax.default_device(host):
        there = jnp.ones((1 << 24,))
    assert card.memory_stats()["bytes_in_use"] == 0
    here = jax.device_put(there, card)
    assert card.memory_stats()["bytes_in_use"] == 64 << 20
    here.delete()
    del here
    assert card.memory_stats()["bytes_in_use"] == 0
    assert card.memory_stats()["peak_bytes_in_use"] == card.memory_stats()["largest_alloc_size"] == 64 << 20
    assert 16 << 30 < card.memory_stats()["bytes_limit"] < 17 << 30  # 75 %
    """
    found = answer(tmp_path, program, "--gpu", "A10")
    assert found["ran"]["status"] == 0
    assert found["processes"][0]["allocated"] == 64 * MIB


def test_flax_and_optax_run_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("flax", reason="Flax is not installed; make test-jax-plan does that")
    program = """
    import jax, jax.numpy as jnp, optax
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(2048, 4096, rngs=rngs), nnx.Linear(4096, 16, rngs=rngs)
            self.drop = nnx.Dropout(0.1, rngs=rngs)
        def __call__(self, x):
            return self.last(self.drop(nnx.relu(self.first(x))))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, x):
        value, gradients = nnx.value_and_grad(lambda model: jnp.mean(model(x) ** 2))(model)
        optimizer.update(model, gradients)
        return value

    for _ in range(1000):
        train_step(model, optimizer, jnp.ones((256, 2048)))
    """
    found = answer(tmp_path, program, "--gpu", "A10")
    assert found["ran"]["ended"] == "repeated"
    parameters = (2048 * 4096 + 4096 + 4096 * 16 + 16) * 4
    step = found["functions"][0]
    assert step["name"] == "train_step"
    assert 3 * parameters <= step["arguments"] < 3 * parameters + 3 * MIB  # with Adam's two moments, and the batch


def test_kernels_and_custom_calls_are_compiled_or_refused_by_name(tmp_path: Path) -> None:
    call = """
    import jax, jax.numpy as jnp
    f = jax.jit(lambda x: jax.ffi.ffi_call("my_kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    f(jnp.ones((1024, 1024)))
    """
    assert refused(tmp_path, call).startswith("XLA cannot compile <lambda> (train.py:4) without a GPU: ")
    assert "my_kernel" in refused(tmp_path, call)
    attention = """
    import jax, jax.numpy as jnp
    q = jnp.ones((2, 1024, 8, 64), jnp.bfloat16)
    jax.nn.dot_product_attention(q, q, q, implementation="cudnn")
    """
    line = "JAX cannot compile attention by cuDNN without a GPU (__cudnn$fmhaSoftmax): leave out implementation='cudnn'"
    assert refused(tmp_path, attention) == line
    pallas = """
    import jax, jax.numpy as jnp
    from jax.experimental import pallas as pl

    def kernel(x, out):
        out[...] = x[...] * 2

    spec = pl.BlockSpec((64, 64), lambda i, j: (i, j))
    shape = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    double = pl.pallas_call(kernel, out_shape=shape, grid=(16, 16), in_specs=[spec], out_specs=spec)
    jax.jit(double)(jnp.ones((1024, 1024)))
    """
    if importlib.util.find_spec("jax._src.pallas.triton.gpu_info"):
        assert answer(tmp_path, pallas, "--gpu", "A100-40GB")["cards"][0]["verdict"] == "fits"
    else:  # its instructions are those of Hopper
        assert "without a GPU: it has a kernel of Pallas" in refused(tmp_path, pallas)
    assert answer(tmp_path, pallas, "--gpu", "H100-80GB")["cards"][0]["verdict"] == "fits"


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            "import sys; sys.modules['jax_plugins.xla_cuda13'] = sys.modules['jax_plugins.xla_cuda12'] = None\n"
            "import jax; jax.numpy.ones(1 << 20)",
            "gpuconf plan of a JAX program needs JAX's plugin for CUDA (import of jax_plugins.xla_cuda13 halted; "
            "None in sys.modules): pip install 'gpuconf[jax-plan]'",
        ),
        ("import jax", "the program imports JAX, and computes nothing with it"),
        (
            "import os; os.environ['JAX_PLATFORMS'] = 'cpu'\nimport jax; jax.numpy.ones(1 << 20)",
            "the program runs JAX on the CPU: it chooses jax_platforms or JAX_PLATFORMS",
        ),
        ("import jax; jax.jit(lambda x: x + 'a')(1)", "the program failed: TypeError: "),
    ],
    ids=["no plugin", "nothing", "chooses the CPU", "fails"],
)
def test_what_cannot_be_rehearsed_is_one_line(tmp_path: Path, program: str, line: str) -> None:
    assert refused(tmp_path, program).startswith(line)


def test_a_card_that_cuda_no_longer_compiles_for(tmp_path: Path) -> None:
    program = "import jax; jax.numpy.ones(1 << 20)"
    line = "V100-16GB: CUDA 13, for which this JAX is built, needs compute capability 7.5"
    assert refused(tmp_path, program, "V100-16GB") == line


def test_the_largest_batch(tmp_path: Path) -> None:
    program = STEP.replace("8192", "4096")
    done = planned(
        tmp_path, program, "--gpu", "T4", "--largest", "BATCH=8192..8193", "--json", words=("train.py", "{BATCH}")
    )
    found = json.loads(done.stdout)
    assert [(one["setting"], one["largest"]) for one in found["largest"]] == [
        ("default", 8193),
        ("MEM_FRACTION=.95", 8193),
    ]
    assert [one["value"] for one in found["tried"]] == [8192, 8193]


def test_checkpoints_and_recordings(tmp_path: Path) -> None:
    program = """
    import jax, jax.numpy as jnp, numpy as np
    x = jnp.ones((1 << 22,))
    np.save("weights.npy", x)
    """
    (tmp_path / "weights.npy").write_bytes(b"mine")
    done = planned(tmp_path, program, "--gpu", "A10", "--record", "steps.csv")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "weights.npy").read_bytes() == b"mine"
    assert f"unchanged: {tmp_path}/weights.npy" in " ".join(done.stdout.split())
    command = [sys.executable, "-m", "gpuconf", "plan", "steps.csv", "--policy", "regions", "--json"]
    again = json.loads(script.completed(command, check=True, cwd=tmp_path).stdout)
    assert again["usages"][0]["peak_bytes_in_use"] == 16 * MIB + 256  # and a 1


def test_orbax_saves_and_restores(tmp_path: Path) -> None:
    program = """
    import os
    import jax, jax.numpy as jnp
    import orbax.checkpoint as orbax
    step = jax.jit(lambda layers: [layer + layer @ layer for layer in layers])
    layers = [jnp.ones((1024, 1024)) for _ in range(2)]
    manager = orbax.CheckpointManager(os.path.abspath("kept"), options=orbax.CheckpointManagerOptions(max_to_keep=2))
    for number in range(3):
        layers = step(layers)
        manager.save(number, args=orbax.args.StandardSave(layers))
    manager.wait_until_finished()
    again = manager.restore(manager.latest_step(), args=orbax.args.StandardRestore(layers))
    print("steps", manager.all_steps(), [one.shape for one in again])
    """
    done = planned(tmp_path, program, "--gpu", "A10")
    assert done.returncode == 0, done.stderr
    assert "steps [1, 2] [(1024, 1024), (1024, 1024)]" in done.stderr
    assert not (tmp_path / "kept").exists()


def helps(found: dict[str, Any]) -> dict[str, int]:
    return {one["setting"]: one["saves"] for one in found["helps"] if one["how"] == "tried by a run"}


def test_changes_that_help_a_program_that_does_not_fit_are_tried(tmp_path: Path) -> None:
    """Each in a run of its own: momentum is taken over, and each layer forgets all but what the next one needs."""
    program = """
    import jax, jax.numpy as jnp

    def loss(layers, x, deep):
        assert deep is True  # a flag stays one
        def layer(x, w):
            return x + jnp.sin(jnp.tanh(jnp.sin(x @ w) @ w) @ w), None
        return jnp.mean(jax.lax.scan(layer, x, layers)[0] ** 2)

    @jax.jit
    def step(layers, momentum, x):
        gradients = jax.grad(loss)(layers, x, deep=True)
        momentum = 0.9 * momentum + gradients
        return layers - 0.1 * momentum, momentum

    layers = jnp.ones((8, 2048, 2048))
    momentum = jnp.zeros_like(layers)
    for _ in range(1000):
        layers, momentum = step(layers, momentum, jnp.ones((1024, 2048)))
    """
    found = answer(tmp_path, program, "--gpu", "T4:512MiB")
    saved = helps(found)
    assert list(saved) == [
        "jax.checkpoint of the bodies of jax.lax.scan",
        "donate_argnames=['layers', 'momentum'] in jax.jit of step (train.py:19)",
    ]
    before = found["processes"][0]["allocated"]
    assert 0 < min(saved.values()) < max(saved.values()) < before
    assert answer(tmp_path, program, "--gpu", "H100-80GB")["helps"] == []


def test_a_change_with_which_the_program_fails_is_no_help(tmp_path: Path) -> None:
    """The step's first argument is used again, so it cannot be donated. The loss can forget all but its products."""
    program = """
    import jax, jax.numpy as jnp

    def loss(layers, x, deep):
        for w in layers if deep else layers[:1]:
            shares = jax.nn.softmax(x @ jnp.swapaxes(x @ w, 1, 2))
            x = x + jax.nn.gelu(shares @ x @ w)
        return jnp.mean(x**2)

    @jax.jit
    def step(layers, x):
        gradients = jax.grad(loss)(layers, x, deep=True)
        return [w - 0.1 * gradient for w, gradient in zip(layers, gradients)]

    layers = [jnp.ones((256, 256)) for _ in range(4)]
    for _ in range(1000):
        before = layers
        layers = step(layers, jnp.ones((16, 2048, 256)))
        step(before, jnp.ones((16, 2048, 256)))
    """
    done = planned(tmp_path, program, "--json", "--gpu", "T4:1GiB")
    saved = helps(json.loads(done.stdout))
    assert list(saved) == [
        "jax.checkpoint of the loss, with policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable",
    ]
    assert saved.popitem()[1] > GIB
    assert "has been deleted" not in done.stderr


def test_an_array_that_a_call_took_over_is_gone(tmp_path: Path) -> None:
    program = """
    import functools, jax, jax.numpy as jnp
    step = functools.partial(jax.jit, donate_argnums=0)(lambda x: x @ x)
    large = jnp.ones((4096, 4096))
    step(large)
    step(large)
    """
    found = answer(tmp_path, program, "--gpu", "A100-40GB")
    assert (
        "the program failed: RuntimeError: Array has been deleted with shape=float32[4096,4096]."
        in found["why_no_verdict"]
    )


OF_TWO = """
import torch, jax, jax.numpy as jnp
torch.zeros(1 << 20, device="cuda")
jax.jit(lambda x: x * 2)(jnp.zeros((1024, 1024))).block_until_ready()
"""

IN_TURNS = """
import subprocess, sys
for code in (
    "import torch; torch.zeros(1 << 20, device='cuda')",
    "import jax, jax.numpy as jnp; jax.jit(lambda x: x * 2)(jnp.zeros((1024, 1024))).block_until_ready()",
):
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed beside JAX")
@pytest.mark.parametrize("program", [OF_TWO, IN_TURNS], ids=["in one process", "in two"])
def test_a_program_of_two_frameworks_has_no_verdict(tmp_path: Path, program: str) -> None:
    found = answer(tmp_path, program, "--gpu", "A10")
    assert found["why_no_verdict"].startswith("the program uses GPUs with PyTorch and with JAX")
    assert found["cards"] == []
    assert [one["allocated"] for one in found["processes"]] == [4 * MIB]
