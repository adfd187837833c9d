package ledger

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
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

	mu     sync.Mutex
	files  map[string]*slotFile // guarded by mu; open for reading
	closed bool                 // guarded by mu
}

// Open opens the ledger of a folder. With create, a folder that does not exist, or is empty and belongs to this user, becomes a private
// ledger; otherwise NotFound is returned for those.
func Open(folder string, create bool) (*Ledger, error) {
	l, err := openExisting(folder)
	if !create || status.CodeOf(err) != status.NotFound {
		return l, err
	}
	if err := makePrivate(folder); err != nil {
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
	return &Ledger{folder: filepath.Clean(folder), dir: -1, uid: uint32(unix.Geteuid()), gid: uint32(unix.Getegid()), self: Self(), bell: bell{fd: -1}, files: map[string]*slotFile{}}
}

// makePrivate makes a private ledger of a folder that does not exist, or is empty.
func makePrivate(folder string) error {
	about("mkdir")
	if err := unix.Mkdir(folder, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return newLedger(folder).problem(err, "", "cannot create")
	}
	return fill(folder, false, 0)
}

// InitShared makes a ledger for several users: for those who can reach and write the folder, whose owner becomes the administrator.
// The folder is created if necessary; group, unless it is negative, is the only group that may use it.
func InitShared(folder string, group int) error {
	about("mkdir")
	if err := unix.Mkdir(folder, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return newLedger(folder).problem(err, "", "cannot create")
	}
	return fill(folder, true, group)
}

// fill makes a ledger of an empty folder. The header comes last: before it, there is no ledger, and another call can complete the work.
func fill(folder string, shared bool, group int) error {
	l := newLedger(folder)
	l.Shared = shared
	defer func() { _ = l.Close() }()
	if err := l.openFolder(); err != nil {
		return err
	}
	if err := l.mayFill(); err != nil {
		return err
	}
	words := uint32(0o600)
	text := uint32(0o600)
	if shared {
		words, text = 0o666, 0o644
		if err := l.openToUsers(group); err != nil {
			return err
		}
		if group >= 0 {
			words, text = 0o660, 0o640
		}
	}
	err := l.install(wakeName, words, wordBytes, "\x00")
	if err == nil {
		err = l.install(headerName, text, int64(len(headerText(shared))), headerText(shared))
	}
	if err != nil && l.readHeader() == nil { // another process made the same ledger meanwhile
		return nil
	}
	return err
}

// mayFill refuses a folder of another user, and one that holds something else.
func (l *Ledger) mayFill() error {
	if l.owner != l.uid {
		return status.Errorf(status.FailedPrecondition, "%s belongs to user %d and holds no ledger. Its owner can make one with: gpuconf ledger init --shared %s", l.folder,
			l.owner, l.folder)
	}
	names, err := l.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == headerName && l.Shared {
			return status.Errorf(status.AlreadyExists, "%s is a ledger already", l.folder)
		}
		if name != wakeName && name != headerName && !strings.HasPrefix(name, newPrefix) {
			return status.Errorf(status.FailedPrecondition, "%s is not a ledger, and not empty: it holds %q. Choose an empty or new folder", l.folder, name)
		}
	}
	return nil
}

// openToUsers lets others create files in the folder, and keeps them from removing or renaming those of others.
func (l *Ledger) openToUsers(group int) error {
	mode := uint32(unix.S_ISVTX | 0o777)
	if group >= 0 {
		mode = unix.S_ISVTX | unix.S_ISGID | 0o770
		about("chown")
		if err := unix.Fchown(l.dir, -1, group); err != nil {
			return l.problem(err, "", "cannot give to the group")
		}
	}
	about("chmod")
	if err := unix.Fchmod(l.dir, mode); err != nil {
		return l.problem(err, "", "cannot set the mode of")
	}
	l.mode = mode
	return nil
}

// Folder returns the ledger's folder.
func (l *Ledger) Folder() string { return l.folder }

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
