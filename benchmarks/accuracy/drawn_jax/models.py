"""Builds the models of rows.json: a family's code, in the layers of a library.

A model is a list of parts. A part is a function of a library's layers and an array, and how often it is applied, one
after another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import linen, nnx

CLASSES = 1000
Part = Callable[["Layers", Any], Any]


def kinds(row: dict[str, Any]) -> tuple[Any, Any]:
    """Return the types of the parameters and of the arithmetic."""
    parameters = jnp.bfloat16 if row["precision"] == "bfloat16" else jnp.float32
    return parameters, jnp.float32 if row["precision"] == "float32" else jnp.bfloat16


class Layers:
    """Layers of jax.numpy.

    The first time, `layer` records how each is made; later, it returns those that are given, in order.
    """

    channels = -1  # the axis of an image

    def __init__(self, row: dict[str, Any], given: list[Any] | None = None) -> None:
        self.row, self.given = row, given
        self.made: list[Any] = []
        self.parameters, self.kind = kinds(row)
        self.static: list[Any] = []

    def layer(self, make: Callable[[Any], Any]) -> Any:
        """Return the next layer."""
        self.made.append(make)
        return make(jax.random.key(0)) if self.given is None else self.given[len(self.made) - 1]

    def taken(self, layers: list[Any]) -> Any:
        """Return the parameters of layers."""
        return layers

    def merged(self, parameters: Any) -> list[Any]:
        """Return layers with these parameters."""
        return list(parameters)

    def weight(self, *shape: int) -> Any:
        """Return a parameter."""
        scale = shape[-2] ** -0.5 if len(shape) > 1 else 0.02
        return self.layer(lambda key: jax.random.normal(key, shape, self.parameters) * scale).astype(self.kind)

    def dense(self, x: Any, width: int) -> Any:
        """Apply a linear layer."""
        return x @ self.weight(x.shape[-1], width) + self.weight(width)

    def conv(self, x: Any, width: int, kernel: int = 3, stride: int = 1) -> Any:
        """Apply a convolution."""
        made = self.weight(kernel, kernel, x.shape[-1], width)
        return jax.lax.conv_general_dilated(
            x, made, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def norm(self, x: Any) -> Any:
        """Normalize an item: an image by groups or as a whole, others by their last axis."""
        axes = (1, 2, 3) if x.ndim == 4 else (-1,)
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * (1 + self.weight(x.shape[-1])) + self.weight(x.shape[-1])

    def embed(self, x: Any, count: int, width: int) -> Any:
        """Return the embeddings of tokens."""
        return self.weight(count, width)[x]

    def attend(self, x: Any, heads: int, causal: bool) -> Any:
        """Apply attention of an input to itself."""
        q, k, v = (one.reshape(*x.shape[:2], heads, -1) for one in jnp.split(self.dense(x, 3 * x.shape[-1]), 3, -1))
        found = jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="xla")
        return self.dense(found.reshape(x.shape), x.shape[-1])

    def recurrent(self, x: Any, width: int, cell: str) -> Any:
        """Apply a recurrent layer over time."""
        into, again = self.weight(x.shape[-1], 4 * width), self.weight(width, 4 * width)

        def lstm(carry: Any, one: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(one @ into + h @ again, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        def plain(h: Any, one: Any) -> Any:
            h = jnp.tanh(one @ into[:, :width] + h @ again[:, :width])
            return h, h

        start = jnp.zeros((x.shape[0], width), x.dtype)
        found = jax.lax.scan(*((lstm, (start, start)) if cell == "LSTM" else (plain, start)), x.swapaxes(0, 1))[1]
        return found.swapaxes(0, 1)


class Linen(Layers):
    """Layers of flax.linen, which holds their parameters itself."""

    def __init__(self, row: dict[str, Any], module: linen.Module) -> None:
        super().__init__(row)
        self.module, self.types = module, {"dtype": self.kind, "param_dtype": self.parameters}

    def weight(self, *shape: int) -> Any:
        """Return a parameter."""
        self.made.append(shape)
        made = self.module.param(f"weight{len(self.made)}", linen.initializers.normal(0.02), shape, self.parameters)
        return made.astype(self.kind)

    def dense(self, x: Any, width: int) -> Any:
        """Apply a linear layer."""
        return linen.Dense(width, **self.types)(x)

    def conv(self, x: Any, width: int, kernel: int = 3, stride: int = 1) -> Any:
        """Apply a convolution."""
        return linen.Conv(width, (kernel, kernel), (stride, stride), **self.types)(x)

    def norm(self, x: Any) -> Any:
        """Normalize an item: an image by groups or as a whole, others by their last axis."""
        return (linen.GroupNorm(8, **self.types) if x.ndim == 4 else linen.LayerNorm(**self.types))(x)

    def embed(self, x: Any, count: int, width: int) -> Any:
        """Return the embeddings of tokens."""
        return linen.Embed(count, width, **self.types)(x)

    def attend(self, x: Any, heads: int, causal: bool) -> Any:
        """Apply attention of an input to itself."""
        mask = linen.make_causal_mask(x[..., 0]) if causal else None
        return linen.MultiHeadDotProductAttention(heads, **self.types)(x, mask=mask)

    def recurrent(self, x: Any, width: int, cell: str) -> Any:
        """Apply a recurrent layer over time."""
        kind = {"LSTM": linen.OptimizedLSTMCell, "GRU": linen.GRUCell}.get(cell, linen.SimpleCell)
        # The default is for float32.
        made = kind(width, recurrent_kernel_init=linen.initializers.lecun_normal(), **self.types)
        start = jnp.zeros((x.shape[0], width), x.dtype)
        return linen.RNN(made)(x, initial_carry=(start, start) if cell == "LSTM" else start)


class LinenPart(linen.Module):
    """A part of a model in flax.linen."""

    function: Part
    row: Any

    @linen.compact
    def __call__(self, x: Any) -> Any:
        """Apply the part."""
        return self.function(Linen(self.row, self), x)


class Nnx(Layers):
    """Layers of flax.nnx."""

    def taken(self, layers: list[Any]) -> Any:
        """Return the parameters of layers."""
        split = [nnx.split(one) for one in layers]
        self.static = [graph for graph, _ in split]
        return [state for _, state in split]

    def merged(self, parameters: Any) -> list[Any]:
        """Return layers with these parameters."""
        return [nnx.merge(graph, state) for graph, state in zip(self.static, parameters, strict=True)]

    def of(self, make: Callable[..., Any], *sizes: Any, **named: Any) -> Any:
        """Return a layer of nnx."""
        named |= {"dtype": self.kind, "param_dtype": self.parameters}
        return self.layer(lambda key: make(*sizes, rngs=nnx.Rngs(params=key), **named))

    def weight(self, *shape: int) -> Any:
        """Return a parameter."""
        return (
            self.layer(lambda key: Weight(jax.random.normal(key, shape, self.parameters) * 0.02))
            .value[...]
            .astype(self.kind)
        )

    def dense(self, x: Any, width: int) -> Any:
        """Apply a linear layer."""
        return self.of(nnx.Linear, x.shape[-1], width)(x)

    def conv(self, x: Any, width: int, kernel: int = 3, stride: int = 1) -> Any:
        """Apply a convolution."""
        return self.of(nnx.Conv, x.shape[-1], width, (kernel, kernel), strides=stride)(x)

    def norm(self, x: Any) -> Any:
        """Normalize an item: an image by groups or as a whole, others by their last axis."""
        return (self.of(nnx.GroupNorm, x.shape[-1], 8) if x.ndim == 4 else self.of(nnx.LayerNorm, x.shape[-1]))(x)

    def embed(self, x: Any, count: int, width: int) -> Any:
        """Return the embeddings of tokens."""
        return self.of(nnx.Embed, count, width)(x)

    def attend(self, x: Any, heads: int, causal: bool) -> Any:
        """Apply attention of an input to itself."""
        mask = nnx.make_causal_mask(x[..., 0]) if causal else None
        return self.of(nnx.MultiHeadAttention, heads, x.shape[-1], decode=False)(x, mask=mask)

    def recurrent(self, x: Any, width: int, cell: str) -> Any:
        """Apply a recurrent layer over time."""
        kind = {"LSTM": nnx.OptimizedLSTMCell, "GRU": nnx.GRUCell}.get(cell, nnx.SimpleCell)
        made = self.of(kind, x.shape[-1], width, recurrent_kernel_init=nnx.initializers.lecun_normal())

        def one(carry: Any, given: Any) -> Any:
            return made(carry, given)

        start = jnp.zeros((x.shape[0], width), x.dtype)
        found = jax.lax.scan(one, (start, start) if cell == "LSTM" else start, x.swapaxes(0, 1))[1]
        return found.swapaxes(0, 1)


class Weight(nnx.Module):
    """A parameter of its own."""

    def __init__(self, value: Any) -> None:
        self.value = nnx.Param(value)


class Equinox(Layers):
    """Layers of equinox, which are for one item; images have their channels first."""

    channels = 1

    def taken(self, layers: list[Any]) -> Any:
        """Return the parameters of layers."""
        parameters, self.static = eqx.partition(layers, eqx.is_array)
        return parameters

    def merged(self, parameters: Any) -> list[Any]:
        """Return layers with these parameters."""
        layers: list[Any] = eqx.combine(parameters, self.static)
        return layers

    def layer(self, make: Callable[[Any], Any]) -> Any:
        """Return the next layer, in the type of the arithmetic."""
        return jax.tree.map(lambda one: one.astype(self.kind) if eqx.is_array(one) else one, super().layer(make))

    def of(self, make: Callable[..., Any], *sizes: Any, x: Any, kept: int, **named: Any) -> Any:
        """Apply a layer to each item, which has so many dimensions."""
        found = self.layer(lambda key: make(*sizes, dtype=self.parameters, key=key, **named))
        for _ in range(x.ndim - kept):
            found = jax.vmap(found)
        return found(x)

    def dense(self, x: Any, width: int) -> Any:
        """Apply a linear layer."""
        return self.of(eqx.nn.Linear, x.shape[-1], width, x=x, kept=1)

    def conv(self, x: Any, width: int, kernel: int = 3, stride: int = 1) -> Any:
        """Apply a convolution."""
        return self.of(eqx.nn.Conv2d, x.shape[1], width, kernel, stride, "SAME", x=x, kept=3)

    def norm(self, x: Any) -> Any:
        """Normalize an item: an image by groups or as a whole, others by their last axis."""

        def normal(size: int, dtype: Any, **_: Any) -> Any:
            return eqx.nn.GroupNorm(8, size, dtype=dtype) if x.ndim == 4 else eqx.nn.LayerNorm(size, dtype=dtype)

        return self.of(normal, x.shape[1] if x.ndim == 4 else x.shape[-1], x=x, kept=3 if x.ndim == 4 else 1)

    def embed(self, x: Any, count: int, width: int) -> Any:
        """Return the embeddings of tokens."""
        return self.of(eqx.nn.Embedding, count, width, x=x, kept=0)

    def attend(self, x: Any, heads: int, causal: bool) -> Any:
        """Apply attention of an input to itself."""
        made = self.layer(lambda key: eqx.nn.MultiheadAttention(heads, x.shape[-1], dtype=self.parameters, key=key))
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool)) if causal else None
        return jax.vmap(lambda one: made(one, one, one, mask))(x)

    def recurrent(self, x: Any, width: int, cell: str) -> Any:
        """Apply a recurrent layer over time."""
        if cell == "plain":
            return super().recurrent(x, width, cell)
        kind = eqx.nn.LSTMCell if cell == "LSTM" else eqx.nn.GRUCell
        made = self.layer(lambda key: kind(x.shape[-1], width, dtype=self.parameters, key=key))

        def one(carry: Any, given: Any) -> Any:
            carry = made(given, carry)
            return carry, carry[0] if cell == "LSTM" else carry

        start = jnp.zeros(width, x.dtype)
        return jax.vmap(lambda item: jax.lax.scan(one, (start, start) if cell == "LSTM" else start, item)[1])(x)


LIBRARIES: dict[str, type[Layers]] = {"jax.numpy": Layers, "flax.linen": Linen, "flax.nnx": Nnx, "equinox": Equinox}


def part(row: dict[str, Any], function: Part) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a function that makes a part's parameters from a key and an input's shape, and one that applies the
    part.
    """
    if row["library"] == "flax.linen":
        module = LinenPart(function, row)
        return (lambda key, x: module.init(key, jnp.zeros(x.shape, x.dtype))), module.apply
    layers = LIBRARIES[row["library"]](row)

    def initial(key: Any, x: Any) -> Any:
        made = LIBRARIES[row["library"]](row)
        jax.eval_shape(lambda given: function(made, given), x)
        return layers.taken(
            [make(one) for make, one in zip(made.made, jax.random.split(key, len(made.made) or 1), strict=False)]
        )

    def apply(parameters: Any, x: Any) -> Any:
        return function(type(layers)(row, layers.merged(parameters)), x)

    return initial, apply


# Families


def _mlp(row: dict[str, Any]) -> list[tuple[Part, int]]:
    width = row["width"]

    def block(m: Layers, x: Any) -> Any:
        return x + m.dense(jax.nn.gelu(m.dense(m.norm(x), 4 * width)), width)

    return [(lambda m, x: m.dense(x, width), 1), (block, row["depth"]), (lambda m, x: m.dense(x, CLASSES), 1)]


def _resnet(row: dict[str, Any]) -> list[tuple[Part, int]]:
    def block(m: Layers, x: Any) -> Any:
        width = x.shape[m.channels]
        y = jax.nn.relu(m.norm(m.conv(x, width // 4 if row["option"] else width, 1 if row["option"] else 3)))
        y = m.conv(y, width // 4, 3) if row["option"] else y
        return jax.nn.relu(x + m.norm(m.conv(y, width, 1 if row["option"] else 3)))

    def down(width: int, m: Layers, x: Any) -> Any:
        return jax.nn.relu(m.norm(m.conv(x, width, 3, 2)))

    parts: list[tuple[Part, int]] = [(lambda m, x: jax.nn.relu(m.norm(m.conv(x, row["width"] // 4, 7, 2))), 1)]
    for stage in range(3):
        parts += [(block, max(1, row["depth"] // 2)), (partial(down, (row["width"] // 4) << (stage + 1)), 1)]
    return [*parts, (_classified, 1)]


def _classified(m: Layers, x: Any) -> Any:
    axes = {2: (), 3: (1,)}.get(x.ndim, (1, 2) if m.channels == -1 else (2, 3))
    return m.dense(x.mean(axes), CLASSES)


def _attention_block(row: dict[str, Any], causal: bool, m: Layers, x: Any) -> Any:
    x = x + m.attend(m.norm(x), max(1, row["width"] // 64), causal)
    return x + m.dense(jax.nn.gelu(m.dense(m.norm(x), 4 * row["width"])), row["width"])


def _decoder(row: dict[str, Any]) -> list[tuple[Part, int]]:
    def stem(m: Layers, x: Any) -> Any:
        return m.embed(x, row["vocabulary"], row["width"]) + m.weight(row["length"], row["width"])

    head = (lambda m, x: m.dense(m.norm(x), row["vocabulary"]), 1)
    return [(stem, 1), (partial(_attention_block, row, True), row["depth"]), head]


def _encoder(row: dict[str, Any]) -> list[tuple[Part, int]]:
    """A Transformer of images."""

    def stem(m: Layers, x: Any) -> Any:
        x = m.conv(x, row["width"], 16 if row["size"] >= 128 else 4, 16 if row["size"] >= 128 else 4)
        x = jnp.moveaxis(x, m.channels, -1)
        x = x.reshape(x.shape[0], -1, row["width"])
        return x + m.weight(x.shape[1], row["width"])

    return [(stem, 1), (partial(_attention_block, row, False), row["depth"]), (_classified, 1)]


def _moe(row: dict[str, Any]) -> list[tuple[Part, int]]:
    """A decoder in which each token goes to all experts, weighed by a router."""
    width, experts = row["width"], 4

    def block(m: Layers, x: Any) -> Any:
        x = x + m.attend(m.norm(x), max(1, width // 64), True)
        y = m.norm(x)
        chosen = jax.nn.softmax(m.dense(y, experts), -1)
        hidden = jax.nn.gelu(jnp.einsum("btd,edh->bteh", y, m.weight(experts, width, 2 * width)))
        return x + jnp.einsum("bteh,ehd,bte->btd", hidden, m.weight(experts, 2 * width, width), chosen)

    stem, _, head = _decoder(row)
    return [stem, (block, row["depth"]), head]


def _recurrent(row: dict[str, Any]) -> list[tuple[Part, int]]:
    def block(m: Layers, x: Any) -> Any:
        return m.recurrent(x, row["width"], row["cell"])

    return [(lambda m, x: m.dense(x, row["width"]), 1), (block, max(1, row["depth"] // 4)), (_classified, 1)]


def _vae(row: dict[str, Any]) -> list[tuple[Part, int]]:
    width = row["width"] // 4

    def encode(m: Layers, x: Any) -> Any:
        for stage in range(3):
            x = jax.nn.relu(m.norm(m.conv(x, width << stage, 3, 2)))
        return m.dense(x.reshape(x.shape[0], -1), 2 * 128)

    def decode(m: Layers, x: Any) -> Any:
        mean, variance = jnp.split(x, 2, -1)
        small = row["size"] // 8
        noise = jax.random.normal(jax.random.key(1), mean.shape, mean.dtype)
        y = m.dense(mean + jnp.exp(variance / 2) * noise, small * small * width)
        y = y.reshape(x.shape[0], *((width, small, small) if m.channels == 1 else (small, small, width)))
        for _ in range(3):
            y = jax.nn.relu(m.norm(m.conv(_larger(m, y), width)))
        return m.conv(y, 3)

    return [(encode, 1), (decode, 1)]


def _larger(m: Layers, x: Any) -> Any:
    axes = (2, 3) if m.channels == 1 else (1, 2)
    shape = [2 * size if axis in axes else size for axis, size in enumerate(x.shape)]
    return jax.image.resize(x, shape, "nearest")


def _unet(row: dict[str, Any]) -> list[tuple[Part, int]]:
    width = row["width"] // 4

    def twice(m: Layers, x: Any, size: int) -> Any:
        for _ in range(2):
            x = jax.nn.silu(m.norm(m.conv(x, size)))
        return x

    def whole(m: Layers, x: Any) -> Any:
        kept = []
        for stage in range(3):
            x = twice(m, x, width << stage)
            kept.append(x)
            x = m.conv(x, width << stage, 3, 2)
        x = twice(m, x, width << 3)
        for stage in (2, 1, 0):
            x = jnp.concatenate([_larger(m, x), kept[stage]], m.channels)
            x = twice(m, x, width << stage)
        return m.conv(x, 3)

    return [(whole, 1)]


def _ode(row: dict[str, Any]) -> list[tuple[Part, int]]:
    """A residual MLP whose block is the derivative of an equation, which `solved` integrates."""

    def block(m: Layers, x: Any) -> Any:
        return m.dense(jnp.tanh(m.dense(x, 2 * row["width"])), row["width"])

    return [(lambda m, x: m.dense(x, row["width"]), 1), (block, 1), (_classified, 1)]


def solved(row: dict[str, Any], apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that integrates a part over time."""
    import diffrax

    def integrated(parameters: Any, x: Any) -> Any:
        adjoint = diffrax.RecursiveCheckpointAdjoint() if row["option"] else diffrax.DirectAdjoint()
        term = diffrax.ODETerm(lambda _, y, given: apply(given, y).astype(jnp.float32))
        found = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.05, x.astype(jnp.float32), args=parameters, adjoint=adjoint, max_steps=32
        )
        return found.ys[-1].astype(x.dtype)

    return integrated


FAMILIES: dict[str, tuple[Callable[[dict[str, Any]], list[tuple[Part, int]]], str]] = {  # with what they take
    "MLP": (_mlp, "features"),
    "ResNet": (_resnet, "image"),
    "Transformer decoder": (_decoder, "tokens"),
    "Transformer encoder": (_encoder, "image"),
    "mixture of experts": (_moe, "tokens"),
    "recurrent": (_recurrent, "series"),
    "VAE": (_vae, "image"),
    "U-Net": (_unet, "image"),
    "neural ODE": (_ode, "features"),
}


def shapes(row: dict[str, Any]) -> tuple[tuple[tuple[int, ...], Any], tuple[tuple[int, ...], Any]]:
    """Return the shapes and types of a batch's inputs and targets."""
    batch, size, takes = row["batch"], row["size"], FAMILIES[row["family"]][1]
    if takes == "tokens":
        return ((batch, row["length"]), jnp.int32), ((batch, row["length"]), jnp.int32)
    image = (batch, 3, size, size) if row["library"] == "equinox" else (batch, size, size, 3)
    shape = {"features": (batch, row["width"]), "series": (batch, row["length"], 64), "image": image}[takes]
    target = (shape, jnp.float32) if row["family"] in ("VAE", "U-Net") else ((batch,), jnp.int32)
    return (shape, jnp.float32), target


def build(row: dict[str, Any]) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """Return a function that makes a model's parameters from a key, and one that applies the model."""
    made = [(*part(row, function), count) for function, count in FAMILIES[row["family"]][0](row)]
    shape, given = shapes(row)[0]
    kind = kinds(row)[1]
    if row["family"] == "neural ODE":
        made[1] = (made[1][0], solved(row, made[1][1]), 1)

    def initial(key: Any) -> list[Any]:
        x = jax.ShapeDtypeStruct((2, *shape[1:]), given if given == jnp.int32 else kind)
        parameters: list[Any] = []
        for number, (make, apply, count) in enumerate(made):
            keys = jax.random.split(jax.random.fold_in(key, number), count)
            if count > 1 and row["scan"]:
                parameters.append(jax.vmap(lambda one, make=make, x=x: make(one, x))(keys))
                x = jax.eval_shape(apply, jax.tree.map(lambda one: one[0], parameters[-1]), x)
            else:
                parameters.append([make(one, x) for one in keys])
                x = jax.eval_shape(apply, parameters[-1][0], x)
        return parameters

    def applied(parameters: list[Any], x: Any) -> Any:
        x = x if x.dtype == jnp.int32 else x.astype(kind)
        for (_, apply, count), those in zip(made, parameters, strict=True):
            if row["checkpoint"] in ("blocks", "blocks, but for products") and (count > 1 or len(made) < 3):
                policy = (
                    None if row["checkpoint"] == "blocks" else jax.checkpoint_policies.dots_with_no_batch_dims_saveable
                )
                apply = jax.checkpoint(apply, policy=policy)
            if count > 1 and row["scan"]:
                x = jax.lax.scan(lambda y, one, apply=apply: (apply(one, y), None), x, those)[0]
            else:
                for one in those:
                    x = apply(one, x)
        return x

    return initial, applied
