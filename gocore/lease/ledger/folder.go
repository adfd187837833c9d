// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// openFolder opens the folder and refuses one that another user could change or replace.
func (l *Ledger) openFolder() error {
	if !filepath.IsAbs(l.folder) {
		return status.Errorf(status.InvalidArgument, "the ledger's folder %q must be an absolute path", l.folder)
	}
	fd, err := openAt(unix.AT_FDCWD, l.folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return l.folderProblem(err)
	}
	l.dir = fd
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return l.folderProblem(err)
	}
	l.owner, l.mode = stat.Uid, stat.Mode
	if isOwnPlace(l.folder) && (stat.Uid != l.uid || stat.Mode&0o022 != 0) {
		return status.Errorf(status.FailedPrecondition, "the ledger's folder %s belongs to user %d and has mode "+
			"%04o; it must be yours alone. %s", l.folder, stat.Uid,
			stat.Mode&0o7777, wayOut)
	}
	if err := l.checkPlace(); err != nil {
		return err
	}
	if stat.Mode&0o022 != 0 && stat.Mode&unix.S_ISVTX == 0 {
		return status.Errorf(status.FailedPrecondition, "other users can change the files of %s (mode %04o). For a "+
			"ledger of your own set mode 0700; for one that several users share run: gpuconf ledger init --shared %s",
			l.folder, stat.Mode&0o7777, l.folder)
	}
	return l.checkAbove()
}

// wayOut ends the errors of a folder that another user has taken.
const wayOut = "Set GPUCONF_LEDGER to another folder, or ask the administrator to remove this one, or to run: " +
	"gpuconf ledger init --shared"

// isOwnPlace reports whether a folder is the default one of this user. Everybody can make it before they do.
func isOwnPlace(folder string) bool {
	return filepath.Base(folder) == fmt.Sprintf("gpuconf-%d", unix.Geteuid()) && (filepath.Dir(folder) == "/var/tmp" ||
		filepath.Dir(folder) == "/tmp")
}

func (l *Ledger) folderProblem(err error) error {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR) && isLink(l.folder):
		return status.Errorf(status.FailedPrecondition, "the ledger's folder %s is a symbolic link. Set "+
			"GPUCONF_LEDGER to the folder itself", l.folder)
	case errors.Is(err, unix.ENOENT):
		return status.Errorf(status.NotFound, "there is no ledger: %s does not exist. The first lease creates one",
			l.folder)
	case errors.Is(err, unix.ENOTDIR):
		return status.Errorf(status.FailedPrecondition, "the ledger's folder %s is not a folder", l.folder)
	}
	text := ""
	var stat unix.Stat_t
	if unix.Lstat(l.folder, &stat) == nil && stat.Uid != uint32(unix.Geteuid()) {
		text = fmt.Sprintf(". It belongs to user %d, not to you, and has mode %04o. %s", stat.Uid,
			stat.Mode&0o7777, wayOut)
	}
	return status.Errorf(status.Unavailable, "cannot open the ledger's folder %s: %w%s", l.folder, err, text)
}

// mkdirProblem is the error of creating the folder.
func (l *Ledger) mkdirProblem(err error) error {
	if above := filepath.Dir(l.folder); errors.Is(err, unix.ENOENT) {
		if unix.Access(above, unix.F_OK) == nil { // as in /proc and /sys
			return status.Errorf(status.Unavailable, "cannot create the ledger's folder %s: no folder can be "+
				"created in %s. Set GPUCONF_LEDGER to another folder",
				l.folder, above)
		}
		return status.Errorf(status.FailedPrecondition, "cannot create the ledger's folder %s: %s does not exist. "+
			"Create it, or set GPUCONF_LEDGER to another folder", l.folder, above)
	}
	return l.problem(err, "", "cannot create")
}

func isLink(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK
}

// remote are file systems on which locks or shared mappings do not work between machines, or at all. virtiofs calls
// itself FUSE. The numbers that linux/magic.h lacks are those of the kernel's gfs2, orangefs and vboxsf, and of the
// clients of the others.
var remote = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB", unix.AFS_SUPER_MAGIC: "AFS",
	unix.AFS_FS_MAGIC: "AFS", unix.CEPH_SUPER_MAGIC: "Ceph", unix.CODA_SUPER_MAGIC: "Coda",
	unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9p", 0x01161970: "GFS2", 0x20030528: "OrangeFS",
	0x786f4256:           "vboxsf",
	unix.NCP_SUPER_MAGIC: "NCP", 0x19830326: "BeeGFS", 0xaad7aaea: "PanFS",
}

// RemoteName returns the name of a type of statfs that a ledger refuses, "" for one that it takes.
func RemoteName(kind int64) string {
	return remote[int64(uint32(kind))] // int32 on some machines
}

func (l *Ledger) checkPlace() error {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(l.dir, &stat); err != nil {
		return l.folderProblem(err)
	}
	if name := RemoteName(int64(stat.Type)); name != "" {
		return status.Errorf(status.FailedPrecondition, "the ledger's folder %s is on a network file system or "+
			"another one on which locks may not hold for all programs (%s). A ledger is for one machine: set "+
			"GPUCONF_LEDGER to a local folder", l.folder, name)
	}
	return nil
}

// checkAbove refuses a path that another user could redirect: every folder above belongs to root, to this user or to
// the owner of the ledger, and others cannot write to it, or not rename what is in it.
func (l *Ledger) checkAbove() error {
	fd, err := openAt(l.dir, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
	for path := filepath.Dir(l.folder); err == nil; path = filepath.Dir(path) {
		var stat, parent unix.Stat_t
		if err = unix.Fstat(fd, &stat); err != nil {
			break
		}
		if !l.isSafeAbove(&stat) {
			closeFile(fd)
			return status.Errorf(status.FailedPrecondition, "other users can replace the ledger's folder %s: %s "+
				"belongs to user %d and has mode %04o. Set GPUCONF_LEDGER to another folder",
				l.folder, path, stat.Uid, stat.Mode&0o7777)
		}
		var up int
		up, err = openAt(fd, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		closeFile(fd)
		fd = up
		if err == nil {
			if err = unix.Fstat(up, &parent); err == nil && parent.Ino == stat.Ino && parent.Dev == stat.Dev {
				// It was the root, which is its own parent.
				closeFile(up)
				return nil
			}
		}
	}
	if errors.Is(err, unix.EACCES) { // a folder above cannot be opened: nor can others, unless they own it
		return nil
	}
	return l.folderProblem(err)
}

func (l *Ledger) isSafeAbove(stat *unix.Stat_t) bool {
	writable := uint32(0o022)
	if stat.Uid == l.uid && stat.Gid == l.gid {
		writable = 0o002 // many systems give each user a group of their own, and let it write
	}
	isTrusted := stat.Uid == 0 || stat.Uid == l.owner || stat.Uid == l.uid
	return isTrusted && (stat.Mode&writable == 0 || stat.Mode&unix.S_ISVTX != 0)
}

// problem is the error of a system call on a file of the ledger.
func (l *Ledger) problem(err error, name, what string) error {
	path := filepath.Join(l.folder, name)
	switch {
	case errors.Is(err, unix.ELOOP):
		return status.Errorf(status.FailedPrecondition, "%s is a symbolic link, which a ledger never contains. Do "+
			"not use this ledger", path)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return status.Errorf(status.Unavailable, "%s %s: the disk is full (a ledger takes about 1 MiB for each user)",
			what, path)
	case errors.Is(err, unix.EROFS):
		return status.Errorf(status.Unavailable, "%s %s: the file system is read-only. Set GPUCONF_LEDGER to "+
			"another folder", what, path)
	case errors.Is(err, errShort):
		return damaged(path, "it is truncated")
	case errors.Is(err, unix.ENOENT):
		return status.Errorf(status.NotFound, "there is no ledger in %s: it has no file named %s", l.folder, name)
	}
	return status.Errorf(status.Unavailable, "%s %s: %w", what, path, err)
}

func damaged(path, why string) error {
	return status.Errorf(status.FailedPrecondition, "%s is damaged: %s. gpuconf does not repair it. When no program "+
		"uses the ledger, remove the file", path, why)
}
