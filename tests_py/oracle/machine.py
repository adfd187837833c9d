"""The parts of a comparison: the imaginary machine, calls as text, and gpuconf as one of the two sides.

A call is text, such as ``config.set_visible_devices([g0], 'GPU')``, which each side evaluates with its own names. So a
call can be displayed, shrunk, recorded and pasted into a test.
"""

import contextlib
import io
import math
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, Protocol

import gpuconf
import numpy
from gpuconf._core.scope import current_scope


@dataclass(frozen=True)
class Card:
    """A GPU that both sides have."""

    spec: str  # as gpuconf.simulate accepts it
    product: str
    major: int
    minor: int
    bytes: int  # as CUDA reports it
    greatest_priority: int


CARDS = (
    Card("H100-80GB", "NVIDIA H100 80GB HBM3", 9, 0, 85_019_590_656, -5),
    Card("T4", "Tesla T4", 7, 5, 15_636_365_312, -5),
    Card("P100-16GB", "Tesla P100-SXM2-16GB", 6, 0, 17_066_622_976, -2),
    Card("A100-40GB", "NVIDIA A100-SXM4-40GB", 8, 0, 42_298_507_264, -5),
)


OPERATIONS = ("constant", "matmul", "add", "add_n", "identity")

FIRST_REGION = 2 << 20  # the first reservation of a growing pool


class Side(Protocol):
    """Evaluates calls."""

    name: str

    def fresh(self, gpus: int) -> None:
        """Start over, with the first cards."""

    def evaluate(self, call: str) -> Any:
        """Make a call and return its result."""


@lru_cache(maxsize=20_000)
def compiled(call: str) -> CodeType:
    """The compiled code of a call."""
    return compile(call, "<call>", "eval")


class Names(dict[str, Any]):
    """The names that a call can use, the same on both sides: the API, the value types, and a few helpers."""

    def __init__(self, api: Any, scope: Any) -> None:
        super().__init__(
            config=api.config,
            experimental=api.config.experimental,
            optimizer=api.config.optimizer,
            threading=api.config.threading,
            debugging=api.debugging,
            v1=api.compat.v1,
            PD=api.config.PhysicalDevice,
            LD=api.config.LogicalDevice,
            L=api.config.LogicalDeviceConfiguration,
            nan=math.nan,
            inf=math.inf,
            device=api.device,
            scope=scope,
            enter=self._enter,
            leave=self._leave,
            leave_all=self._leave_all,
            begin=self._begin,
            eager=self._eager,
            numpy=numpy,
            session=self._session,
            keep=self._keep,
            kept=lambda i: self._kept[i],
            c=api.config.PhysicalDevice("/physical_device:CPU:0", "CPU"),
            **{f"g{i}": api.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(len(CARDS))},
        )
        self._api = api
        self._scope = scope
        self._entered: list[Any] = []
        self._kept: dict[int, Any] = {}

    def _enter(self, name: Any) -> Any:
        entered = self._api.device(name)
        entered.__enter__()
        self._entered.append(entered)
        return self._scope()

    def _leave(self, which: int = -1) -> Any:
        if self._entered:
            self._entered[which].__exit__(None, None, None)
            self._entered.pop(which)
        return self._scope()

    def _leave_all(self) -> None:
        while self._entered:
            self._entered.pop().__exit__(None, None, None)

    def _session(self, config: Any = None) -> None:
        """Open a session of TensorFlow 1, and close it."""
        with self._api.compat.v1.Graph().as_default():
            self._api.compat.v1.Session(config=config).close()

    def _begin(self) -> None:
        """Drop the tensors that were created."""
        self["n"] = []
        self.update({name: getattr(self._api, name) for name in OPERATIONS})

    def _eager(self, scopes: list[Any], make: Any) -> Any:
        """The device of an operation's result."""
        with contextlib.ExitStack() as stack:
            for name in scopes:
                stack.enter_context(self._api.device(name))
            tensor = make()
        self["n"].append(tensor)
        return tensor.device, tensor.backing_device

    def build(self, lines: list[tuple[Any, ...]]) -> list[Any]:
        """Add nodes to the default graph: (scopes, kind, the numbers of those to wait for)."""
        self.update({name: getattr(self._api.compat.v1, name) for name in (*OPERATIONS, "placeholder")}, n=[])
        for scopes, make, *controls in lines:
            with contextlib.ExitStack() as stack:
                stack.enter_context(
                    self._api.compat.v1.control_dependencies([self["n"][i] for each in controls for i in each])
                )
                for name in scopes:
                    stack.enter_context(self._api.compat.v1.device(name))
                self["n"].append(make())
        return list(self["n"])

    def _keep(self, i: int, value: Any) -> Any:
        self._kept[i] = value
        return value

    def forget(self) -> None:
        """Drop the kept objects. Scopes end with the runtime."""
        self._entered.clear()
        self._kept.clear()


class Gpuconf:
    """gpuconf, with the same GPUs simulated."""

    name = "gpuconf"

    def __init__(self) -> None:
        self.names = Names(gpuconf.compat.v2, current_scope)
        self.names["facts"] = self._facts
        self.names["graph"] = self._graph
        self.names["start"] = gpuconf.compat.v1.enable_eager_execution
        self.names["v2"] = gpuconf.compat.v2

    def fresh(self, gpus: int) -> None:
        self.names.forget()
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of CARDS
        if gpus:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        gpuconf.simulate(",".join(card.spec for card in CARDS[: gpus or 1]))
        gpuconf.config.run_functions_eagerly(False)
        gpuconf.config.experimental.enable_tensor_float_32_execution(True)

    def evaluate(self, call: str) -> Any:
        return eval(compiled(call), self.names)

    def _facts(self) -> list[Any]:
        facts = []
        for one in gpuconf.config.list_logical_devices("GPU"):
            limit = gpuconf.memory.stats(one).bytes_limit
            grows = False
            if limit > FIRST_REGION:  # a smaller pool is reserved whole in any case
                gpuconf.memory.allocate(1, one).free()
                grows = gpuconf.memory.stats(one).bytes_reserved == FIRST_REGION
            facts.append((limit, grows))
        return facts

    def _graph(self, lines: list[tuple[Any, ...]], *, soft: bool) -> list[tuple[str, str]]:
        """The placements in a session's log."""
        config = gpuconf.compat.v1.ConfigProto(allow_soft_placement=soft, log_device_placement=True)
        told = io.StringIO()
        with gpuconf.compat.v1.Graph().as_default(), contextlib.redirect_stderr(told):
            nodes = self.names.build(lines)
            with gpuconf.compat.v1.Session(config=config) as session:
                fed = {node: numpy.ones((2, 2)) for node in nodes if node.op.type == "Placeholder"}
                wait = gpuconf.compat.v1.no_op("wait")  # if there are only placeholders, which cannot be executed
                session.run([wait, *(node.op for node in nodes if node not in fed)], fed)
        placed = re.findall(r"^(\S+): (/\S+)$", told.getvalue(), re.MULTILINE)
        return sorted((name, short(device)) for name, device in placed if name != "wait")


def short(device: str) -> str:
    """A full device name without the common prefix, in current spelling."""
    return (
        device.removeprefix("/job:localhost/replica:0/task:0")
        .replace("/gpu:", "/device:GPU:")
        .replace("/cpu:", "/device:CPU:")
    )
