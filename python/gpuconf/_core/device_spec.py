# SPDX-License-Identifier: Apache-2.0
"""``tf.DeviceSpec``: the parts of a device string."""

from __future__ import annotations

from collections.abc import Callable

from .._typing import Any

# Device types that a string may name without "device:", as in "/gpu:0".
_TYPES = ("CPU", "GPU", "TPU")
_PARTS = ("job", "replica", "task", "device_type", "device_index")


class DeviceSpec:
    """The parts of a device string:
    ``job``, ``replica``, ``task``, ``device_type`` and ``device_index``. A part may be None.

    Use it in place of a device string, as in ``gpuconf.device(spec)``. It cannot be changed: :meth:`replace` and
    :meth:`make_merged_spec` return new ones. ``replica``, ``task`` and ``device_index`` are converted to int; ``"cpu"``
    and ``"gpu"`` become upper case. An index of None stands for any device of the type, written ``*``.

    Raises ValueError or TypeError for a number that ``int`` does not accept.

    >>> DeviceSpec(job="worker", device_type="GPU", device_index=1).to_string()
    '/job:worker/device:GPU:1'
    >>> DeviceSpec.from_string("/gpu:0").device_type
    'GPU'
    """

    __slots__ = ("_device_index", "_device_type", "_job", "_replica", "_task")

    def __init__(
        self, job: Any = None, replica: Any = None, task: Any = None, device_type: Any = None, device_index: Any = None
    ) -> None:
        self._job = _text(job)
        self._replica = _number(replica)
        self._task = _number(task)
        self._device_type = _type(device_type)
        self._device_index = _number(device_index)

    @property
    def job(self) -> str | None:
        """The name of the job."""
        return self._job

    @property
    def replica(self) -> int | None:
        """The index of the replica in the job."""
        return self._replica

    @property
    def task(self) -> int | None:
        """The index of the task in the replica."""
        return self._task

    @property
    def device_type(self) -> str | None:
        """The type, such as ``"GPU"``."""
        return self._device_type

    @property
    def device_index(self) -> int | None:
        """The index of the device among those of its type."""
        return self._device_index

    @classmethod
    def from_string(cls, spec: str) -> Any:
        """Return the spec of a string such as ``"/job:worker/device:GPU:1"``, ``"/gpu:0"`` or ``""``.

        Raises ValueError for an unknown attribute, a second device type, or an index that is not an integer, and
        TypeError if ``spec`` is not a string.
        """
        return cls(**_parse(spec))

    def parse_from_string(self, spec: str) -> Any:
        """Return the spec of a string; see :meth:`from_string`. This spec does not change."""
        return self.from_string(spec)

    def make_merged_spec(self, dev: Any) -> Any:
        """Return a spec with the parts of ``dev``, and this one's where ``dev`` has none.

        Raises TypeError if it is not a spec.
        """
        return type(self)(**_merged(self, dev))

    def replace(self, **kwargs: Any) -> Any:
        """Return a spec with other values of some parts. Raises TypeError for an unknown part."""
        for name in kwargs:
            if name not in _PARTS:
                raise TypeError(f"{name!r} is not a part of a DeviceSpec: the parts are {', '.join(_PARTS)}")
        return type(self)(**{**_parts_of(self), **kwargs})

    def to_string(self) -> str:
        """Return the string, such as ``"/job:worker/device:GPU:1"``. It is empty if all parts are None."""
        parts = [
            f"/{name}:{value}"
            for name, value in (("job", self.job), ("replica", self.replica), ("task", self.task))
            if value is not None
        ]
        if self.device_type is not None:
            parts.append(f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}")
        return "".join(parts)

    def __eq__(self, other: object) -> bool:
        # A spec that can change equals none that cannot, as in TensorFlow.
        return isinstance(other, type(self)) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return f"<DeviceSpec({', '.join(f'{name}={value}' for name, value in _parts_of(self).items())})>"

    def __reduce__(self) -> Any:
        return type(self), tuple(_parts_of(self).values())


def _assignable(part: str) -> Any:
    """Return the property of a part with a setter."""

    def assign(spec: DeviceSpec, value: Any) -> None:
        setattr(spec, f"_{part}", _CONVERSIONS[part](value))

    return vars(DeviceSpec)[part].setter(assign)


class MutableDeviceSpec(DeviceSpec):
    """The ``DeviceSpec`` of TensorFlow 1: its parts can be assigned. See :class:`gpuconf.DeviceSpec`.

    :meth:`parse_from_string` and :meth:`merge_from` change it.

    >>> import gpuconf.compat.v1 as tf
    >>> spec = tf.DeviceSpec(job="worker")
    >>> spec.device_type = "gpu"
    >>> spec.merge_from(tf.DeviceSpec(device_index=1))
    >>> spec.to_string()
    '/job:worker/device:GPU:1'
    """

    __slots__ = ()

    job, replica, task, device_type, device_index = map(_assignable, _PARTS)

    def parse_from_string(self, spec: str) -> MutableDeviceSpec:
        """Take all parts from a string and return this spec.

        Raises as :meth:`from_string`, and then changes nothing.
        """
        self._take(_parse(spec))
        return self

    def merge_from(self, dev: Any) -> None:
        """Take the parts that ``dev`` has. Raises TypeError if it is not a spec."""
        self._take(_merged(self, dev))

    def _take(self, parts: dict[str, Any]) -> None:
        parsed = DeviceSpec(**parts)
        for name in _PARTS:
            setattr(self, f"_{name}", getattr(parsed, name))

    def __hash__(self) -> int:
        return super().__hash__()


DeviceSpec.__module__, MutableDeviceSpec.__module__ = "gpuconf", "gpuconf.compat.v1"
MutableDeviceSpec.__name__ = MutableDeviceSpec.__qualname__ = "DeviceSpec"


def name_of(device: Any) -> Any:
    """Return the string of a DeviceSpec, and any other argument as it is."""
    return device.to_string() if isinstance(device, DeviceSpec) else device


def _parts_of(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in _PARTS}


def _merged(spec: Any, other: Any) -> dict[str, Any]:
    if not all(hasattr(other, name) for name in _PARTS):
        raise TypeError(f"dev must be a DeviceSpec, but got {type(other).__name__}")
    own, parts = _parts_of(spec), _parts_of(other)
    return {name: own[name] if parts[name] is None else parts[name] for name in _PARTS}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _type(value: Any) -> str | None:
    return value.upper() if value in ("cpu", "gpu") else _text(value)


def _number(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except TypeError as error:
        raise TypeError(str(error)) from None
    except (ValueError, OverflowError) as error:
        raise ValueError(str(error)) from None


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "job": _text,
    "replica": _number,
    "task": _number,
    "device_type": _type,
    "device_index": _number,
}


def _parse(spec: str | None) -> dict[str, Any]:
    """Return the parts that a string sets."""
    if not isinstance(spec, str):
        hash(spec)  # raises TypeError where TensorFlow does, whose cache needs it
        if not spec:
            return {}
        text = f"a device spec must be a string, but got {type(spec).__name__}"
        raise TypeError(text) if hasattr(spec, "split") else AttributeError(text)
    parts: dict[str, Any] = {}
    for attribute in filter(None, spec.split("/")):
        name, *values = attribute.split(":")
        short = name.upper() in _TYPES and len(values) < 2
        if name in ("job", "replica", "task") and len(values) == 1:
            parts[name] = values[0]
        elif short or (name == "device" and len(values) == 2):
            if "device_type" in parts:
                raise ValueError(f"Multiple device types are not allowed while parsing the device spec: {spec}.")
            kind, *index = [name.upper(), *values] if short else values
            parts["device_type"] = kind
            if index and index[0] != "*":
                parts["device_index"] = index[0]
        else:
            raise ValueError(
                f"Unknown attribute '{name}' is encountered while parsing the device spec: '{spec}'. Write a device as "
                "'/job:worker/replica:0/task:0/device:GPU:0', '/device:GPU:0' or '/gpu:0'"
            )
    return parts
