# SPDX-License-Identifier: Apache-2.0
only = False
