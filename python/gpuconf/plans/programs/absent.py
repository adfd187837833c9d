# SPDX-License-Identifier: Apache-2.0
"""What a program that failed wanted from the network: a model or data set that is not on this machine, or an address.

The errors of libraries seldom name it. The calls that raised them have it as a variable.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from types import FrameType

from ..._typing import Any

# Of huggingface_hub, datasets, requests, httpx, urllib3, urllib and Python. A name is enough: none is imported for it.
_ABSENT = ("LocalEntryNotFoundError", "OfflineModeIsEnabled")
_OF_NETWORK = (
    "URLError",
    "gaierror",
    "ConnectionError",
    "ConnectError",
    "ConnectTimeout",
    "NewConnectionError",
    *_ABSENT,
)
# Where such an error became the text of another.
_WORDS = ("urlopen error", "name resolution", "Name or service not known", "Unable to find 'http")
_URL = re.compile(r"(?:https?|ftp)://(?!localhost|127\.|\[::1\])[^\s,'\"<>)]+")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")  # of a repository on the hub
_LOCALS = ("repo_id", "path_or_repo_id", "pretrained_model_name_or_path", "path")  # that hold one
_HUBS = ("huggingface_hub", "transformers", "diffusers", "datasets", "timm", "sentence_transformers")


def absent(error: BaseException) -> tuple[str, str] | None:
    """Return what a program lacks, and a command that gets it, or "" if there is none.

    None if it failed for another reason.
    """
    errors = list(_chain(error))
    frames = [frame for one in errors for frame in _frames(one)]
    kinds = {kind.__name__ for one in errors for kind in type(one).__mro__}
    named = min(filter(None, map(_repository, frames)), key=lambda one: one[0], default=None)
    if named is not None and (not kinds.isdisjoint(_OF_NETWORK) or _says_so(error)):
        return named[1:]
    in_words = [text for text in map(str, errors) if any(word in text for word in _WORDS)]
    if kinds.isdisjoint(_OF_NETWORK) and not in_words:
        return None
    in_texts = (found[0] for found in map(_URL.search, in_words) if found)
    address = next(filter(None, (*map(_address, frames), *map(_requested, errors), *in_texts)), None)
    return None if address is None else (address, "")


def _says_so(error: BaseException) -> bool:
    """Whether a library of a hub says in words only that it found nothing."""
    return isinstance(error, (OSError, ValueError)) and any(_package(frame) in _HUBS for frame in _frames(error)[:1])


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it, the first one first."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return reversed(found)


def _frames(error: BaseException) -> list[FrameType]:
    """Return the calls of an error, the innermost first."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return frames[::-1]


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _repository(frame: FrameType) -> tuple[int, str, str] | None:
    """Return what a call of a library was to load: how little it says, what it is, and a command that loads it."""
    package, values = _package(frame), frame.f_locals
    name = next((one for one in map(values.get, _LOCALS) if isinstance(one, str)), "")
    if package not in _HUBS or not _NAME.fullmatch(name) or os.path.exists(name):
        return None
    if package == "datasets":  # it has a cache of its own, which `hf download` does not fill
        if not frame.f_code.co_name.startswith("load_dataset") or name in frame.f_globals.get(
            "_PACKAGED_DATASETS_MODULES", ()
        ):
            return None
        asked = ", ".join(repr(one) for one in (name, values.get("name")) if one and _NAME.fullmatch(one))
        return 0, f"the data set {name}", f'python -c "import datasets; datasets.load_dataset({asked})"'
    kind = values.get("repo_type") or "model"
    words = ["hf", "download", *(() if kind == "model" else ("--repo-type", str(kind))), name]
    cache = getattr(sys.modules.get("huggingface_hub.constants"), "HF_HUB_CACHE", None)
    for option, usual in (("revision", "main"), ("cache_dir", cache), ("local_dir", None)):
        value = values.get(option) if package == "huggingface_hub" else None
        if value is not None and str(value) != usual:
            words += [f"--{option.replace('_', '-')}", str(value)]
    return 2 if kind == "model" else 1, f"the {'data set' if kind == 'dataset' else kind} {name}", shlex.join(words)


def _address(frame: FrameType) -> str | None:
    return _url(frame.f_locals.get("url") or frame.f_locals.get("fullurl"))


def _requested(error: Any) -> str | None:
    return _url(getattr(getattr(error, "request", None), "url", None))


def _url(value: Any) -> str | None:
    found = _URL.match(str(getattr(value, "full_url", value)))  # urllib has requests instead
    return found and found[0]
