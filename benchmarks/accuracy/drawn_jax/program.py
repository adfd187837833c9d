"""Runs a row of rows.json: four steps of training or inference on the GPU.

`python benchmarks/accuracy/drawn_jax/program.py --row 0`, or the same after `gpuconf plan --`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from benchmarks.accuracy.drawn_jax import models  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

STEPS = 4
PIECES = 4  # of a batch, where gradients are accumulated
OPTIMIZERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "SGD": lambda: optax.sgd(1e-4),
    "SGD momentum": lambda: optax.sgd(1e-4, momentum=0.9),
    "Adam": lambda: optax.adam(1e-5),
    "AdamW": lambda: optax.adamw(1e-5),
    "AdamW clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-5)),
    "Lion": lambda: optax.lion(1e-5),
    "Adafactor": lambda: optax.adafactor(1e-4),
    "RMSprop": lambda: optax.rmsprop(1e-5),
    "LAMB": lambda: optax.lamb(1e-5),
}


def main() -> None:
    """Run the row that the command names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", type=int, required=True)
    run(rows()[parser.parse_args().row])


def rows() -> list[dict[str, Any]]:
    """Return the rows."""
    found: list[dict[str, Any]] = json.loads(Recording("accuracy/drawn_jax/rows.json").read_text())["rows"]
    return found


class Program:
    """The functions of a row: one that makes parameters and optimizer's state, and those of a step."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        make, apply = models.build(row)
        self.tx = OPTIMIZERS[row["optimizer"]]()
        if row["accumulation"] == "MultiSteps":
            self.tx = optax.MultiSteps(self.tx, 2)
        several = row["vmap"] == "models"
        copies = 3

        def initial(key: Any) -> Any:
            parameters = jax.vmap(make)(jax.random.split(key, copies)) if several else make(key)
            return parameters, self.tx.init(parameters) if row["training"] else None

        def loss(parameters: Any, x: Any, y: Any) -> Any:
            found = apply(parameters, x).astype(jnp.float32)
            if y.dtype != jnp.int32:
                return ((found - y) ** 2).mean()
            return optax.softmax_cross_entropy_with_integer_labels(found, y).mean()

        one = jax.checkpoint(loss) if row["checkpoint"] == "loss" else loss

        def mean(parameters: Any, x: Any, y: Any) -> Any:
            return jax.vmap(one, (0, None, None))(parameters, x, y).sum() if several else one(parameters, x, y)

        def slope(parameters: Any, x: Any, y: Any) -> Any:
            if row["vmap"] != "items":
                return jax.value_and_grad(mean)(parameters, x, y)
            # gradients of each item, clipped
            found, slopes = jax.vmap(jax.value_and_grad(mean), (None, 0, 0))(parameters, x[:, None], y[:, None])
            scale = 1 / jnp.maximum(jax.vmap(optax.global_norm)(slopes), 1)
            return found.mean(), jax.tree.map(lambda g: jnp.tensordot(scale.astype(g.dtype), g, 1), slopes)

        def slopes(parameters: Any, x: Any, y: Any) -> Any:
            if row["accumulation"] not in ("scan", "loop"):
                return slope(parameters, x, y)
            pieces = jax.tree.map(lambda one: one.reshape(PIECES, -1, *one.shape[1:]), (x, y))

            def more(total: Any, piece: Any) -> Any:
                return jax.tree.map(jnp.add, total, slope(parameters, *piece)), None

            total = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters))
            if row["accumulation"] == "scan":
                return jax.lax.scan(more, total, pieces)[0]
            for number in range(PIECES):
                total = more(total, jax.tree.map(lambda one, number=number: one[number], pieces))[0]
            return total

        def update(parameters: Any, state: Any, gradients: Any) -> Any:
            updates, state = self.tx.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), state

        def step(parameters: Any, state: Any, x: Any, y: Any) -> Any:
            value, gradients = slopes(parameters, x, y)
            return *update(parameters, state, gradients), value

        def forward(parameters: Any, x: Any) -> Any:
            return jax.vmap(apply, (0, None))(parameters, x) if several else apply(parameters, x)

        donated = (0, 1) if row["donate"] else ()
        self.initial = jax.jit(initial) if row["jitted_init"] else initial
        self.step = jax.jit(step, donate_argnums=donated)
        self.slopes = jax.jit(slopes)
        self.update = update if row["step"] == "gradient compiled" else jax.jit(update, donate_argnums=donated)
        self.forward = jax.jit(forward)

    def batch(self, number: int) -> Any:
        """Return a batch's inputs and targets, on the host or on the GPU."""
        return tuple(self.array(number, which, *one) for which, one in enumerate(models.shapes(self.row)))

    def array(self, number: int, which: int, shape: tuple[int, ...], kind: Any) -> Any:
        """Return an array of a batch."""
        most = min(self.row["vocabulary"], models.CLASSES)
        if self.row["inputs"] == "host":
            made = np.random.default_rng(number)
            return made.integers(0, most, shape, np.int32) if kind == jnp.int32 else made.random(shape, np.float32)
        key = jax.random.fold_in(jax.random.key(which), number)
        return jax.random.randint(key, shape, 0, most) if kind == jnp.int32 else jax.random.uniform(key, shape)

    def compiled(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Return the compiled functions of a step, with shapes of what they are called with."""
        parameters, state = jax.eval_shape(self.initial, jax.random.key(0))
        x, y = (jax.ShapeDtypeStruct(*one) for one in models.shapes(self.row))
        if not self.row["training"]:
            return [(self.forward, (parameters, x))]
        if self.row["step"] == "one function":
            return [(self.step, (parameters, state, x, y))]
        functions: list[tuple[Any, tuple[Any, ...]]] = [(self.slopes, (parameters, x, y))]
        if self.row["step"] == "two functions":
            functions.append((self.update, (parameters, state, jax.eval_shape(self.slopes, parameters, x, y)[1])))
        return functions


def run(
    row: dict[str, Any],
    after: Callable[[str], None] = lambda _: None,
    before: Callable[[Program], None] = lambda _: None,
) -> None:
    """Run the steps of a row.

    Calls a function before the first step, and one after the initialization and each step.
    """
    program = Program(row)
    parameters, state = program.initial(jax.random.key(0))
    jax.block_until_ready(parameters)
    after("initialized")
    before(program)
    x, y = program.batch(0)
    for number in range(STEPS):
        if number and row["inputs"] != "once":
            x, y = program.batch(number)
        if not row["training"]:
            print(number, program.forward(parameters, x).mean(dtype=jnp.float32))
        elif row["step"] == "one function":
            parameters, state, loss = program.step(parameters, state, x, y)
            print(number, float(loss))
        else:
            loss, gradients = program.slopes(parameters, x, y)
            parameters, state = program.update(parameters, state, gradients)
            print(number, float(loss))
        jax.block_until_ready((parameters, state))
        after(f"step {number}")


if __name__ == "__main__":
    main()
