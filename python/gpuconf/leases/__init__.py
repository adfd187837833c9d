# SPDX-License-Identifier: Apache-2.0
"""What several processes of a machine share: the ledger of leases, and the environment of a program that has one."""
