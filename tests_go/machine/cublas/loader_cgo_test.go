//go:build cgo && linux && (amd64 || arm64)

package cublas_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cublas"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakecublas"
	"gpuconf/tests_go/machine/fakecuda"
)

// report is a child's report about one product, which is 6, and the location of its cuBLAS.
type report struct {
	Code, Error string
	Product     float32
	Library     string
}

// beChild runs the job in childEnv: "product" or "wide"; after a colon the folders of the wheels.
func beChild() {
	job, folders, _ := strings.Cut(os.Getenv(childEnv), ":")
	driver := attempt.Get(cuda.Open())
	attempt.Do(driver.ContextRetain(0))
	pool := &scratch{driver: driver}
	compute := cublas.New(driver.(cublas.Driver), strings.Fields(folders)).On(0, pool)
	var r report
	var err error
	if job == "wide" {
		err = wide(driver, compute)
	} else {
		r.Product, err = product(driver, compute)
	}
	if err != nil {
		r.Code, r.Error = status.CodeOf(err).String(), err.Error()
	}
	r.Library = mapped("libcublas.so")
	attempt.Do(driver.Close())
	attempt.Do(json.NewEncoder(os.Stdout).Encode(r))
}

func product(driver gpu.Driver, compute gpu.Compute) (float32, error) {
	addr := attempt.Get(driver.MemAlloc(0, 12))
	raw := binary.NativeEndian.AppendUint32(nil, math.Float32bits(2))
	attempt.Do(driver.MemcpyHtoD(0, addr, binary.NativeEndian.AppendUint32(raw, math.Float32bits(3))))
	err := compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr + 4, C: addr + 8})
	attempt.Do(driver.MemcpyDtoH(0, raw[:4], addr+8))
	return math.Float32frombits(binary.NativeEndian.Uint32(raw)), err
}

// wide uses sizes and strides beyond 32 bits, and more elements than one call sums.
func wide(driver gpu.Driver, compute gpu.Compute) (err error) {
	defer attempt.Catch(&err)
	fake := attempt.Get(fakecuda.Attach())
	const huge = 1<<31 + 8
	a := attempt.Get(driver.MemAlloc(0, 4*huge+8))
	c := attempt.Get(driver.MemAlloc(0, 4*huge+8))
	for _, g := range []gpu.Gemm{
		{DType: gpu.Float32, M: huge, N: 1, K: 1, A: a, B: a, C: c},
		{DType: gpu.Float32, M: 1, N: huge, K: 1, A: a, B: a, C: c},
		{DType: gpu.Float32, M: 1, N: 1, K: huge, A: a, B: a, C: c},
		{DType: gpu.Float64, M: huge / 2, N: 1, K: 1, A: a, B: a, C: c}, // fits in 32 bits
	} {
		attempt.Do(compute.Gemm(g))
	}
	vector := func(addr, step uint64) gpu.Vector { return gpu.Vector{Addr: addr, Step: step} }
	for _, s := range []gpu.Add{
		{DType: gpu.Float32, Count: 2, Out: vector(c, huge), A: vector(a, 1), B: vector(a, 1)},
		{DType: gpu.Float32, Count: huge, Out: vector(c, 1), A: vector(a, 1), B: vector(a, 1)},
	} {
		attempt.Do(compute.Add(s))
	}
	want := map[string]int{"cublasSgemm_v2_64": 3, "cublasDgemm_v2": 1, "cublasSgeam_64": 1, "cublasSgeam": 3,
		"cublasSgemm_v2": 0}
	for name, count := range want {
		if got := fake.Count(name); got != count {
			return fmt.Errorf("%s was called %d times, not %d", name, got, count)
		}
	}
	return nil
}

// mapped returns the files mapped by this process whose names begin with a prefix.
func mapped(name string) string {
	maps := attempt.Get(os.ReadFile("/proc/self/maps"))
	for _, line := range strings.Split(string(maps), "\n") {
		if fields := strings.Fields(line); len(fields) == 6 && strings.HasPrefix(filepath.Base(fields[5]), name) {
			return fields[5]
		}
	}
	return ""
}

// child runs a job in a process whose loader searches some folders.
func child(t *testing.T, job string, folders []string, environ ...string) report {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = fakecuda.Environ(strings.Join(folders, ":"), append(environ, childEnv+"="+job)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err, "%s", output)
	var r report
	require.NoError(t, json.Unmarshal(output, &r), "%s", output)
	return r
}

// built caches the folders of built libraries, so that each is built once.
var built = map[string]string{}

// once returns a folder with the output of build. Copy it before changing it.
func once(t *testing.T, what string, build func(folder string) error) string {
	t.Helper()
	if built[what] == "" {
		folder := attempt.Get(os.MkdirTemp(os.Getenv(folderEnv), "built"))
		require.NoError(t, build(folder))
		built[what] = folder
	}
	return built[what]
}

// driverFolder contains a driver of some version, and nothing else.
func driverFolder(t *testing.T, version int) string {
	t.Helper()
	return once(t, fmt.Sprint("driver ", version), func(folder string) error {
		if version == 12040 {
			return os.Link(filepath.Join(os.Getenv(folderEnv), "libcuda.so.1"), filepath.Join(folder, "libcuda.so.1"))
		}
		return fakecuda.Build(folder, fakecuda.Options{Version: version})
	})
}

// blasFolder creates a folder for the test and puts a cuBLAS into it.
func blasFolder(t *testing.T, below string, options fakecublas.Options) string {
	t.Helper()
	source := os.Getenv(folderEnv)
	if options.Major != 0 || options.Missing != nil {
		source = once(t, fmt.Sprint("cuBLAS ", options),
			func(folder string) error { return fakecublas.Build(folder, options) })
	}
	folder := filepath.Join(t.TempDir(), below)
	require.NoError(t, os.MkdirAll(folder, 0o700))
	files := attempt.Get(filepath.Glob(filepath.Join(source, "libcublas*")))
	for _, file := range files {
		require.NoError(t, os.Link(file, filepath.Join(folder, filepath.Base(file))))
	}
	return folder
}

func requireWorks(t *testing.T, r report, library string) {
	t.Helper()
	require.Empty(t, r.Error)
	require.Equal(t, float32(6), r.Product)
	require.Equal(t, library, r.Library)
}

func TestNoCublasNamesWhatToInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for _, row := range []struct {
		version     int
		environ     string
		extra, miss string
	}{
		{13000, "", "gpuconf[cublas-cu13]", "libcublas.so.11: cannot open"},
		{13000, "GPUCONF_SIMULATE=V100-16GB", "gpuconf[cublas-cu12]", "libcublas.so.11: cannot open"},
		{12040, "", "gpuconf[cublas-cu12]", "libcublas.so.12: cannot open"},
		{11070, "", "gpuconf[cublas-cu11]", "libcublas.so.11: cannot open"},
	} {
		t.Run(fmt.Sprint(row.version, row.environ), func(t *testing.T) {
			r := child(t, "product", []string{driverFolder(t, row.version)}, row.environ)
			require.Equal(t, "UNAVAILABLE", r.Code)
			require.Contains(t, r.Error, "pip install '"+row.extra+"'")
			require.Contains(t, r.Error, row.miss)
			require.Contains(t, r.Error, `gpuconf.device("CPU:0")`)
		})
	}
}

func TestWhereTheLoaderLooks(t *testing.T) {
	blas := blasFolder(t, "", fakecublas.Options{})
	requireWorks(t, child(t, "product", []string{os.Getenv(folderEnv), blas}), os.Getenv(folderEnv)+"/libcublas.so.12")
	requireWorks(t, child(t, "product", []string{driverFolder(t, 12040), blas}), blas+"/libcublas.so.12")
}

func TestWheelsComeBeforeTheLoader(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	wheel := blasFolder(t, "nvidia/cublas/lib", fakecublas.Options{})
	site := filepath.Dir(filepath.Dir(wheel))
	requireWorks(t, child(t, "product:/nowhere "+site, []string{os.Getenv(folderEnv)}), wheel+"/libcublas.so.12")
	newer := blasFolder(t, "nvidia/cu13/lib", fakecublas.Options{Major: 13})
	both := site + " " + filepath.Dir(filepath.Dir(newer))
	requireWorks(t, child(t, "product:"+both, []string{driverFolder(t, 13000)}), newer+"/libcublas.so.13")
	requireWorks(t, child(t, "product:"+both, []string{driverFolder(t, 12040)}), wheel+"/libcublas.so.12")
	requireWorks(t, child(t, "product:"+both, []string{driverFolder(t, 13000)}, "GPUCONF_SIMULATE=GTX1080Ti"),
		wheel+"/libcublas.so.12")
}

func TestWhatTheProcessHasComesFirst(t *testing.T) {
	theirs := blasFolder(t, "theirs", fakecublas.Options{})
	wheel := blasFolder(t, "nvidia/cublas/lib", fakecublas.Options{})
	preload := "LD_PRELOAD=" + theirs + "/libcublasLt.so.12:" + theirs + "/libcublas.so.12"
	r := child(t, "product:"+filepath.Dir(filepath.Dir(wheel)), []string{os.Getenv(folderEnv)}, preload)
	requireWorks(t, r, theirs+"/libcublas.so.12")
}

func TestALibraryThatIsNoneIsPassedOver(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	broken := blasFolder(t, "nvidia/cublas/lib", fakecublas.Options{Missing: []string{"cublasDgeam"}})
	site := filepath.Dir(filepath.Dir(broken))
	r := child(t, "product:"+site, []string{driverFolder(t, 12040), blasFolder(t, "", fakecublas.Options{Major: 11})})
	require.Empty(t, r.Error)
	require.Equal(t, float32(6), r.Product)

	r = child(t, "product:"+site, []string{driverFolder(t, 12040)})
	require.Equal(t, "UNAVAILABLE", r.Code)
	require.Contains(t, r.Error, broken+"/libcublas.so.12 is not a cuBLAS library: it lacks cublasDgeam")

	require.NoError(t, os.Remove(broken+"/libcublas.so.12"))
	require.NoError(t, os.WriteFile(broken+"/libcublas.so.12",
		[]byte("no library, but long enough to be read as one: an ELF header has "+
			"64 bytes, and these are more than that"), 0o600))
	r = child(t, "product:"+site, []string{driverFolder(t, 12040)})
	require.Equal(t, "UNAVAILABLE", r.Code)
	require.Contains(t, r.Error, "invalid ELF header")
}

// TestSizesBeyond32Bits runs without computing: the operands would not fit into memory.
func TestSizesBeyond32Bits(t *testing.T) {
	environ := []string{"FAKECUBLAS_DRY=1", "FAKECUDA_MEMORY=42949672960"}
	require.Empty(t, child(t, "wide", []string{os.Getenv(folderEnv)}, environ...).Error)
	old := child(t, "wide", []string{driverFolder(t, 12040), blasFolder(t, "", fakecublas.Options{Major: 11})},
		environ...)
	require.Equal(t, "UNIMPLEMENTED", old.Code)
	require.Equal(t, "a product with a size or a step beyond 2147483647 needs cuBLAS 12 or newer, but the loaded "+
		"version is 11.4.5", old.Error)
}
