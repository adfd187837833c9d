package sim

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Everything that touches raw memory is in this file. Addresses are numbers everywhere else.

// mapReserved maps bytes of address space at exactly addr, without access and without a promise of memory. It
// fails with EEXIST if something is there already.
func mapReserved(addr, bytes uint64) error {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED_NOREPLACE
	got, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(bytes), unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	if uint64(got) != addr {
		// Kernels before 4.17 take the address for a hint and map elsewhere when it is taken.
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

// makeAccessible lets bytes at addr, both multiples of the page, be read and written. Pages are committed when touched.
func makeAccessible(addr, bytes uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(addr), uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE)
	return asError(errno)
}

// decommit returns the pages at addr to the host. They stay mapped and read as zero.
func decommit(addr, bytes uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(addr), uintptr(bytes), unix.MADV_DONTNEED)
	return asError(errno)
}

// memoryFile makes a file that lives in memory only, as long as addresses go: pages are committed when touched.
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

// punch returns the pages of a part of a file to the host. They read as zero where they are still mapped.
func punch(file int, offset, bytes uint64) error {
	return unix.Fallocate(file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(bytes))
}

// mapFile puts a part of a file at addr, instead of what is mapped there.
func mapFile(addr, bytes uint64, file int, offset uint64) error {
	const flags = unix.MAP_SHARED | unix.MAP_FIXED | unix.MAP_NORESERVE
	return mapAt(addr, bytes, flags, uintptr(file), uintptr(offset))
}

// mapBlank puts memory of its own at addr, instead of what is mapped there.
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

// bytesAt is the memory at a device address. The caller keeps it mapped while it uses the slice.
//
// The number is read as a pointer, not converted: vet forbids conversions, since it cannot know that this memory is none of
// Go's. Inlined, the trick makes the compiler of Go 1.26 crash at a copy of constant size ("disjointTypes: one of
// arguments is not a pointer").
//
//go:noinline
func bytesAt(addr, bytes uint64) []byte {
	number := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&number)), int(bytes))
}

// wordsAt is the same memory as words. addr is a multiple of 8.
//
//go:noinline
func wordsAt(addr, words uint64) []uint64 {
	number := uintptr(addr)
	return unsafe.Slice(*(**uint64)(unsafe.Pointer(&number)), int(words))
}

func pageBytes() uint64 { return uint64(unix.Getpagesize()) }
