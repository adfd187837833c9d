package blas_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/blas"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/tests_go/machine/computetest"
)

// childEnv makes this program a child that describes what it finds in the folders there.
const childEnv = "GPUCONF_TEST_BLAS_FOLDERS"

func TestMain(m *testing.M) {
	folders, isChild := os.LookupEnv(childEnv)
	if !isChild {
		os.Exit(m.Run())
	}
	about, err := blas.New("", filepath.SplitList(folders)).Describe()
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(about); err != nil {
		panic(err)
	}
}

// compute is what process makes of a library: what it does not take, package host computes.
type compute struct {
	host.Compute
	library *blas.Library
}

func (c compute) Gemm(g gpu.Gemm) error {
	if done, err := c.library.Gemm(g); done || err != nil {
		return err
	}
	return c.Compute.Gemm(g)
}

func device(t *testing.T, library *blas.Library) computetest.Device {
	m, ids := &host.Memory{}, map[uint64]uint64{}
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return computetest.Device{
		Compute: compute{library: library},
		Allocate: func(bytes uint64) uint64 {
			addr, id, err := m.Allocate(bytes)
			require.NoError(t, err)
			ids[addr] = id
			return addr
		},
		Write: func(addr uint64, src []byte) { require.NoError(t, m.CopyFromHost(addr, ids[addr], 0, src)) },
		Read:  func(dst []byte, addr uint64) { require.NoError(t, m.CopyToHost(addr, ids[addr], 0, dst)) },
	}
}

// build compiles cblas.c into folder/name.
func build(t *testing.T, folder, name string, defines ...string) string {
	t.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(strings.Fields(compiler)[0]); err != nil {
		t.Skip("no C compiler")
	}
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	words := append(strings.Fields(compiler), "-O2", "-shared", "-fPIC", "-o", path,
		filepath.Join("testdata", "cblas.c"))
	out, err := exec.Command(words[0], append(words[1:], defines...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}
