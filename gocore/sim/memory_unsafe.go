// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// All access to raw memory is in this file. Elsewhere, addresses are numbers.

// mapReserved maps bytes of address space at exactly addr, inaccessible and without reserving memory. It fails with EEXIST if the
// range is in use.
func mapReserved(addr, bytes uint64) error {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED_NOREPLACE
	got, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(bytes), unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	if uint64(got) != addr {
		// Kernels before 4.17 treat the address as a hint and map elsewhere if it is in use.
		_ = unmap(uint64(got), bytes)
		return unix.EEXIST
	}
	return nil
}

// unmap releases a reservation.
func unmap(addr, bytes uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(bytes), 0)
	return asError(errno)
}

// makeAccessible makes bytes at addr, both multiples of the page size, readable and writable. Pages are committed when touched.
func makeAccessible(addr, bytes uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(addr), uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE)
	return asError(errno)
}

// decommit returns the pages at addr to the host. They stay mapped and read as zero.
func decommit(addr, bytes uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(addr), uintptr(bytes), unix.MADV_DONTNEED)
	return asError(errno)
}

// memoryFile creates a file in memory, as large as offsets allow. Pages are committed when touched.
func memoryFile() (file int, err error) {
	const longest = 1 << 62
	file, err = unix.MemfdCreate("gpuconf-simulated-gpu", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	if err := unix.Ftruncate(file, longest); err != nil {
		_ = unix.Close(file)
		return 0, err
	}
	return file, nil
}

func closeFile(file int) error { return unix.Close(file) }

// punch returns the pages of a part of a file to the host. Where they are still mapped, they read as zero.
func punch(file int, offset, bytes uint64) error {
	return unix.Fallocate(file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(bytes))
}

// mapFile maps a part of a file at addr, replacing what is mapped there.
func mapFile(addr, bytes uint64, file int, offset uint64) error {
	const flags = unix.MAP_SHARED | unix.MAP_FIXED | unix.MAP_NORESERVE
	return mapAt(addr, bytes, flags, uintptr(file), uintptr(offset))
}

// mapBlank maps anonymous memory at addr, replacing what is mapped there.
func mapBlank(addr, bytes uint64) error {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED | unix.MAP_NORESERVE
	return mapAt(addr, bytes, flags, ^uintptr(0), 0)
}

func mapAt(addr, bytes uint64, flags, file, offset uintptr) error {
	const access = unix.PROT_READ | unix.PROT_WRITE
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(bytes), access, flags, file, offset)
	return asError(errno)
}

func asError(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// bytesAt returns the memory at a device address. The caller keeps it mapped while it uses the slice.
//
// The number is reinterpreted as a pointer, not converted: vet rejects the conversion, because it cannot know that this memory is
// not Go's. If this is inlined, the compiler of Go 1.26 crashes at a copy of constant size ("disjointTypes: one of arguments is not
// a pointer").
//
//go:noinline
func bytesAt(addr, bytes uint64) []byte {
	number := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&number)), int(bytes))
}

// wordsAt returns the same memory as words. addr is a multiple of 8.
//
//go:noinline
func wordsAt(addr, words uint64) []uint64 {
	number := uintptr(addr)
	return unsafe.Slice(*(**uint64)(unsafe.Pointer(&number)), int(words))
}

func pageBytes() uint64 { return uint64(unix.Getpagesize()) }
