# SPDX-License-Identifier: Apache-2.0
"""The command ``gpuconf``, also ``python -m gpuconf``. Each subcommand has its own file."""
