# SPDX-License-Identifier: Apache-2.0
"""The messages and enums of ``messages.proto``, as classes."""

from ._message import messages_of

globals().update({name: made for name, made in messages_of(__name__, "messages.proto").items() if "." not in name})
