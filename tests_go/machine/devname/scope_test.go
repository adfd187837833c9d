package devname_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/devname"
)

func TestNestedScopes(t *testing.T) {
	const none = "None"
	for _, row := range []struct {
		name   string
		scopes []string
		want   string
	}{
		{"case 132: a part is inherited alone, so the index stays", []string{"GPU:1", "CPU"}, "LH/device:CPU:1"},
		{"case 133: the job changes, the device stays", []string{"GPU:1", "/job:worker"},
			"/job:worker/replica:0/task:0/device:GPU:1"},
		{"case 134: None is no device", []string{"GPU:1", none}, ""},
		{"case 134: inside None a scope starts again from CPU:0", []string{"GPU:1", none, "GPU"}, "LH/device:GPU:0"},
		{"case 135: the empty text is CPU:0 outside", []string{""}, "LH/device:CPU:0"},
		{"case 135: and changes nothing inside", []string{"GPU:1", ""}, "LH/device:GPU:1"},
		{"any index keeps the index", []string{"GPU:1", "GPU:*"}, "LH/device:GPU:1"},
		{"a type alone starts at index 0", []string{"GPU"}, "LH/device:GPU:0"},
		{"a type that is not normalized survives", []string{"/device:Gpu:3", "/task:4"},
			"/job:localhost/replica:0/task:4/device:Gpu:3"},
		{"numbers without bounds survive", []string{"GPU:99999999999999999999", "/job:w"},
			"/job:w/replica:0/task:0/device:GPU:99999999999999999999"},
	} {
		name := ""
		for _, scope := range row.scopes {
			arg := &scope
			if scope == none {
				arg = nil
			}
			var err error
			name, err = devname.EnterScope(name, arg)
			require.NoError(t, err, row.name)
		}
		want := strings.Replace(row.want, "LH", "/job:localhost/replica:0/task:0", 1)
		require.Equal(t, want, name, row.name)
	}
}

func TestBadScopesAreRefusedOnEntry(t *testing.T) {
	for _, outer := range []string{"", devname.LocalDevice("GPU", 1).String()} {
		_, err := devname.EnterScope(outer, text("bogus"))
		require.EqualError(t, err, "Unknown attribute 'bogus' is encountered while parsing the device spec: 'bogus'.")
	}
}
