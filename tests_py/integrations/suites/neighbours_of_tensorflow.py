"""Runs packages that look for TensorFlow under ``gpuconf run --as-tensorflow``, and prints a table for
docs/tensorflow.md.

    python tests_py/integrations/suites/neighbours_of_tensorflow.py FOLDER [CASE...]

``make test-suites WHAT=neighbours`` installs the packages of ``neighbours_of_tensorflow.txt`` into FOLDER before. A
case passes if its last line, or the last line of its error, is the expected one. The process exits with 1 if one does
not.
"""

import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """A program, what its last line must match, and the packages whose versions are printed."""

    packages: tuple[str, ...]
    program: str
    last: str
    environment: tuple[tuple[str, str], ...] = ()


_WRITER = """
import tensorflow as tf
from {module} import SummaryWriter
writer = SummaryWriter("logs"); writer.add_scalar("a", 1, 1); writer.close()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator("logs"); read.Reload(); print(read.Tags()["scalars"])
"""
_KERAS = """
import tensorflow as tf
import keras, numpy
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse") if keras.backend.backend() != "numpy" else None
ones = numpy.ones((4, 2))
model.fit(ones, ones[:, :1], verbose=0) if keras.backend.backend() != "numpy" else model.predict(ones, verbose=0)
print(keras.backend.backend(), len(tf.config.list_physical_devices("GPU")))
"""
_OFFLINE = (("WANDB_MODE", "offline"), ("WANDB_SILENT", "true"))

CASES = {
    "importlib.metadata": Case((), "import importlib.metadata as m; print(m.version('tensorflow'))", r"2\.21\.0"),
    "PyTorch's SummaryWriter": Case(
        ("torch", "tensorboard"), _WRITER.format(module="torch.utils.tensorboard"), r"\['a'\]"
    ),
    "tensorboardX's SummaryWriter": Case(
        ("tensorboardX", "tensorboard"), _WRITER.format(module="tensorboardX"), r"\['a'\]"
    ),
    "Keras, torch": Case(("keras", "torch"), _KERAS, "torch 2", (("KERAS_BACKEND", "torch"),)),
    "Keras, jax": Case(("keras", "jax"), _KERAS, "jax 2", (("KERAS_BACKEND", "jax"),)),
    "Keras, numpy": Case(("keras",), _KERAS, "numpy 2", (("KERAS_BACKEND", "numpy"),)),
    "Keras, no backend set": Case(
        ("keras",), "import keras", r"ModuleNotFoundError: .*set KERAS_BACKEND=torch or jax.*"
    ),
    "transformers": Case(
        ("transformers", "torch"),
        "import tensorflow, torch\n"
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)).eval()\n"
        "print(tuple(model(torch.zeros(1, 4, dtype=torch.long)).logits.shape))",
        r"\(1, 4, 16\)",
    ),
    "accelerate": Case(
        ("accelerate", "torch"),
        "import tensorflow\nfrom accelerate import Accelerator\n"
        "a = Accelerator(cpu=True, log_with='tensorboard', project_dir='logs')\n"
        "a.init_trackers('x'); a.log({'loss': 1.0}, step=1); a.end_training(); print('logged')",
        "logged",
    ),
    "wandb": Case(
        ("wandb",),
        "import tensorflow, wandb\nrun = wandb.init(project='x'); run.log({'a': 1}); run.finish(); print('logged')",
        "logged",
        _OFFLINE,
    ),
    "wandb, sync_tensorboard": Case(
        ("wandb",),
        "import tensorflow, wandb\nrun = wandb.init(project='x', sync_tensorboard=True); run.finish(); print('logged')",
        "logged",
        _OFFLINE,
    ),
    "RLlib's try_import_tf": Case(
        ("ray",),
        "from ray.rllib.utils.framework import try_import_tf\ntf1, tf, version = try_import_tf()\n"
        "print(version, tf1.__name__, tf.__name__)",
        r"2 gpuconf\.compat\.v1 gpuconf\.compat\.v2",
    ),
    "Sonnet": Case(("dm-sonnet",), "import sonnet", r"\w+Error: .*needs TensorFlow.*"),
    "tf_keras": Case(("tf_keras",), "import tf_keras", r"\w+Error: .*set KERAS_BACKEND=torch or jax.*"),
}


def last_line(case: Case, folder: str) -> str:
    """Run a case, and return the last line that it prints, or that of its error."""
    gpuconf = Path(sys.executable).parent / "gpuconf"
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [gpuconf, "run", "--as-tensorflow", "--simulate", "2xT4", sys.executable, "-c", case.program],
            capture_output=True,
            text=True,
            check=False,
            cwd=place,
            timeout=600,
            env={**os.environ, "PYTHONPATH": folder, "GPUCONF_LEDGER": f"{place}/ledger", **dict(case.environment)},
        )
    text = done.stdout if done.returncode == 0 else done.stderr
    errors = [
        line
        for line in text.strip().splitlines()
        if done.returncode == 0 or re.match(r"[\w.]+(Error|Exception): ", line)
    ]
    return errors[-1] if errors else text[-200:]


def main(folder: str, *wanted: str) -> None:
    """Run the cases."""
    versions = {found.name.lower().replace("_", "-"): found.version for found in metadata.distributions(path=[folder])}
    failed = 0
    print("| package | last line | |\n|---|---|---|")
    for name in wanted or CASES:
        case = CASES[name]
        line = last_line(case, str(Path(folder).resolve()))
        good = re.fullmatch(case.last, line) is not None
        failed += not good
        of = ", ".join(f"{each} {versions.get(each.lower().replace('_', '-'), 'missing')}" for each in case.packages)
        print(
            f"| {name}{f' ({of})' if of else ''} | `{line}` | {'as expected' if good else 'NOT AS EXPECTED'} |",
            flush=True,
        )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
