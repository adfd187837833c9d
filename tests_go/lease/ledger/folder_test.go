package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/pool/figures"
	"gpuconf/tests_go/must"
)

func TestFileSystemsOfALedger(t *testing.T) {
	for kind, name := range map[int64]string{
		0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x5346414f: "AFS", 0x6b414653: "AFS",
		0x00c36400: "Ceph", 0x73757245: "Coda",
		0x7461636f: "OCFS2", 0x65735546: "FUSE", 0x01021997: "9p", 0x564c: "NCP", 0x0bd00bd0: "Lustre",
		0x47504653: "GPFS",
		0xef53:     "", unix.TMPFS_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "",
		unix.OVERLAYFS_SUPER_MAGIC: "", unix.RAMFS_MAGIC: "",
		unix.F2FS_SUPER_MAGIC: "", 0x2fc12fc1: "", // ZFS
	} {
		require.Equal(t, name, ledger.RemoteName(kind), "%#x", kind)
		require.Equal(t, name, ledger.RemoteName(int64(int32(kind))), "%#x", kind)
	}
}

// The default folder of a user, which another one made first.
func TestADefaultFolderThatAnotherUserTookIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	const user = 54321 // not in use
	folder := fmt.Sprintf("/var/tmp/gpuconf-%d", user)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Skipf("cannot make the folder: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	for _, one := range []struct {
		owner int
		mode  os.FileMode
	}{{bob, 0o700}, {bob, 0o755}, {bob, os.ModeSticky | 0o777}, {user, 0o770}} {
		require.NoError(t, os.Chown(folder, one.owner, one.owner))
		require.NoError(t, os.Chmod(folder, one.mode))
		output, err := role("as", user, user, "hold", folder, 1).CombinedOutput()
		require.Error(t, err, "%s", output)
		mode := one.mode.Perm()
		if one.mode&os.ModeSticky != 0 {
			mode |= 0o1000
		}
		require.Regexp(t, fmt.Sprintf("%s.* belongs to user %d,? .*has mode %04o.* Set GPUCONF_LEDGER to another "+
			"folder, or ask the administrator to remove "+
			"this one, or to run: gpuconf ledger init --shared", folder, one.owner, uint32(mode)), string(output))
		require.Empty(t, must.OK(os.ReadDir(folder))(t))
	}
	require.NoError(t, os.Chown(folder, user, user))
	require.NoError(t, os.Chmod(folder, 0o700))
	_, line := start(t, "as", user, user, "hold", folder, 1)
	require.Equal(t, "granted: true", line)
}

// Programs that clean up folders for temporary files remove what has been still for days. A new claim touches the
// ledger, as does a timer of a claim that lasts.
func TestAClaimTouchesTheLedger(t *testing.T) {
	l := private(t)
	first := claim(t, l, request(1, card("A", gib)))
	names := []string{"."}
	entries := must.OK(os.ReadDir(l.Folder()))(t)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Len(t, names, 4, "the folder, the header, the wake file and a slot file")
	old := time.Now().AddDate(0, 0, -100)
	for _, name := range names {
		require.NoError(t, os.Chtimes(filepath.Join(l.Folder(), name), old, old))
	}
	second := claim(t, l, request(1, card("A", gib)))
	for _, name := range names {
		at := must.OK(os.Stat(filepath.Join(l.Folder(), name)))(t)
		require.Less(t, time.Since(at.ModTime()), time.Hour, name)
	}
	first.Release()
	second.Release()
}

// A report of a full card lists who else has memory of it: not this process, nor the claim that it runs under.
func TestAProcessIsNotItsOwnNeighbor(t *testing.T) {
	l := private(t)
	mine := claim(t, l, request(1, card("A", 10*gib)))
	published := must.OK(l.Publish(mine.ID(), ledger.Text{Name: "me"}))(t)
	defer published.End()
	pools := must.OK(published.SetPools([]figures.Place{{UUID: "A"}}))(t)
	pools[0].Libraries[holder.Torch] = gib

	found := must.OK(published.Neighbors("A"))(t)
	require.Empty(t, found)

	outside := must.OK(l.Publish(ledger.ID{}, ledger.Text{Name: "me, without a claim"}))(t)
	defer outside.End()
	more := must.OK(outside.SetPools([]figures.Place{{UUID: "A"}}))(t)
	more[0].Libraries[holder.Torch] = gib
	other := request(1, card("A", 5*gib))
	other.Text.Name = "other"
	claim(t, l, other)
	found = must.OK(published.Neighbors("A"))(t)
	require.Len(t, found, 1)
	require.Equal(t, []any{"other", uint64(5 * gib)}, []any{found[0].Name, found[0].Leased})
}
