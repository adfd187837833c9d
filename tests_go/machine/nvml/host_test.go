package nvml_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/nvml"
)

func TestHosts(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(target)}
	}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, row := range []struct {
		name string
		root fstest.MapFS
		want nvml.Host
	}{
		{"a plain machine", fstest.MapFS{
			"proc/self/ns/pid":          link("pid:[4026531836]"),
			"proc/sys/kernel/osrelease": file("6.8.0-45-generic\n"),
		}, nvml.Host{}},
		{"a container", fstest.MapFS{"proc/self/ns/pid": link("pid:[4026532441]")}, nvml.Host{PIDNamespace: true}},
		{"WSL by its kernel", fstest.MapFS{
			"proc/self/ns/pid":          link("pid:[4026531836]"),
			"proc/sys/kernel/osrelease": file("5.15.153.1-microsoft-standard-WSL2\n"),
		}, nvml.Host{WSL: true}},
		{"WSL with a kernel of one's own", fstest.MapFS{"dev/dxg": file("")}, nvml.Host{WSL: true}},
		{"nothing can be read", fstest.MapFS{}, nvml.Host{}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, nvml.ReadHost(row.root)) })
	}
}
