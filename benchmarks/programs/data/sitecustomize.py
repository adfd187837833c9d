"""Synthetic data in place of downloads, for the programs of ``programs.json``: this folder is in their PYTHONPATH."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import pickle
import sys
from pathlib import Path
from typing import Any

# Items, of which the last batch is smaller; or as many as a program splits.
TRAIN, TEST = map(int, os.environ.get("ITEMS", "3210 1010").split())
HEAD = bytes([0, 0, 8])  # of MNIST's files: numbers of one byte


def _numbers(*shape: int) -> Any:
    import numpy

    return numpy.random.default_rng(0).integers(0, 255, shape, dtype=numpy.uint8)


def _mnist(data: Any) -> None:
    Path(data.raw_folder).mkdir(parents=True, exist_ok=True)
    for name, count in (("train", TRAIN), ("t10k", TEST)):
        for kind, numbers in (("images-idx3", _numbers(count, 28, 28)), ("labels-idx1", _numbers(count) % 10)):
            sizes = b"".join(size.to_bytes(4, "big") for size in numbers.shape)
            path = Path(data.raw_folder) / f"{name}-{kind}-ubyte"
            path.write_bytes(HEAD + bytes([numbers.ndim]) + sizes + numbers.tobytes())


def _cifar(data: Any) -> None:
    folder = Path(data.root) / data.base_folder
    folder.mkdir(parents=True, exist_ok=True)
    for names, count in ((data.train_list, TRAIN // len(data.train_list)), (data.test_list, TEST)):
        labels = [number % 10 for number in range(count)]
        for name, _ in names:
            fields = {"data": _numbers(count, 3072), "labels": labels, "fine_labels": labels}
            (folder / name).write_bytes(pickle.dumps(fields))
    classes = [f"class {number}" for number in range(100)]
    (folder / data.meta["filename"]).write_bytes(pickle.dumps({data.meta["key"]: classes}))


def _install(module: Any) -> None:
    if module.__name__.endswith("mnist"):
        module.MNIST.download = _mnist
    else:
        module.CIFAR10.download = _cifar
        module.check_integrity = lambda path, _md5=None: Path(path).exists()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, *_: Any) -> Any:
        if name not in ("torchvision.datasets.mnist", "torchvision.datasets.cifar"):
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            _install(module)

        spec.loader.exec_module = executed
        return spec


sys.meta_path.insert(0, _Finder())
