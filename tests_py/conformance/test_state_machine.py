"""Any sequence of configuration calls agrees with a small model of TensorFlow's rules; errors change nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import gpuconf as tf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from .helpers import (
    GROWTH_DIFFERS,
    MIB,
    PD,
    TOO_LATE_GROWTH,
    TOO_LATE_LOGICAL,
    TOO_LATE_VISIBLE,
    L,
)

# Cards with different limits.
CARDS = ["H100:1GiB", "H100:2GiB", "H100:4GiB"]
FULL = [(1024 - 225) * MIB, (2048 - 1800) * MIB, (4096 - 1800) * MIB]

CPU = PD("/physical_device:CPU:0", "CPU")
GPUS = [PD(f"/physical_device:GPU:{i}", "GPU") for i in range(3)]
STRANGERS: list[Any] = [PD("/physical_device:GPU:9", "GPU"), PD("/physical_device:TPU:0", "TPU"), "GPU:0", None]


class WrongError(Exception):
    """The expected error: a class, and the possible beginnings of its text."""

    def __init__(self, kind: type[Exception], *texts: str) -> None:
        super().__init__(kind, texts)
        self.kind = kind
        self.texts = texts


class Model:
    """TensorFlow's configuration of a process, as short as possible."""

    def __init__(self, gpus: int) -> None:
        self.gpus = GPUS[:gpus]
        self.physical = [CPU, *self.gpus]
        self.visible = list(self.physical)
        self.growth: dict[Any, Any] = dict.fromkeys(self.gpus)
        self.logical: dict[Any, Any] = {}
        self.threads: dict[str, int | None] = {"intra": None, "inter": None}
        self.initialized = False
        self.limits: list[int] = []
        self.cpus = 0

    def known(self, device: Any) -> None:
        if device not in self.physical:
            raise WrongError(ValueError, f"Unrecognized device: {device!r}")

    def too_late(self, text: str) -> None:
        if self.initialized:
            raise WrongError(RuntimeError, text)

    def set_visible(self, devices: Any, device_type: str | None) -> None:
        devices = devices if isinstance(devices, list) else [devices]
        kept = [] if device_type is None else [d for d in self.visible if d.device_type != device_type]
        for device in devices:
            self.known(device)
            if device_type is not None and device.device_type != device_type:
                raise WrongError(ValueError, f"Unrecognized device: {device!r}")
        if kept + devices == self.visible:
            return
        self.too_late(TOO_LATE_VISIBLE)
        self.visible = kept + devices

    def set_growth(self, device: Any, enable: Any) -> None:
        self.known(device)
        if device in self.logical:
            raise WrongError(ValueError, "Cannot set memory growth on device when virtual devices configured")
        if device not in self.growth:
            raise WrongError(ValueError, "Cannot set memory growth on non-GPU and non-Pluggable devices")
        if not isinstance(enable, int):
            raise WrongError(TypeError, "Memory growth must be True or False")
        if self.growth[device] == enable:
            return
        self.too_late(TOO_LATE_GROWTH)
        self.growth[device] = enable

    def set_logical(self, device: Any, configurations: Any) -> None:
        self.known(device)
        if device == CPU:
            for c in configurations:
                if c.memory_limit is not None:
                    raise WrongError(
                        ValueError, "Setting memory limit on CPU virtual devices is currently not supported"
                    )
                if c.experimental_priority is not None:
                    raise WrongError(
                        ValueError, "Setting experimental_priority on CPU virtual  devices is currently not supported"
                    )
                if c.experimental_device_ordinal is not None:
                    raise WrongError(
                        ValueError,
                        "Setting experimental_device_ordinal on CPU virtual  devices is currently not supported",
                    )
        elif any(c.memory_limit is None for c in configurations):
            raise WrongError(ValueError, "Setting memory limit is required for GPU virtual devices")
        elif any(c.memory_limit < 0 for c in configurations):
            raise WrongError(ValueError, "memory_limit is ")
        if self.logical.get(device) == configurations:
            return
        self.too_late(TOO_LATE_LOGICAL)
        self.logical[device] = configurations

    def set_threads(self, which: str, number: int | None) -> None:
        if self.threads[which] == number:
            return
        self.too_late(f"{which.capitalize()} op parallelism cannot be modified after initialization.")
        self.threads[which] = number

    def seen(self) -> list[Any]:
        """The visible GPUs, in physical order."""
        return [g for g in self.gpus if g in self.visible]

    def evaluate(self) -> None:
        """What every getter that reads the configuration checks."""
        if not self.logical:
            if len({self.growth[g] for g in self.seen()}) > 1:
                raise WrongError(ValueError, GROWTH_DIFFERS)
            return
        for g in self.seen():
            configurations = self.logical.get(g, [])
            priorities = [c.experimental_priority is not None for c in configurations]
            if any(priorities) and not all(priorities):
                raise WrongError(ValueError, "priority must be specified for all virtual devices")
            ordinals = [c.experimental_device_ordinal is not None for c in configurations]
            if any(ordinals) and not all(ordinals):
                raise WrongError(ValueError, "device_ordinals must be specified for all virtual devices")

    def initialize(self) -> None:
        """What every call that needs a logical device checks."""
        if self.initialized:
            return
        self.evaluate()
        cpus = len(self.logical.get(CPU, [None])) if CPU in self.visible else 0
        if cpus == 0:
            raise WrongError(tf.errors.NotFoundError, "No CPU devices are available in this process")
        if self.logical:
            self.check_native()
        self.limits = [limit for _, limit in sorted(self.logical_gpus(), key=lambda pair: pair[0])]
        self.cpus = cpus
        self.initialized = True

    def check_native(self) -> None:
        """What the creation of the devices checks. If several things are wrong, any of them may be reported."""
        total = sum(len(self.logical.get(g, [None])) for g in self.seen())
        if total < len(self.seen()):
            raise WrongError(
                tf.errors.UnknownError,
                f"Not enough GPUs to create virtual devices. num_gpus_to_use: {total} #virtual_devices: "
                f"{len(self.seen())}",
            )
        lists = [self.logical.get(g, []) for g in self.seen()]
        texts = set()
        has_ordinals = [any(c.experimental_device_ordinal is not None for c in items) for items in lists]
        if len(set(has_ordinals)) > 1:
            texts.add("Device ordinals must be set for all virtual devices or none.")
        has_priorities = [any(c.experimental_priority is not None for c in items) for items in lists]
        for items, has in zip(lists[1:], has_priorities[1:], strict=True):
            if has and not has_priorities[0]:
                texts.add("Priority must be set for all virtual devices or none.")
            if items and not has and has_priorities[0]:
                texts.add("Number of virtual device priorities specified doesn't match with number of memory_limit_mb")
        texts |= {
            f"Priority {c.experimental_priority} is outside the range of supported priorities"
            for items in lists
            for c in items
            if c.experimental_priority is not None and not -5 <= c.experimental_priority <= 0
        }
        if texts:
            raise WrongError(tf.errors.InvalidArgumentError, *texts)

    def logical_gpus(self) -> list[tuple[int, int]]:
        """Ordinal and limit of each logical GPU, before they are sorted."""
        return [
            (
                c.experimental_device_ordinal or 0,
                FULL[self.gpus.index(g)] if c.memory_limit is None else int(c.memory_limit) * MIB,
            )
            for g in self.seen()
            for c in self.logical.get(g) or [L()]
        ]


def error_of(models: Any, *args: Any) -> WrongError | None:
    """The model's result of a call."""
    try:
        models(*args)
    except WrongError as wrong:
        return wrong
    return None


def both(ours: Any, models: Any, *args: Any) -> None:
    """Make a call on gpuconf and on the model, and compare the results."""
    wrong = error_of(models, *args)
    if wrong is None:
        ours(*args)
        return
    with pytest.raises(wrong.kind) as caught:
        ours(*args)
    assert type(caught.value) is wrong.kind
    assert str(caught.value).startswith(wrong.texts)


def fresh(gpus: int, environment: pytest.MonkeyPatch) -> Model:
    """Simulate a machine with this number of GPUs."""
    environment.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    tf.simulate(",".join(CARDS))
    return Model(gpus)


def compare_getters(model: Model) -> None:
    """Compare every getter with the model."""
    assert tf.config.list_physical_devices() == model.physical
    assert tf.config.get_visible_devices() == model.visible
    for device in model.physical:
        stored = model.logical.get(device)
        assert tf.config.get_logical_device_configuration(device) == stored
        assert type(tf.config.get_logical_device_configuration(device)) is type(stored)
    for gpu in model.gpus:
        value = tf.config.experimental.get_memory_growth(gpu)
        assert (value, type(value)) == (model.growth[gpu], type(model.growth[gpu]))
    if error_of(model.evaluate) is None:
        for which, number in model.threads.items():
            assert getattr(tf.config.threading, f"get_{which}_op_parallelism_threads")() == (number or 0)


def compare_logical_devices(model: Model) -> None:
    """Compare the logical devices and their limits with the model."""
    listed = tf.config.list_logical_devices()
    cpus = [f"/device:CPU:{i}" for i in range(model.cpus)]
    assert [d.name for d in listed] == cpus + [f"/device:GPU:{i}" for i in range(len(model.limits))]
    assert [tf.memory.stats(d).bytes_limit for d in listed[len(cpus) :]] == model.limits


def devices(known: bool = False) -> st.SearchStrategy[Any]:
    """A device, usually one that some machine has."""
    usual = st.sampled_from([CPU, *GPUS])
    return usual if known else st.one_of(usual, usual, st.sampled_from(STRANGERS))


def configurations() -> st.SearchStrategy[Any]:
    """A list or tuple of configurations, usually one that a GPU accepts."""
    # builds() would draw the other fields from their types.
    limited = st.sampled_from([1, 7, 10, 10.0, 10.9, 0.5, 0]).map(L)
    anything = st.builds(
        L,
        st.sampled_from([None, 1, 10, -1]),
        st.sampled_from([None, 0, -1, -5, 1, -6]),
        st.sampled_from([None, 0, 1, 2]),
    )
    prioritized = st.builds(L, st.sampled_from([1, 10]), st.sampled_from([0, -1]), st.none())
    ordered = st.builds(L, st.sampled_from([1, 10]), st.none(), st.sampled_from([1, 2, 3]))
    lists = st.one_of(*(st.lists(one, max_size=3) for one in (st.just(L()), limited, prioritized, ordered, anything)))
    return st.one_of(lists, lists, lists.map(tuple))


class Configuration(RuleBasedStateMachine):
    """Each rule makes one call on gpuconf and on the model, and compares the results."""

    environment: ClassVar[pytest.MonkeyPatch]

    @initialize(gpus=st.integers(0, 3))
    def start(self, gpus: int) -> None:
        self.model = fresh(gpus, self.environment)

    @rule(
        asked=st.one_of(st.lists(devices(), max_size=4), st.lists(devices(known=True), max_size=3), devices()),
        device_type=st.sampled_from([None, "GPU", "GPU", "CPU", "gpu", "TPU"]),
    )
    def set_visible_devices(self, asked: Any, device_type: str | None) -> None:
        both(tf.config.set_visible_devices, self.model.set_visible, asked, device_type)

    @rule(chosen=st.lists(st.sampled_from(GPUS), unique=True))
    def show_some_gpus(self, chosen: list[Any]) -> None:
        """The usual call, so that many runs are initialized."""
        shown = [g for g in chosen if g in self.model.gpus]
        both(tf.config.set_visible_devices, self.model.set_visible, [CPU, *shown], None)

    @rule(device=devices(), enable=st.sampled_from([True, True, False, 1, 0, 2, "x", None, 1.0]))
    def set_memory_growth(self, device: Any, enable: Any) -> None:
        both(tf.config.experimental.set_memory_growth, self.model.set_growth, device, enable)

    @rule(enable=st.booleans())
    def set_memory_growth_of_all(self, enable: bool) -> None:
        for gpu in self.model.gpus:
            both(tf.config.experimental.set_memory_growth, self.model.set_growth, gpu, enable)

    @rule(device=devices(), configured=configurations())
    def set_logical_device_configuration(self, device: Any, configured: Any) -> None:
        both(tf.config.set_logical_device_configuration, self.model.set_logical, device, configured)

    @rule(which=st.sampled_from(["intra", "inter"]), number=st.sampled_from([None, 0, 1, 2]))
    def set_threads(self, which: str, number: int | None) -> None:
        ours = getattr(tf.config.threading, f"set_{which}_op_parallelism_threads")
        both(ours, lambda n: self.model.set_threads(which, n), number)

    @rule(
        getter=st.sampled_from(
            [tf.config.get_soft_device_placement, tf.debugging.get_log_device_placement, tf.config.optimizer.get_jit]
        )
    )
    def read_the_configuration(self, getter: Any) -> None:
        both(getter, self.model.evaluate)

    @rule()
    def list_logical_devices(self) -> None:
        both(tf.config.list_logical_devices, self.model.initialize)

    @rule(name=st.sampled_from(["GPU", "CPU:0", "XPU:0"]))
    def ask_for_memory_info_by_a_bad_name(self, name: str) -> None:
        wrong = error_of(self.model.initialize) or WrongError(ValueError, "")
        with pytest.raises(wrong.kind) as caught:
            tf.config.experimental.get_memory_info(name)
        assert type(caught.value) is wrong.kind
        assert str(caught.value).startswith(wrong.texts)

    @precondition(lambda self: self.model.initialized)
    @rule()
    def start_over(self) -> None:
        tf.reset()
        self.model = Model(len(self.model.gpus))

    @invariant()
    def getters_agree(self) -> None:
        compare_getters(self.model)

    @precondition(lambda self: self.model.initialized)
    @invariant()
    def logical_devices_agree(self) -> None:
        compare_logical_devices(self.model)


def test_any_sequence_of_calls_does_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    Configuration.environment = monkeypatch
    run_state_machine_as_test(
        Configuration, settings=settings(max_examples=settings().max_examples * 2, stateful_step_count=25)
    )


@st.composite
def whole_configurations(draw: st.DrawFn) -> tuple[int, Any, list[Any], list[Any]]:
    """A number of GPUs, the visible devices, a growth for each GPU, and optionally a logical configuration for each
    device.
    """
    gpus = draw(st.sampled_from([0, 1, 2, 3, 3]))
    some = st.lists(st.sampled_from([CPU, *GPUS[:gpus]]), max_size=4)
    shown = draw(st.one_of(st.none(), some, some.map(lambda devices: [CPU, *devices])))
    growth = draw(st.lists(st.sampled_from([None, None, True, False, 1, 2]), min_size=gpus, max_size=gpus))
    limited = st.sampled_from([1, 7, 10.9]).map(L)
    urgent = st.builds(L, st.sampled_from([1, 10]), st.sampled_from([0, -1, -5] * 3 + [-6, 1, None]), st.none())
    ordered = st.builds(L, st.sampled_from([1, 2, 3, 4]), st.none(), st.sampled_from([1, 2, 3] * 4 + [None]))
    kind = draw(st.sampled_from([limited, urgent, ordered, st.one_of(limited, urgent, ordered)]))
    each = draw(
        st.sampled_from([st.none(), st.lists(kind, min_size=1, max_size=3), st.none() | st.lists(kind, max_size=2)])
    )
    logical = [
        draw(st.sampled_from([None, None, None, [L()], [L(), L()], []])),
        *draw(st.lists(each, min_size=gpus, max_size=gpus)),
    ]
    return gpus, shown, growth, logical


@settings(max_examples=settings().max_examples * 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configuration=whole_configurations())
def test_initialization_makes_of_a_configuration_what_the_model_says(
    monkeypatch: pytest.MonkeyPatch, configuration: tuple[int, Any, list[Any], list[Any]]
) -> None:
    gpus, shown, growth, logical = configuration
    model = fresh(gpus, monkeypatch)
    if shown is not None:
        both(tf.config.set_visible_devices, model.set_visible, shown, None)
    for gpu, enable in zip(model.gpus, growth, strict=True):
        if enable is not None:
            both(tf.config.experimental.set_memory_growth, model.set_growth, gpu, enable)
    for device, configured in zip(model.physical, logical, strict=True):
        if configured is not None:
            both(tf.config.set_logical_device_configuration, model.set_logical, device, configured)
    both(tf.config.get_soft_device_placement, model.evaluate)
    both(tf.config.list_logical_devices, model.initialize)
    compare_getters(model)
    if model.initialized:
        compare_logical_devices(model)
        compare_first_regions(model)


def compare_first_regions(model: Model) -> None:
    """Compare the growth in force with the model: it determines a pool's first reservation."""
    grows = not model.logical and bool(model.seen()) and bool(model.growth[model.seen()[0]])
    for number, limit in enumerate(model.limits):
        tf.memory.allocate(1, f"GPU:{number}").free()
        assert tf.memory.stats(f"GPU:{number}").bytes_reserved == (2 * MIB if grows else limit)
