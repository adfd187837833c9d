// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// simulated is a driver whose machine is the simulator's. It has only what every driver has and the job's budget: no
// captures, no native handles.
type simulated struct {
	gpu.Driver
	machine unsafe.Pointer
	close   sync.Once
}

// OpenSimulator opens a machine of simulated GPUs with the library at path, gocore/sim's libcuda.so.1. A process
// may have several.
//
// It fails with FailedPrecondition if the library must not be loaded here: another user could have written it, the
// program has rights that its caller does not have, or NVIDIA's driver is already loaded. A process has one driver.
func OpenSimulator(path string, cards []SimulatedCard, options SimulatedOptions) (gpu.Driver, error) {
	version, err := loadSimulator(path, options.Version)
	if err != nil {
		return nil, err
	}
	described := make([]C.struct_simulator_card, len(cards)+1)
	for i, card := range cards {
		if err := card.check(i); err != nil {
			return nil, err
		}
		described[i] = C.struct_simulator_card{model: C.int(card.Model), slot: C.int(card.Slot),
			memory: C.uint64_t(card.MemoryBytes), used_by_others: C.uint64_t(card.UsedBytes),
			profile: C.unsigned(card.Profile), lacks: C.unsigned(card.Lacks)}
	}
	var complaint [5120]C.char
	how := C.struct_simulator_options{to_the_byte: 1, version: version, lenient: number(options.OfProcess),
		of_process: number(options.OfProcess)}
	if options.SharedCards != "" {
		how.shared_cards = C.CString(options.SharedCards)
		defer C.free(unsafe.Pointer(how.shared_cards))
	}
	machine := C.simulated_open(&described[0], C.int(len(cards)), &how, &complaint[0], C.size_t(len(complaint)))
	if machine == nil {
		code, text := status.ResourceExhausted, C.GoString(&complaint[0])
		if options.SharedCards != "" && strings.Contains(text, options.SharedCards) ||
			strings.Contains(text, "has started on other") {
			code = status.FailedPrecondition
		}
		return nil, status.Errorf(code, "%s", text)
	}
	d, err := start(version, machine)
	if err != nil {
		C.simulated_close(machine)
		return nil, err
	}
	for i, g := range d.devices {
		g.info.GreatestPriority = cards[i].GreatestPriority // CUDA has no query without a context
	}
	if options.OfProcess {
		C.simulated_use(machine)
	}
	return &simulated{Driver: d, machine: machine}, nil
}

var _ gpu.Budgeted = (*simulated)(nil)

// Budget returns the budget of a job of `gpuconf run` with simulated cards.
func (s *simulated) Budget(ordinal int) (gpu.Budget, bool) {
	return s.Driver.(gpu.Budgeted).Budget(ordinal)
}

// BudgetProcesses returns the processes of such a job.
func (s *simulated) BudgetProcesses(ordinal int) []gpu.Process {
	return s.Driver.(gpu.Budgeted).BudgetProcesses(ordinal)
}

// HostVisible returns true: a device address is a host address, and stays one until Close.
func (s *simulated) HostVisible() bool { return true }

// Machine returns the machine as the library knows it, for tests that look into it.
func (s *simulated) Machine() unsafe.Pointer { return s.machine }

// Close frees what is left, ends all work and unmaps all memory: addresses that the machine returned must not be used
// any more.
func (s *simulated) Close() (err error) {
	s.close.Do(func() {
		err = s.Driver.Close()
		C.simulated_close(s.machine)
	})
	return err
}

// ShippedSimulator returns the path of the simulator's library in the package that this extension module belongs to. It
// returns "", which OpenSimulator refuses, if the loader does not know the module's absolute path: a relative one
// depends on the working directory.
func ShippedSimulator() string {
	here := C.GoString(C.simulated_here())
	if !filepath.IsAbs(here) {
		return ""
	}
	return filepath.Join(filepath.Dir(here), "..", "_simulator", "libcuda.so.1")
}

// GuardedSimulator returns the path of the guard's library that stands before the shipped simulator in a job of
// `gpuconf run`, so that the job's limit counts what this process requests. budget is the path of the job's budget,
// which lies beside it. Without such a job, or if the job's driver is another one, it returns ShippedSimulator().
func GuardedSimulator(budget string) string {
	shipped := ShippedSimulator()
	if budget == "" || shipped == "" {
		return shipped
	}
	behind, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(budget), behindGuard))
	if real, realErr := filepath.EvalSymlinks(shipped); err != nil || realErr != nil || behind != real {
		return shipped
	}
	return filepath.Join(filepath.Dir(budget), "libcuda.so.1")
}

// RefuseBesideDriver returns the error that OpenSimulator would return in a process that has loaded NVIDIA's driver. It
// loads nothing.
func RefuseBesideDriver() error {
	shipped, err := filepath.EvalSymlinks(ShippedSimulator())
	if err != nil {
		return nil // OpenSimulator says what is wrong
	}
	library.Lock()
	defer library.Unlock()
	return refuseOther(filepath.Dir(shipped))
}

// refuseOther refuses a simulation beside a driver that is in none of the simulator's folders, nor in one of the guard
// in front of it.
func refuseOther(simulators ...string) error {
	other := otherDriver(simulators...)
	if other == "" {
		return nil
	}
	why := ""
	if library.version != 0 && library.simulator == "" {
		why = " (to list the GPUs of this machine)"
	}
	return status.Errorf(status.FailedPrecondition, "this process has loaded %s%s, and a process has one driver: "+
		"simulate GPUs before anything loads it, or in another process", other, why)
}

// behindGuard is the name of the link to the driver in the folder of a job's guard.
const behindGuard = "libgpuconf-driver.so"

// trustedFolders returns the folders of the simulator's libraries: of the one that is loaded, and of the one behind it,
// if it is the guard's.
func trustedFolders(path string) ([]string, error) {
	folders := []string{filepath.Dir(path)}
	if behind := filepath.Join(filepath.Dir(path), behindGuard); exists(behind) {
		real, err := trusted(behind)
		if err != nil {
			return nil, err
		}
		folders = append(folders, filepath.Dir(real))
	}
	return folders, nil
}

// loadSimulator loads the library once, as a driver of the given CUDA version, 0 for its own.
func loadSimulator(path string, wanted int) (version C.int, err error) {
	library.Lock()
	defer library.Unlock()
	path, err = trusted(path)
	if err != nil {
		return 0, err
	}
	folders, err := trustedFolders(path)
	if err != nil {
		return 0, err
	}
	if err := refuseOther(folders...); err != nil {
		return 0, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if library.version != 0 && wanted != 0 && int(library.version) != wanted {
		return 0, anotherVersion(library.version, C.int(wanted))
	}
	if library.version == 0 {
		C.simulated_prepare(name, C.int(wanted))
		var answer C.struct_cuda_load_answer
		C.cuda_load(name, &answer)
		switch answer.state {
		case C.CUDA_LOADED:
			library.version, library.simulator = answer.version, path
		case C.CUDA_NO_LIBRARY:
			return 0, status.Errorf(status.Unavailable, "the simulator cannot be loaded: %s",
				C.GoString(&answer.text[0]))
		default:
			return 0, unusable(path, &answer)
		}
	}
	if C.simulated_find(name) == 0 {
		return 0, status.Errorf(status.FailedPrecondition, "%s is not the simulator of this gpuconf: install "+
			"gpuconf again", path)
	}
	return library.version, nil
}

func anotherVersion(started, wanted C.int) error {
	return status.Errorf(status.FailedPrecondition, "this process has started a simulated driver for CUDA %s, and a "+
		"process has one driver: simulate one for CUDA %s in another process", version(started), version(wanted))
}

// simulatorLoaded returns the path of the simulator if it is the process's driver, else "".
func simulatorLoaded() string {
	library.Lock()
	defer library.Unlock()
	return library.simulator
}

// trusted returns the real path of a library that only root and the caller can have written.
func trusted(path string) (string, error) {
	if C.simulated_is_privileged() != 0 {
		return "", status.Errorf(status.FailedPrecondition,
			"GPUs are not simulated in a program with rights that its caller does not have (setuid, file capabilities)")
	}
	if !filepath.IsAbs(path) {
		return "", status.Errorf(status.InvalidArgument, "the simulator's path %q is not absolute", path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", status.Errorf(status.Unavailable, "the simulator's library is missing: %w. Install gpuconf again",
			err)
	}
	file, err := os.Open(path)
	if errors.Is(err, syscall.EMFILE) {
		return "", status.Errorf(status.Unavailable, "the simulator's library cannot be read: %w. "+
			"Close files, or raise the limit of open files (ulimit -n)", err)
	} else if err != nil {
		return "", status.Errorf(status.Unavailable, "the simulator's library cannot be read: %w", err)
	}
	defer file.Close()
	for _, part := range []string{path, filepath.Dir(path)} {
		var facts syscall.Stat_t
		if err := syscall.Stat(part, &facts); err != nil {
			return "", status.Errorf(status.Unavailable, "the simulator's library cannot be read: %s: %w", part, err)
		}
		if why := writers(facts.Uid, facts.Gid, facts.Mode); why != "" {
			return "", status.Errorf(status.FailedPrecondition, "the simulator is not loaded from %s: %s %s. "+
				"Install gpuconf where only its owner can write", path, part, why)
		}
	}
	return path, nil
}

// unmapped is the owner that every file of a user who does not exist in this user namespace has, root's too.
const unmapped = 65534

// writers says which other users can write a file, "" if none. A group with its owner's number is taken as that user's
// own. In a rehearsal's cover (gocore/plan/cover) root may be unmapped. The process that made the cover has loaded the
// same library before, and no one but root can make the cover's folder.
func writers(owner, group, mode uint32) string {
	_, err := os.Stat("/run/gpuconf/environment") // elsewhere than in a cover of overlays only root can make it
	rehearsed := owner == unmapped && err == nil
	switch {
	case owner != 0 && int(owner) != os.Geteuid() && !rehearsed:
		return "belongs to another user"
	case mode&0o002 != 0:
		return "can be written by every user"
	case mode&0o020 != 0 && group != owner:
		return "can be written by its group"
	}
	return ""
}

// otherDriver returns the path of a driver library of NVIDIA's that is mapped, "" if there is none. Those in the
// simulator's folders are not, nor is the guard in front of a simulator. Its caller holds the table's lock.
func otherDriver(simulators ...string) string {
	looked := noOther{uint64(C.loads()), strings.Join(simulators, "\x00")}
	if looked.loads != 0 && looked == library.noOther {
		return "" // the loader has mapped nothing since: to read all mappings takes milliseconds where there are many
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "" // without /proc nothing is known
	}
	for line := range strings.Lines(string(maps)) {
		at := strings.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		path := strings.TrimSpace(line[at:])
		name := filepath.Base(path)
		if (strings.HasPrefix(name, "libcuda.so") || strings.HasPrefix(name, "libnvidia-ml.so")) &&
			!slices.Contains(simulators, filepath.Dir(path)) && !slices.Contains(simulators, behind(path)) {
			return path
		}
	}
	library.noOther = looked
	return ""
}

// noOther is what was loaded, and which folders were the simulator's, when no other driver was mapped.
type noOther struct {
	loads   uint64
	folders string
}

// behind returns the folder of the driver that the guard's library at path stands in front of, "" if it is no guard's.
func behind(path string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(path), behindGuard))
	if err != nil {
		return ""
	}
	return filepath.Dir(real)
}

func number(yes bool) C.int {
	if yes {
		return 1
	}
	return 0
}

// SimulatedCard is a GPU of a simulated machine: a models.Card.
type SimulatedCard struct {
	Model            int    // the place in models.Models, from 1
	Slot             int    // of its machine, from which its bus and its UUID follow
	MemoryBytes      uint64 // as the specification says
	Profile          uint   // models.Profile's words
	GreatestPriority int    // of streams, as the model says
	UsedBytes        uint64 // of its memory, by other processes
	Lacks            uint   // what tests take from it
}

// What a card may lack: virtual memory management, streams that write words and wait for them, managed memory, and
// managed memory beyond the card's.
const (
	LacksVMM              uint = C.LACKS_VMM
	LacksStreamMemOps     uint = C.LACKS_MEMOPS
	LacksManaged          uint = C.LACKS_MANAGED
	LacksOversubscription uint = C.LACKS_OVERSUBSCRIPTION
)

// SimulatedOptions changes a simulated machine.
type SimulatedOptions struct {
	// OfProcess makes it the machine that other libraries of the process find: CUDA's functions use it in every thread.
	OfProcess bool

	// Version is the CUDA version of the driver, such as 12040; 0 is the simulator's own. It is the same for all
	// machines of a process.
	Version int

	// SharedCards is the path of a file through which several processes use the same simulated cards and their memory;
	// "" keeps the cards of this machine to itself. Only this user may have access to the file. A file of other cards
	// has no effect.
	SharedCards string
}

const (
	chargeUnitBytes = 256
	mostCardBytes   = 16 << 40
)

func (card SimulatedCard) check(ordinal int) error {
	total := card.MemoryBytes
	if total == 0 || total > mostCardBytes || total%chargeUnitBytes != 0 {
		return status.Errorf(status.InvalidArgument, "cannot simulate a GPU %d of %d bytes; its memory is a "+
			"multiple of %d bytes, at most 16TiB",
			ordinal, total, chargeUnitBytes)
	}
	if card.UsedBytes > total {
		return status.Errorf(status.InvalidArgument, "%d bytes cannot be in use on a GPU of %d bytes",
			card.UsedBytes, total)
	}
	return nil
}

// uuid is a CUuuid: sixteen bytes, in the order in which they are printed.
type uuid [16]byte

func (u uuid) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// uuidName returns a device's UUID as NVIDIA's tools print it. The driver has no call that identifies MIG instances;
// they are recognized by a UUID that differs from the card's, or by the model's name.
func uuidName(card, instance uuid, model string) string {
	if instance != card || strings.Contains(model, " MIG ") {
		return "MIG-" + instance.String()
	}
	return "GPU-" + card.String()
}

// leastUrgent and mostUrgent are the bounds of stream priorities; see the package comment.
const (
	leastUrgent      = 0
	mostUrgent       = -5 // for compute capability 7.0 and newer
	mostUrgentBefore = -2
)

func priorityRange(supported bool, computeMajor int) (least, greatest int) {
	switch {
	case !supported:
		return 0, 0
	case computeMajor < 7:
		return leastUrgent, mostUrgentBefore
	}
	return leastUrgent, mostUrgent
}
