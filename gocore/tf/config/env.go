// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// Env is the environment as read by the caller; a variable that is not set is missing. Each method parses one variable
// as TensorFlow does, so they differ in how they treat case, white space and the empty string.
type Env map[string]string

// AllowGrowth returns whether a GPU's pool grows: as configured, unless TF_FORCE_GPU_ALLOW_GROWTH is exactly "true" or
// "false". That also applies to devices with an explicit limit, for which TensorFlow has no call. GPUCONF_GROWTH, which
// gpuconf.configure sets, takes precedence, and any other text of it is an error.
func (e Env) AllowGrowth(configured bool) (growth bool, notices []Notice, err error) {
	switch text := e["GPUCONF_GROWTH"]; text {
	case "":
	case "true", "false":
		return text == "true", nil, nil
	default:
		err = status.Errorf(status.InvalidArgument, "GPUCONF_GROWTH must be true or false, but got %q", text)
		return false, nil, err
	}
	text, set := e["TF_FORCE_GPU_ALLOW_GROWTH"]
	if !set {
		return configured, nil, nil
	}
	if text != "true" && text != "false" {
		return configured,
			[]Notice{failure("The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be "+
				"parsed: \"%s\". Valid values are \"true\" or \"false\". Using original config value of %s.", text,
				digit(configured))}, nil
	}
	forced := text == "true"
	if forced == configured {
		return configured, nil, nil
	}
	return forced,
		[]Notice{warning("Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable "+
			"is set. Original config value was %s.", digit(configured))}, nil
}

// GarbageCollection reports whether a pool releases free regions before an allocation fails: true unless
// TF_ENABLE_GPU_GARBAGE_COLLECTION is exactly "false".
func (e Env) GarbageCollection() (bool, []Notice) {
	text, set := e["TF_ENABLE_GPU_GARBAGE_COLLECTION"]
	if !set || text == "true" {
		return true, nil
	}
	if text == "false" {
		return false, nil
	}
	return true,
		[]Notice{failure("The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but could not be parsed: "+
			"\"%s\". Valid values are \"true\" or \"false\". Using the default value \"true\".", text)}
}

// Malformed returns the notices about variables that cannot be parsed, or exclude the CPU, by variable.
func (e Env) Malformed() map[string][]Notice {
	_, growth, _ := e.AllowGrowth(e["TF_FORCE_GPU_ALLOW_GROWTH"] == "true")
	_, collection := e.GarbageCollection()
	_, _, reserve := e.systemMemoryMiB()
	_, count := e.minMultiprocessors(enoughMultiprocessors)
	malformed := map[string][]Notice{
		"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": reserve, "TF_ENABLE_GPU_GARBAGE_COLLECTION": collection,
		"TF_FORCE_GPU_ALLOW_GROWTH": growth, "TF_MIN_GPU_MULTIPROCESSOR_COUNT": count,
	}
	if _, _, err := e.EnabledTypes([]string{"CPU"}); err != nil {
		malformed["TF_ENABLED_DEVICE_TYPES"] = []Notice{failure("%s", err)}
	}
	return malformed
}

// systemMemoryMiB parses TF_DEVICE_MIN_SYS_MEMORY_IN_MB, a non-negative number. Empty is the same as not set.
func (e Env) systemMemoryMiB() (value uint64, set bool, notices []Notice) {
	text := e["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"]
	if text == "" {
		return 0, false, nil
	}
	n, err := parseInt(text, 64)
	if err != nil || n < 0 {
		return 0, false,
			[]Notice{warning("The requested reserved device memory %s is invalid. The request will be ignored.", text)}
	}
	return uint64(n), true, nil
}

// minMultiprocessors parses TF_MIN_GPU_MULTIPROCESSOR_COUNT, a non-negative 32-bit number. Empty is the same as not
// set.
func (e Env) minMultiprocessors(byDefault int) (int, []Notice) {
	text := e["TF_MIN_GPU_MULTIPROCESSOR_COUNT"]
	if text == "" {
		return byDefault, nil
	}
	n, err := parseInt(text, 32)
	if err != nil || n < 0 {
		return byDefault,
			[]Notice{failure("Invalid minimum GPU multiprocessor count: [%s]. Using the default value: %d",
				text, byDefault)}
	}
	return int(n), nil
}

// EnabledTypes returns the types that TF_ENABLED_DEVICE_TYPES allows: a comma-separated list of exact names; empty or
// not set allows all. Without the CPU type it returns a NotFound error.
func (e Env) EnabledTypes(types []string) (enabled []string, notices []Notice, err error) {
	text := e["TF_ENABLED_DEVICE_TYPES"]
	allowed := strings.Split(text, ",")
	for _, t := range types {
		if text == "" || slices.Contains(allowed, t) {
			enabled = append(enabled, t)
			continue
		}
		notices = append(notices,
			info("Device factory '%s' disabled by TF_ENABLED_DEVICE_TYPES environment variable.", t))
	}
	if !slices.Contains(enabled, "CPU") {
		err = status.Errorf(status.NotFound, "CPU Factory not registered. Did you link in threadpool_device? "+
			"TF_ENABLED_DEVICE_TYPES is \"%s\", which excludes the CPU", text)
	}
	return enabled, notices, err
}

// parseInt parses a decimal number as TensorFlow does: a sign and surrounding ASCII white space are allowed.
func parseInt(text string, bits int) (int64, error) {
	return strconv.ParseInt(strings.Trim(text, " \t\n\v\f\r"), 10, bits)
}

// digit formats a bool as in TensorFlow's messages.
func digit(value bool) string {
	if value {
		return "1"
	}
	return "0"
}

// Notice is a message for the user that is not an error. The caller logs it.
type Notice struct {
	Level string // "info", "warning", "error" or "mistake", which programs without logging see, too
	Text  string // the message
}

func info(format string, args ...any) Notice { return Notice{"info", fmt.Sprintf(format, args...)} }
func warning(format string, args ...any) Notice {
	return Notice{"warning", fmt.Sprintf(format, args...)}
}
func failure(format string, args ...any) Notice { return Notice{"error", fmt.Sprintf(format, args...)} }
