package config

import (
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/status"
)

// Env is the environment that the caller read: a variable that is not set is missing, one that is set to nothing
// is "". The methods read one variable each, as TensorFlow does; they disagree on case, blanks and the empty text.
type Env map[string]string

// Bool reads 0, 1, true or false in any case. Anything else, the empty text too, is an error and gives the default.
func (e Env) Bool(name string, byDefault bool) (bool, []Notice) {
	text, set := e[name]
	if !set {
		return byDefault, nil
	}
	switch strings.ToLower(text) {
	case "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return byDefault, []Notice{failure("Failed to parse the env-var ${%s} into bool: %s. Use the default value: %s",
		name, text, digit(byDefault))}
}

// Int64 reads a decimal number with an optional sign, blanks around it allowed.
func (e Env) Int64(name string, byDefault int64) (int64, []Notice) {
	text, set := e[name]
	if !set {
		return byDefault, nil
	}
	value, err := parseInt(text, 64)
	if err != nil {
		return byDefault, []Notice{failure("Failed to parse the env-var ${%s} into int64: %s. Use the default value: %d",
			name, text, byDefault)}
	}
	return value, nil
}

// AllowGrowth is the growth of a GPU's pool: the configured one, unless TF_FORCE_GPU_ALLOW_GROWTH is exactly "true"
// or "false". It holds for devices with an explicit limit too, for which TensorFlow has no call: GPUCONF_ALLOW_GROWTH, which
// gpuconf.configure sets, comes before it.
func (e Env) AllowGrowth(configured bool) (bool, []Notice) {
	if text := e["GPUCONF_ALLOW_GROWTH"]; text == "true" || text == "false" {
		return text == "true", nil
	}
	text, set := e["TF_FORCE_GPU_ALLOW_GROWTH"]
	if !set {
		return configured, nil
	}
	if text != "true" && text != "false" {
		return configured, []Notice{failure("The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be "+
			"parsed: \"%s\". Valid values are \"true\" or \"false\". Using original config value of %s.", text, digit(configured))}
	}
	forced := text == "true"
	if forced == configured {
		return configured, nil
	}
	return forced, []Notice{warning("Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable "+
		"is set. Original config value was %s.", digit(configured))}
}

// GarbageCollection says whether a pool gives free regions back before it fails: yes, unless
// TF_ENABLE_GPU_GARBAGE_COLLECTION is exactly "false".
func (e Env) GarbageCollection() (bool, []Notice) {
	text, set := e["TF_ENABLE_GPU_GARBAGE_COLLECTION"]
	if !set || text == "true" {
		return true, nil
	}
	if text == "false" {
		return false, nil
	}
	return true, []Notice{failure("The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but could not be parsed: "+
		"\"%s\". Valid values are \"true\" or \"false\". Using the default value \"true\".", text)}
}

// systemMemoryMiB reads TF_DEVICE_MIN_SYS_MEMORY_IN_MB, a number that is not negative. The empty text is as good
// as not set.
func (e Env) systemMemoryMiB() (value uint64, set bool, notices []Notice) {
	text := e["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"]
	if text == "" {
		return 0, false, nil
	}
	n, err := parseInt(text, 64)
	if err != nil || n < 0 {
		return 0, false, []Notice{warning("The requested reserved device memory %s is invalid. The request will be ignored.", text)}
	}
	return uint64(n), true, nil
}

// minMultiprocessors reads TF_MIN_GPU_MULTIPROCESSOR_COUNT, a 32-bit number that is not negative; the empty text
// is as good as not set.
func (e Env) minMultiprocessors(byDefault int) (int, []Notice) {
	text := e["TF_MIN_GPU_MULTIPROCESSOR_COUNT"]
	if text == "" {
		return byDefault, nil
	}
	n, err := parseInt(text, 32)
	if err != nil || n < 0 {
		return byDefault, []Notice{failure("Invalid minimum GPU multiprocessor count: [%s]. Using the default value: %d",
			text, byDefault)}
	}
	return int(n), nil
}

// EnabledTypes keeps of types those that TF_ENABLED_DEVICE_TYPES allows: a comma list of exact names, empty or not
// set for all. A process without the CPU type is a NotFound error.
func (e Env) EnabledTypes(types []string) (enabled []string, notices []Notice, err error) {
	text := e["TF_ENABLED_DEVICE_TYPES"]
	allowed := strings.Split(text, ",")
	for _, t := range types {
		if text == "" || slices.Contains(allowed, t) {
			enabled = append(enabled, t)
			continue
		}
		notices = append(notices, info("Device factory '%s' disabled by TF_ENABLED_DEVICE_TYPES environment variable.", t))
	}
	if !slices.Contains(enabled, "CPU") {
		err = status.Errorf(status.NotFound, "CPU Factory not registered. Did you link in threadpool_device? "+
			"TF_ENABLED_DEVICE_TYPES is \"%s\", which excludes the CPU", text)
	}
	return enabled, notices, err
}

// parseInt reads a decimal number as TensorFlow does: a sign and ASCII blanks around it are fine.
func parseInt(text string, bits int) (int64, error) {
	return strconv.ParseInt(strings.Trim(text, " \t\n\v\f\r"), 10, bits)
}

// digit writes a bool as TensorFlow's messages do.
func digit(value bool) string {
	if value {
		return "1"
	}
	return "0"
}
