# SPDX-License-Identifier: Apache-2.0
"""The messages and enums of ``messages.proto``, as classes."""

from ._message import messages_of
from ._names import publish

globals().update({name: made for name, made in messages_of(__name__, "messages.proto").items() if "." not in name})


publish(__name__)
