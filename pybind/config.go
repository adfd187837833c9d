// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// configure runs fn with the configuration of the listed devices.
func configure(fn func(*config.State) error) error {
	_, err := onManager(func(m *devmgr.Manager) (bool, error) { return true, m.Configure(fn) })
	return err
}

// argument is a device as Python passes it: its position in the physical list, or -1 and its repr.
func argument(s *config.State, position int64, repr string) config.Arg {
	physical := s.Physical()
	if position < 0 || position >= int64(len(physical)) {
		return config.Arg{Repr: repr}
	}
	return config.Arg{Device: physical[position]}
}

// VisibleDevices returns the visible devices as positions in the physical list: "0,2,1".
func VisibleDevices() (positions string, err error) {
	defer process.Gate(&err)
	var list []byte
	err = configure(func(s *config.State) error {
		physical := s.Physical()
		for i, d := range s.Visible() {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendInt(list, int64(slices.Index(physical, d)), 10)
		}
		return nil
	})
	return string(list), err
}

// SetVisibleDevices takes [[position, repr], ...]. deviceType is used only if typed.
func SetVisibleDevices(devices string, deviceType string, typed bool) (done bool, err error) {
	defer process.Gate(&err)
	var references [][2]any
	if err := decode(devices, &references); err != nil {
		return false, err
	}
	return true, configure(func(s *config.State) error {
		args := make([]config.Arg, len(references))
		for i, r := range references {
			position, isNumber := r[0].(float64)
			repr, isText := r[1].(string)
			if !isNumber || !isText {
				return status.Errorf(status.Internal, "decoding device %d of a list: not a position and a string", i)
			}
			args[i] = argument(s, int64(position), repr)
		}
		var wanted *string
		if typed {
			wanted = &deviceType
		}
		return s.SetVisible(args, wanted)
	})
}

// MemoryGrowth returns the stored growth of a device, or math.MinInt64 if it is not set.
func MemoryGrowth(position int64, repr string) (growth int64, err error) {
	defer process.Gate(&err)
	growth = math.MinInt64
	err = configure(func(s *config.State) error {
		value, set, err := s.Growth(argument(s, position, repr))
		if set {
			growth = value
		}
		return err
	})
	return growth, err
}

// SetMemoryGrowth stores the growth of a device. badType is the Python type of a value that is neither bool nor int,
// else "".
func SetMemoryGrowth(position int64, repr string, value int64, badType string) (done bool, err error) {
	defer process.Gate(&err)
	return true, configure(func(s *config.State) error {
		return s.SetGrowth(argument(s, position, repr), value, badType)
	})
}

// LogicalConfigured reports whether a device has a logical configuration.
func LogicalConfigured(position int64, repr string) (configured bool, err error) {
	defer process.Gate(&err)
	err = configure(func(s *config.State) error {
		stored, err := s.LogicalConfigs(argument(s, position, repr))
		configured = stored != nil
		return err
	})
	return configured, err
}

// SetLogicalConfiguration stores {"tuple": bool, "items": [[limit, priority, ordinal], ...]}. A limit is a number of
// MiB, null, "inf", "-inf" or "nan", or a number of bytes, "8589934592 bytes".
func SetLogicalConfiguration(position int64, repr string, configuration string) (done bool, err error) {
	defer process.Gate(&err)
	var sent struct {
		Tuple bool
		Items [][3]json.RawMessage
	}
	if err := decode(configuration, &sent); err != nil {
		return false, err
	}
	configs := config.LogicalConfigs{Tuple: sent.Tuple}
	for _, item := range sent.Items {
		one, err := logicalConfig(item)
		if err != nil {
			return false, err
		}
		configs.Items = append(configs.Items, one)
	}
	return true, configure(func(s *config.State) error {
		return s.SetLogicalConfigs(argument(s, position, repr), configs)
	})
}

func logicalConfig(item [3]json.RawMessage) (one config.LogicalConfig, err error) {
	text := strings.Trim(string(item[0]), `"`)
	if number, found := strings.CutSuffix(text, " bytes"); found {
		limit, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			return one, status.Errorf(status.Internal, "decoding a limit in bytes: %w", err)
		}
		one.LimitBytes = &limit
	} else if text != "null" {
		limit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return one, status.Errorf(status.Internal, "decoding a memory limit: %w", err)
		}
		one.MemoryLimitMiB = &limit
	}
	if err := decode(string(item[1]), &one.Priority); err != nil {
		return one, err
	}
	return one, decode(string(item[2]), &one.Ordinal)
}

// DeviceDetails returns what is known of a physical device, a wire.DeviceDetails; null for a CPU.
func DeviceDetails(position int64) (details string, err error) {
	defer process.Gate(&err)
	return send(onManager(func(m *devmgr.Manager) (*wire.DeviceDetails, error) {
		d, ok := m.Details(int(position))
		if !ok {
			return nil, nil
		}
		return &wire.DeviceDetails{Name: d.Name, Major: d.ComputeMajor, Minor: d.ComputeMinor,
			TotalBytes: d.TotalBytes, UUID: d.UUID}, nil
	}))
}

// LimitInForce returns [bytes, why]: the limit that holds, or will hold, for all pools of a physical device together,
// -1 if none is known before the pools are built, and why it is a part of GPUCONF_LIMIT.
func LimitInForce(position int64, env string) (limit string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	return sendJSON(onManager(func(m *devmgr.Manager) ([]any, error) {
		inForce, err := m.InForce(int(position), variables)
		if !inForce.Known {
			return []any{-1, ""}, err
		}
		return []any{inForce.Bytes, inForce.Why}, err
	}))
}

// WhyNoGPU returns why the process has no logical GPU, "" if that is unknown.
func WhyNoGPU() (why string, err error) {
	defer process.Gate(&err)
	return onManager(func(m *devmgr.Manager) (string, error) { return m.WhyNoGPU(), nil })
}
