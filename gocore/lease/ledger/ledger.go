// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	Shared bool // several users may use it; immutable, as are the fields up to mu

	folder string
	dir    int // the open folder
	owner  uint32
	mode   uint32 // of the folder
	header unix.Stat_t
	uid    uint32 // of this process
	gid    uint32
	self   Process
	bell   bell

	// Patience is how long Claim, Look and Publish wait for the grant lock here. A caller that sleeps elsewhere sets it
	// to 0 after Open.
	Patience time.Duration

	mu     sync.Mutex
	files  map[string]*slotFile // guarded by mu; open for reading
	closed bool                 // guarded by mu
	queue  queue                // guarded by mu

	hasLookedBack bool // guarded by mu; for leases of gpuconf 0.2

	directory [entryBytes * slotsInFile]byte // guarded by mu; what is read of a file
}

// Open opens the ledger of a folder. With create, a folder that does not exist, or is empty and belongs to this user,
// becomes a private ledger; otherwise NotFound is returned for those.
func Open(folder string, create bool) (*Ledger, error) {
	l, err := openExisting(folder)
	if !create || status.CodeOf(err) != status.NotFound {
		return l, err
	}
	if err := fill(folder, false, 0); err != nil {
		return nil, err
	}
	return openExisting(folder)
}

func openExisting(folder string) (*Ledger, error) {
	l := newLedger(folder)
	err := l.openFolder()
	if err == nil {
		err = l.readHeader()
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	l.bell = openBell(l.dir)
	return l, nil
}

func newLedger(folder string) *Ledger {
	return &Ledger{folder: filepath.Clean(folder), dir: -1, uid: uint32(unix.Geteuid()), gid: uint32(unix.Getegid()),
		self: Self(), bell: bell{fd: -1}, Patience: patience, files: map[string]*slotFile{}}
}

// MayMake returns why a folder cannot become a private ledger; nil if it can, as far as that shows without a change.
func MayMake(folder string) error {
	l := newLedger(folder)
	defer func() { _ = l.Close() }()
	err := l.openFolder()
	if err == nil {
		return l.mayFill()
	}
	if status.CodeOf(err) != status.NotFound {
		return err
	}
	if err := unix.Access(filepath.Dir(l.folder), unix.W_OK|unix.X_OK); err != nil {
		return l.mkdirProblem(err)
	}
	return nil
}

// InitShared makes a ledger for several users of a new or empty folder, or sets the modes of one again. This user
// becomes its administrator. group, unless it is negative, is the only group that may use it.
func InitShared(folder string, group int) error { return fill(folder, true, group) }

// fill makes a ledger of a folder that does not exist, or is empty. Without the header there is no ledger, and another
// call can complete the work.
func fill(folder string, shared bool, group int) error {
	l := newLedger(folder)
	defer func() { _ = l.Close() }()
	about("mkdir")
	if err := unix.Mkdir(folder, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return l.mkdirProblem(err)
	}
	if err := l.openFolder(); err != nil {
		return err
	}
	if err := l.mayFill(); err != nil {
		return err
	}
	l.Shared = shared
	err := l.install(wakeName, 0o600, wordBytes, "\x00")
	if err == nil {
		err = l.install(headerName, 0o600, int64(len(headerText(shared))), headerText(shared))
	}
	if refusal := l.readHeader(); refusal != nil || err != nil && l.Shared != shared {
		if err == nil {
			err = refusal
		}
		return err
	}
	if l.Shared != shared {
		return status.Errorf(status.FailedPrecondition, "%s is a ledger of one user. Choose another folder for one "+
			"that several users share", l.folder)
	}
	if shared {
		return l.openToUsers(group)
	}
	return nil
}

// mayFill refuses a folder of another user, and one that holds something else.
func (l *Ledger) mayFill() error {
	if l.owner != l.uid {
		return status.Errorf(status.FailedPrecondition, "%s belongs to user %d and holds no ledger. Its owner can "+
			"make one with: gpuconf ledger init --shared %s", l.folder,
			l.owner, l.folder)
	}
	names, err := l.list()
	if err != nil {
		return err
	}
	if slices.Contains(names, headerName) {
		return l.readHeader()
	}
	for _, name := range names {
		if name != wakeName && !strings.HasPrefix(name, newPrefix) {
			return status.Errorf(status.FailedPrecondition, "%s is not a ledger, and not empty: it holds %q. Choose "+
				"an empty or new folder", l.folder, name)
		}
	}
	return nil
}

// openToUsers lets others use the ledger: everybody may read the header, write the wake file, and create files in the
// folder. The sticky bit keeps them from removing or renaming those of others. The folder comes last, when its files
// are complete.
func (l *Ledger) openToUsers(group int) error {
	folder, wake, header := uint32(unix.S_ISVTX|0o777), uint32(0o666), uint32(0o644)
	if group >= 0 {
		folder, wake, header = unix.S_ISVTX|unix.S_ISGID|0o770, 0o660, 0o640
	}
	for _, part := range []struct {
		name string
		mode uint32
	}{{wakeName, wake}, {headerName, header}, {".", folder}} {
		if err := l.grantTo(part.name, part.mode, group); err != nil {
			return l.problem(err, part.name, "cannot set the mode of")
		}
	}
	return nil
}

func (l *Ledger) grantTo(name string, mode uint32, group int) error {
	fd, err := openAt(l.dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer closeFile(fd)
	about("chown")
	if group >= 0 {
		if err := unix.Fchown(fd, -1, group); err != nil {
			return err
		}
	}
	about("chmod")
	return unix.Fchmod(fd, mode)
}

// Folder returns the ledger's folder.
func (l *Ledger) Folder() string { return l.folder }

// Words returns the address of the words of naps, 0 if there are none. It is mapped until the ledger is closed; only
// the kernel may read there, because a hostile process can truncate the file.
func (l *Ledger) Words() uintptr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bell.fd < 0 {
		return 0
	}
	return l.bell.words.address()
}

// usable refuses a closed ledger.
func (l *Ledger) usable() error {
	if l.closed {
		return status.Errorf(status.FailedPrecondition, "the ledger %s was closed", l.folder)
	}
	return nil
}

// Close closes the ledger's files. Claims and the process's figures stay until they are released.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for _, f := range l.files {
		closeFile(f.fd)
	}
	l.files = map[string]*slotFile{}
	l.bell.close()
	if l.dir >= 0 {
		closeFile(l.dir)
	}
	return nil
}
