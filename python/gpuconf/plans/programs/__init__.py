# SPDX-License-Identifier: Apache-2.0
"""A program on a simulated GPU without a limit: what it needs, before there is a card.

``start.py`` starts the program and ends it. ``inside.py`` runs in each of its Python processes. ``answer.py`` says what
was found.
"""
