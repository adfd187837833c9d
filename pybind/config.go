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
	"gpuconf/pybind/wire"
)

// argument is a device as Python passes it: its position in the physical list, or -1 and its repr.
func argument(s *config.State, position int64, repr string) config.Arg {
	physical := s.Physical()
	if position < 0 || position >= int64(len(physical)) {
		return config.Arg{Repr: repr}
	}
	return config.Arg{Device: physical[position]}
}

// VisibleDevices returns the visible devices as positions in the physical list.
func (calls) VisibleDevices(m *devmgr.Manager) (positions []int, err error) {
	return positions, m.Configure(func(s *config.State) error {
		physical := s.Physical()
		for _, d := range s.Visible() {
			positions = append(positions, slices.Index(physical, d))
		}
		return nil
	})
}

// SetVisibleDevices takes [[position, repr], ...]. deviceType is used only if typed.
func (calls) SetVisibleDevices(m *devmgr.Manager, devices [][2]any, deviceType string, typed bool) error {
	return m.Configure(func(s *config.State) error {
		args := make([]config.Arg, len(devices))
		for i, r := range devices {
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
func (calls) MemoryGrowth(m *devmgr.Manager, position int64, repr string) (growth int64, err error) {
	growth = math.MinInt64
	return growth, m.Configure(func(s *config.State) error {
		value, set, err := s.Growth(argument(s, position, repr))
		if set {
			growth = value
		}
		return err
	})
}

// SetMemoryGrowth stores the growth of a device. badType is the Python type of a value that is neither bool nor int,
// else "".
func (calls) SetMemoryGrowth(m *devmgr.Manager, position int64, repr string, value int64, badType string) error {
	return m.Configure(func(s *config.State) error {
		return s.SetGrowth(argument(s, position, repr), value, badType)
	})
}

// LogicalConfigured reports whether a device has a logical configuration.
func (calls) LogicalConfigured(m *devmgr.Manager, position int64, repr string) (configured bool, err error) {
	return configured, m.Configure(func(s *config.State) error {
		stored, err := s.LogicalConfigs(argument(s, position, repr))
		configured = stored != nil
		return err
	})
}

// logicalConfiguration is [whether it is a tuple, [[limit, priority, ordinal], ...]]. A limit is a number of MiB, null,
// "inf", "-inf" or "nan", or a number of bytes, "8589934592 bytes".
type logicalConfiguration struct {
	Tuple bool
	Items [][3]json.RawMessage
}

// SetLogicalConfiguration stores the logical devices of a device.
func (calls) SetLogicalConfiguration(m *devmgr.Manager, position int64, repr string,
	configuration logicalConfiguration) error {
	configs := config.LogicalConfigs{Tuple: configuration.Tuple}
	for _, item := range configuration.Items {
		device, err := logicalConfig(item)
		if err != nil {
			return err
		}
		configs.Items = append(configs.Items, device)
	}
	return m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(argument(s, position, repr), configs)
	})
}

func logicalConfig(item [3]json.RawMessage) (device config.LogicalConfig, err error) {
	text := strings.Trim(string(item[0]), `"`)
	if number, inBytes := strings.CutSuffix(text, " bytes"); inBytes {
		limit, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			return device, status.Errorf(status.Internal, "decoding a limit in bytes: %w", err)
		}
		device.LimitBytes = &limit
	} else if text != "null" {
		limit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return device, status.Errorf(status.Internal, "decoding a memory limit: %w", err)
		}
		device.MemoryLimitMiB = &limit
	}
	if err := decode(string(item[1]), &device.Priority); err != nil {
		return device, err
	}
	return device, decode(string(item[2]), &device.Ordinal)
}

// DeviceDetails returns what is known of a physical device; nil for a CPU.
func (calls) DeviceDetails(m *devmgr.Manager, position int64) (*wire.DeviceDetails, error) {
	d, ok := m.Details(int(position))
	if !ok {
		return nil, nil
	}
	return &wire.DeviceDetails{Name: d.Name, Major: d.ComputeMajor, Minor: d.ComputeMinor, TotalBytes: d.TotalBytes,
		UUID: d.UUID}, nil
}

// LimitInForce returns [bytes, why]: the limit that holds, or will hold, for all pools of a physical device together,
// -1 if none is known before the pools are built, and why it is a part of the environment's ceiling.
func (calls) LimitInForce(m *devmgr.Manager, position int64, env config.Env) ([]any, error) {
	inForce, err := m.InForce(int(position), env)
	if !inForce.Known {
		return []any{-1, ""}, err
	}
	return []any{inForce.Bytes, inForce.Why}, err
}

// WhyNoGPU returns why the process has no logical GPU, "" if that is unknown.
func (calls) WhyNoGPU(m *devmgr.Manager) (why string, err error) { return m.WhyNoGPU(), nil }
