"""The command ``gpuconf``, also ``python -m gpuconf``. Each subcommand has its own file."""
