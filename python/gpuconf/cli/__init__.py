"""The command ``gpuconf``, also ``python -m gpuconf``: one file a command."""
