"""ConfigProto and what it contains, beside TensorFlow's: the table of fields, and random calls on both.

Each step calls the same method with the same arguments on a message of gpuconf and on one of Protocol Buffers, at the
same place. Then values, classes of errors, the beginnings of their messages, and what the whole message prints must be
equal.
"""

import math
import random
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import message as protobuf
from gpuconf.compat import _proto
from gpuconf.compat._fields import Enum
from gpuconf.compat._message import Message
from tensorflow.core.framework import device_attributes_pb2
from tensorflow.core.protobuf import config_pb2

from .outcomes import Tally

_TYPES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
}


def their_messages(*roots: Any) -> dict[str, Any]:
    """Return the descriptors of messages and of all that they contain, without the entries of maps."""
    found: dict[str, Any] = {}
    todo = list(roots)
    while todo:
        descriptor = todo.pop()
        if descriptor.full_name not in found:
            found[descriptor.full_name] = descriptor
            todo += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return {name: each for name, each in found.items() if not each.GetOptions().map_entry}


def _type_of(field: Any) -> str:
    named = field.message_type or field.enum_type
    return named.full_name.removeprefix("tensorflow.") if named is not None else _TYPES[field.type]


def described(descriptor: Any) -> list[str]:
    """Return TensorFlow's fields as ``messages.proto`` writes them."""
    lines = []
    for field in descriptor.fields:
        kind = ("repeated " if field.is_repeated else "") + _type_of(field)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            kind = f"map<{_type_of(key)}, {_type_of(value)}>"
        oneof = "" if field.containing_oneof is None else f"oneof {field.containing_oneof.name}: "
        lines.append(f"{oneof}{kind} {field.name} = {field.number}")
    return lines


def our_fields(message: type[Message]) -> list[str]:
    """Return gpuconf's fields in the same form."""
    lines = []
    for field in message.FIELDS.values():
        named = field.message.DESCRIPTOR if field.message is not None else field.enum
        kind = named.full_name.removeprefix("tensorflow.") if named is not None else field.kind
        if field.key is not None:
            kind = f"map<{field.key.kind}, {kind}>"
        elif field.is_repeated:
            kind = f"repeated {kind}"
        lines.append(f"{'' if field.oneof is None else f'oneof {field.oneof}: '}{kind} {field.name} = {field.number}")
    return lines


def our_names(namespace: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the messages, or the enums, of a module or a message, by their names without the package."""
    for name, value in vars(namespace).items():
        if isinstance(value, type) and issubclass(value, Message) and value.FIELDS and not name.endswith("Entry"):
            yield from [(value.__qualname__, value)] if kind is Message else []
            yield from our_names(value, kind)
        elif kind is Enum and isinstance(value, Enum):
            yield value.full_name.removeprefix("tensorflow."), value


def differing_fields() -> Iterator[str]:
    """Yield where the table and TensorFlow's descriptors differ."""
    theirs = {
        name.removeprefix("tensorflow."): descriptor
        for name, descriptor in their_messages(
            config_pb2.ConfigProto.DESCRIPTOR, device_attributes_pb2.DeviceAttributes.DESCRIPTOR
        ).items()
    }
    ours = dict(our_names(_proto, Message))
    ours = {name: message for name, message in ours.items() if name not in ("GraphDef", "NodeDef", "VersionDef")}
    if theirs.keys() != ours.keys():
        yield f"messages: {sorted(theirs.keys() ^ ours.keys())}"
    for name in sorted(theirs.keys() & ours.keys()):
        lines = our_fields(ours[name])
        if lines != described(theirs[name]):
            yield f"{name}: {sorted(set(lines) ^ set(described(theirs[name])))}"
    enums = {}
    for descriptor in theirs.values():
        for enum in [
            *descriptor.enum_types,
            *(field.enum_type for field in descriptor.fields if field.enum_type is not None),
        ]:
            enums[enum.full_name.removeprefix("tensorflow.")] = [(value.name, value.number) for value in enum.values]
    our_enums = {name: enum.items() for name, enum in our_names(_proto, Enum)}
    for name in sorted(enums.keys() | our_enums.keys()):
        if enums.get(name) != our_enums.get(name):
            yield f"{name}: {enums.get(name)} != {our_enums.get(name)}"


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64),
    *(0.0, -0.0, 0.1, 1 / 3, 1.5, 1e300, 1e-50, 16777217.0, 123456.789, math.nan, math.inf, -math.inf),
    *("", "GPU", "a\"b'c\\d\n\t\x01\x7f", "é☃", "L0", "ON", "DT_FLOAT", b"", b"BFC", b"\xff\x00", b"\xc3\xa9"),
    "\ud800",
    *([], [1, 2], ["a"], [b"x"], [1.5, math.nan], [None]),
    *({}, {"a": 1}, {1: "a"}, {"num_threads": 3}, {"nonsense": 1}, object, 1j),
]  # fmt: skip


def outcome(call: Any) -> tuple[str, str]:
    """Return what a call returns or raises, as text without what differs by design."""
    try:
        result = call()
    except Exception as error:
        kinds = {each.__name__ for each in type(error).__mro__}
        kind = next(name for name in _KINDS if name in kinds)
        return kind, re.sub(r"<class '[\w.]*?\.?(\w+)'>", r"<class \1>", str(error))
    return "", shown(result)


_KINDS = tuple(
    """
    AttributeError IndexError KeyError NotImplementedError OverflowError TypeError ValueError SystemError
""".split()
)


def shown(value: Any) -> str:
    """Return a value as text. The entries of maps have no order."""
    if isinstance(value, (Message, protobuf.Message)):
        return str([(f.name, shown(v)) for f, v in value.ListFields()]) if _has_long_map(value) else repr(value)
    if hasattr(value, "items"):
        return str(sorted((repr(k), shown(v)) for k, v in value.items()))
    if hasattr(value, "append") or isinstance(value, tuple):
        return str([shown(each) for each in value])
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(value)


def _has_long_map(message: Any) -> bool:
    for field, value in message.ListFields():
        if hasattr(value, "items"):
            if len(value) > 1 or (
                field.message_type.fields[1].message_type and any(map(_has_long_map, value.values()))
            ):
                return True
        elif field.message_type is not None and any(map(_has_long_map, value if field.is_repeated else [value])):
            return True
    return False


class Pair:
    """The same place in both messages, and how to name it."""

    def __init__(self, theirs: Any, ours: Any, path: str) -> None:
        self.theirs, self.ours, self.path = theirs, ours, path


def steps(rng: random.Random) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Yield the calls of one story on one message, and what became of each."""
    root_name = rng.choice(
        ["ConfigProto", "ConfigProto", "GPUOptions", "AttrValue", "RewriterConfig", "JobDef", "TensorProto"]
    )
    their_class, our_class = _theirs(root_name), getattr(_proto, root_name)
    pairs = [Pair(their_class(), our_class(), "m"), Pair(their_class(), our_class(), "n")]
    roots = list(pairs)
    for _ in range(rng.randrange(1, 25)):
        pair = rng.choice(pairs)
        if isinstance(pair.ours, Message):
            call, run = _message_step(rng, pair, pairs)
        else:
            call, run = _container_step(rng, pair, pairs)
        theirs, ours = outcome(lambda: run("theirs")), outcome(lambda: run("ours"))  # noqa: B023
        yield call, theirs, ours
        if theirs[0] and not isinstance(pair.ours, Message):
            return
        if theirs[0]:
            # Protocol Buffers have made it present; in gpuconf a failed call changes nothing.
            for side in (pair.theirs, pair.ours):
                side.SetInParent()
        for root in roots:
            yield f"{call}; {root.path}", outcome(lambda: root.theirs), outcome(lambda: root.ours)  # noqa: B023
    yield "m == n", outcome(lambda: roots[0].theirs == roots[1].theirs), outcome(lambda: roots[0].ours == roots[1].ours)


def _theirs(name: str) -> Any:
    from google.protobuf import message_factory

    descriptor = their_messages(config_pb2.ConfigProto.DESCRIPTOR)[f"tensorflow.{name}"]
    return message_factory.GetMessageClass(descriptor)


def _message_step(rng: random.Random, pair: Pair, pairs: list[Pair]) -> tuple[str, Any]:
    fields = list(type(pair.ours).FIELDS.values())
    field = rng.choice(fields)
    name = field.name if rng.random() < 0.97 else rng.choice(["nonsense", "value", 3])
    kind = rng.choice("set set set read read read has clear list merge copy make oneof parent wipe".split())
    value = rng.choice(VALUES)
    if field.message is None and rng.random() < 0.7:
        value = _fitting(rng, field.kind)
    if (
        kind == "read"
        and isinstance(name, str)
        and name == field.name
        and (field.message is not None or field.is_repeated)
    ):
        pairs.append(Pair(getattr(pair.theirs, name), getattr(pair.ours, name), f"{pair.path}.{name}"))
        return f"{pair.path}.{name}", lambda side: getattr(getattr(pair, side), name)
    if kind in ("merge", "copy"):
        same = [
            each
            for each in pairs
            if type(each.ours) is type(pair.ours) and each.path != pair.path and not _inside(each, pair)
        ]
        if same:
            other = rng.choice(same)
            method = "MergeFrom" if kind == "merge" else "CopyFrom"
            return f"{pair.path}.{method}({other.path})", lambda side: getattr(getattr(pair, side), method)(
                getattr(other, side)
            )
        value = 3
        return f"{pair.path}.MergeFrom(3)", lambda side: getattr(pair, side).MergeFrom(3)
    if kind in ("clear", "wipe"):
        # What was held before is no part any more. Protocol Buffers forget that sometimes.
        pairs[:] = [each for each in pairs if each is pair or not each.path.startswith(f"{pair.path}.")]
        if kind == "clear" and field.oneof is not None and not pair.ours.HasField(field.name):
            kind = "list"
    calls: dict[str, tuple[str, Any]] = {
        "set": (f"{pair.path}.{name} = {value!r}", lambda m: setattr(m, str(name), value)),
        "read": (f"{pair.path}.{name}", lambda m: getattr(m, str(name)) if name == field.name else None),
        "has": (f"{pair.path}.HasField({name!r})", lambda m: m.HasField(name)),
        "clear": (f"{pair.path}.ClearField({name!r})", lambda m: m.ClearField(name)),
        "list": (
            f"{pair.path}.ListFields()",
            lambda m: [(f.name, f.number, f.full_name, shown(v)) for f, v in m.ListFields()],
        ),
        "make": (f"type({pair.path})({name}={value!r})", lambda m: type(m)(**{str(name): value})),
        "oneof": (f"{pair.path}.WhichOneof('value')", lambda m: m.WhichOneof("value")),
        "parent": (f"{pair.path}.SetInParent()", lambda m: m.SetInParent()),
        "wipe": (f"{pair.path}.Clear()", lambda m: m.Clear()),
    }
    text, call = calls[kind]
    return text, lambda side: call(getattr(pair, side))


def _inside(a: Pair, b: Pair) -> bool:
    return a.path.startswith(b.path) or b.path.startswith(a.path)


def _fitting(rng: random.Random, kind: str) -> Any:
    kinds: dict[str, tuple[type, ...]] = {
        "bool": (bool, int),
        "string": (str, bytes),
        "bytes": (bytes,),
        "double": (float, int),
        "float": (float, int),
    }
    fit = [
        v
        for v in VALUES
        if isinstance(v, kinds.get(kind, (int,))) and (kind not in ("int32", "int64") or -(2**31) <= v < 2**31)
    ]
    return rng.choice(fit)


def _container_step(rng: random.Random, pair: Pair, pairs: list[Pair]) -> tuple[str, Any]:
    field = pair.ours._field
    fit = rng.random() < 0.75
    value = _fitting(rng, field.kind) if fit else rng.choice(VALUES)
    if field.key is not None:
        key = _fitting(rng, field.key.kind) if rng.random() < 0.8 else rng.choice(VALUES)
        return _map_step(
            rng, pair, key, rng.choice(["GPU", "", "x"] if field.key.kind == "string" else [0, 1, 7]), value
        )
    index = rng.randrange(-3, 4)
    calls: dict[str, tuple[str, Any]] = {
        "append": (f"append({value!r})", lambda c: c.append(value)),
        "extend": (f"extend([{value!r}])", lambda c: c.extend([value])),
        "extend2": (f"extend({value!r})", lambda c: c.extend(value)),
        "insert": (f"insert({index}, {value!r})", lambda c: c.insert(index, value)),
        "get": (f"[{index}]", lambda c: c[index]),
        "slice": (f"[{index}:]", lambda c: list(c[index:])),
        "set": (f"[{index}] = {value!r}", lambda c: c.__setitem__(index, value)),
        "delete": (f"del [{index}]", lambda c: c.__delitem__(index)),
        "pop": ("pop()", lambda c: c.pop()),
        "remove": (f"remove({value!r})", lambda c: c.remove(value)),
        "reverse": ("reverse()", lambda c: c.reverse()),
        "len": ("len", len),
        "equal": (f"== [{value!r}]", lambda c: c == [value]),
        "clear": ("clear()", lambda c: c.clear()),
    }
    if field.message is not None:
        calls["add"] = ("add()", lambda c: c.add())
        calls["add2"] = calls["add"]
        made = {"theirs": _theirs(field.message.__qualname__)(), "ours": field.message()}
        if rng.random() < 0.2:
            return f"{pair.path}.extend([{field.message.__qualname__}()])", lambda side: getattr(pair, side).extend(
                [made[side]]
            )
    text, call = rng.choice(list(calls.values()))
    return f"{pair.path}.{text}", lambda side: call(getattr(pair, side))


def _map_step(rng: random.Random, pair: Pair, key: Any, fitting: Any, value: Any) -> tuple[str, Any]:
    calls: list[tuple[str, Any]] = [
        (f"[{key!r}]", lambda c: c[key]),
        (f"[{key!r}] = {value!r}", lambda c: c.__setitem__(key, value)),
        (f"[{key!r}] = {value!r}", lambda c: c.__setitem__(key, value)),
        (f"del [{key!r}]", lambda c: c.__delitem__(key)),
        (f"{fitting!r} in", lambda c: fitting in c),
        (f"get({key!r})", lambda c: c.get(key)),
        (f"pop({key!r})", lambda c: c.pop(key)),
        (f"setdefault({key!r}, {value!r})", lambda c: c.setdefault(key, value)),
        ("len", len),
        ("sorted", lambda c: sorted(map(repr, c))),
        ("== {}", lambda c: c == {}),
        ("clear()", lambda c: c.clear()),
    ]
    text, call = rng.choice(calls)
    return f"{pair.path}.{text}", lambda side: call(getattr(pair, side))


def agree(theirs: tuple[str, str], ours: tuple[str, str]) -> bool:
    """Whether both are the same value, or errors of one class, where gpuconf's message begins with TensorFlow's.

    A SystemError is a fault in Protocol Buffers itself, for which there is nothing to compare.
    """
    if theirs[0] == "SystemError":
        return True
    if theirs[0] != ours[0]:
        return False
    return ours[1].startswith(theirs[1]) if theirs[0] else theirs[1] == ours[1]


def run(seed: int, wanted: int, tally: Tally) -> None:
    """Compare the tables, then so many calls."""
    for text in differing_fields():
        tally.different("the table of fields", [text])
    rng = random.Random(seed)
    while tally.compared < wanted:
        story: list[str] = []
        for call, theirs, ours in steps(rng):
            story.append(call)
            if not agree(theirs, ours):
                tally.different(
                    f"{theirs[0]} {ours[0]}", [*story[::3], call, f"TensorFlow: {theirs}", f"gpuconf: {ours}"]
                )
                break
            tally.equal()
