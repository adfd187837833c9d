"""What every Python process below ``gpuconf run`` does at its start; ``run`` puts this folder first into ``PYTHONPATH``.

The process may be any Python 3.6 or newer, with or without gpuconf, and most never use a GPU. So this file imports nothing of
gpuconf before it is needed. Then it runs the ``sitecustomize`` that Python would have found without it.
"""

import os
import sys


class _AsTensorFlow:
    """Stands in for gpuconf's finder until the first import of TensorFlow."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> object:
        """Install gpuconf's finder, and ask it."""
        if name != "tensorflow":
            return None
        import importlib.util

        try:
            import gpuconf
        except ImportError as error:
            text = f"gpuconf run --as-tensorflow: gpuconf is not installed for {sys.executable} ({error})"
            raise ImportError(text, name=name) from None
        if self in sys.meta_path:  # type: ignore[comparison-overlap] # else another thread has been here
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        gpuconf.install_as_tensorflow()
        return importlib.util.find_spec(name)


def _run_the_next_one() -> None:
    """Run the sitecustomize that this one hides."""
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if os.environ.get("GPUCONF_AS_TENSORFLOW"):
    if "tensorflow" in sys.modules:  # a .pth file has imported it
        sys.stderr.write(f"gpuconf run --as-tensorflow: TensorFlow itself is already imported when {sys.executable} starts\n")
        os._exit(1)  # an exception would be printed and ignored
    sys.meta_path.insert(0, _AsTensorFlow())  # type: ignore[arg-type]
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
_run_the_next_one()
