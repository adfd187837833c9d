// SPDX-License-Identifier: Apache-2.0
//go:build cgo && linux

#define JUMP(entry) jmp *entry(%rip)

#include "trampolines_table.h"
