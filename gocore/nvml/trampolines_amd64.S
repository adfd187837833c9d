//go:build cgo && linux

#define JUMP(entry) jmp *entry(%rip)

#include "trampolines_table.h"
