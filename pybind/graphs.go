// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"fmt"
	"strconv"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
	"gpuconf/pybind/process"
)

// NewGraph creates an empty graph. It survives a reset.
func (calls) NewGraph() (id int64, err error) { return process.Shared().NewGraph(), nil }

// DropGraph releases a graph.
func (calls) DropGraph(id int64) error { return process.Shared().DropGraph(id) }

// AddConstant adds a constant to a graph. Its value is copied from host memory. device is a result of RequestDevice.
// after lists the nodes that run before it, "0 1". The result describes the node: {"id": n, "name": ..., "dtype": name,
// "shape": [...]}. The shape has -1 for a size that is not known before a run, and is null if not even their number is.
// A node without a tensor has neither type nor shape.
func (calls) AddConstant(g *graph.Graph, name string, host int64, nbytes int64, dtype string, shape string,
	after string, device string) (node map[string]any, err error) {
	value, err := hostValue(host, nbytes, dtype, shape)
	if err != nil {
		return nil, err
	}
	return addNode(g, graph.NodeSpec{Op: graph.Const, Name: name, Value: value, Device: device}, after)
}

// AddPlaceholder adds a placeholder, whose value is fed. shape is like "2,3", with -1 for an unknown size. If unranked
// is set, not even the number of sizes is known. Its other arguments and its result are those of AddConstant.
func (calls) AddPlaceholder(g *graph.Graph, name string, dtype string, shape string, unranked bool, after string,
	device string) (node map[string]any, err error) {
	spec := graph.NodeSpec{Op: graph.Placeholder, Name: name, Device: device, Shape: graph.Partial{Unranked: unranked}}
	if spec.DType, err = parseDType(dtype); err != nil {
		return nil, err
	}
	if spec.Shape.Sizes, err = parseShape(shape); err != nil {
		return nil, err
	}
	return addNode(g, spec, after)
}

// AddNode adds an operation on nodes of a graph, "0 1". Its other arguments and its result are those of AddConstant.
func (calls) AddNode(g *graph.Graph, op string, name string, inputs string, after string, flags int64, device string) (
	node map[string]any, err error) {
	read, err := nodes(g, inputs)
	if err != nil {
		return nil, err
	}
	return addNode(g, graph.NodeSpec{
		Op: graph.Op(op), Name: name, Inputs: read, Device: device,
		TransposeA: flags&transposeA != 0, TransposeB: flags&transposeB != 0,
	}, after)
}

// nodes reads "0 1" as nodes of a graph.
func nodes(g *graph.Graph, text string) ([]*graph.Node, error) {
	ids, err := numbers(text)
	if err != nil {
		return nil, err
	}
	return process.NodesOf(g, ids)
}

// addNode adds a node that runs after others, "0 1".
func addNode(g *graph.Graph, spec graph.NodeSpec, after string) (_ map[string]any, err error) {
	if spec.Controls, err = nodes(g, after); err != nil {
		return nil, err
	}
	n, err := g.Add(spec)
	if err != nil {
		return nil, err
	}
	described := map[string]any{"id": n.ID(), "name": n.Name()}
	if n.HasTensor() {
		described["dtype"], described["shape"] = n.DType().String(), append(graph.Shape{}, n.Shape().Sizes...)
		if n.Shape().Unranked {
			described["shape"] = nil
		}
	}
	return described, nil
}

// RequestDevice returns the device that a node requests inside a scope, "/gpu:1". own is the device that the node
// itself requests.
func (calls) RequestDevice(own string, scope string) (device string, err error) {
	return graph.Request(own, scope)
}

// protoOptions are the fields of a ConfigProto that Python sends. Floats are strings, because JSON has no NaN.
type protoOptions struct {
	DeviceCount map[string]int64 `json:"device_count"`
	Visible     string           `json:"visible_device_list"`
	Growth      bool             `json:"allow_growth"`
	Allocator   string           `json:"allocator_type"`
	Fraction    string           `json:"per_process_gpu_memory_fraction"`
	Unified     bool             `json:"use_unified_memory"`
	SystemMiB   int64            `json:"gpu_system_memory_size_in_mb"`
	Shares      int64            `json:"num_virtual_devices_per_gpu"`
	Virtual     []struct {
		Limits   []string `json:"memory_limit_mb"`
		Priority []int64  `json:"priority"`
		Ordinal  []int64  `json:"device_ordinal"`
	} `json:"virtual_devices"`

	SoftPlacement *bool `json:"allow_soft_placement"` // null leaves it to the configuration
	LogPlacement  *bool `json:"log_device_placement"`
	PlacePruned   bool  `json:"place_pruned_graph"`

	IntraOpThreads int64 `json:"intra_op_parallelism_threads"`
	InterOpThreads int64 `json:"inter_op_parallelism_threads"`
}

func decodeOptions(text string) (sent protoOptions, o config.Options, err error) {
	if err := decode(text, &sent); err != nil {
		return sent, o, err
	}
	o = config.Options{
		DeviceCount: sent.DeviceCount, VisibleDeviceList: sent.Visible, AllowGrowth: sent.Growth,
		AllocatorType: sent.Allocator,
		UnifiedMemory: sent.Unified, Given: sent.SoftPlacement != nil, Sizing: config.Sizing{SystemMiB: sent.SystemMiB,
			Shares: sent.Shares},
	}
	if o.Sizing.Fraction, err = decodeFloat(sent.Fraction); err != nil {
		return sent, o, err
	}
	for _, v := range sent.Virtual {
		virtual := config.VirtualDevices{Priority: v.Priority, Ordinal: v.Ordinal}
		for _, text := range v.Limits {
			limit, err := decodeFloat(text)
			if err != nil {
				return sent, o, err
			}
			virtual.MemoryLimitMiB = append(virtual.MemoryLimitMiB, limit)
		}
		o.VirtualDevices = append(o.VirtualDevices, virtual)
	}
	return sent, o, nil
}

// decodeFloat parses a float as Python formats it; "" is 0.
func decodeFloat(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		err = status.Errorf(status.Internal, "decoding a float: %w", err)
	}
	return f, err
}

// ImportConfig applies the ConfigProto that a program starts with.
func (calls) ImportConfig(m *devmgr.Manager, options string) error {
	sent, o, err := decodeOptions(options)
	if err != nil {
		return err
	}
	o.LogPlacement = sent.LogPlacement != nil && *sent.LogPlacement
	o.IntraOpThreads, o.InterOpThreads = sent.IntraOpThreads, sent.InterOpThreads
	return m.Configure(func(s *config.State) error { return s.Import(o) })
}

// OpenSession opens a session on a graph and creates the devices that it requests, if they do not exist. It returns the
// session's number times 2, plus 1 if the logical devices have changed. origin is the caller, as "file:line (call)".
func (calls) OpenSession(graphID int64, options string, env config.Env, origin string) (receipt int64, err error) {
	sent, o, err := decodeOptions(options)
	if err != nil {
		return 0, err
	}
	id, renamed, err := process.Shared().OpenSession(process.SessionRequest{
		Graph: graphID, Devices: o, SoftPlacement: sent.SoftPlacement, LogPlacement: sent.LogPlacement,
		PlacePruned: sent.PlacePruned,
	}, env, origin)
	return receiptOf(id, renamed), err
}

// RunSession computes a step: {"fetches": [array, ...], "targets": [node, ...], "feeds": [array, ...]}, where an array
// is [node, address, bytes, size, size, ...]. The addresses are of host memory, which the caller keeps alive: fetches
// are written to it, feeds are read from it. It returns "nodes copies bytes": the number of operations run, and the
// number and total bytes of the tensors copied between devices.
func (calls) RunSession(s *process.Session, step string) (ran string, err error) {
	decoded, err := decodeStep(step)
	if err != nil {
		return "", err
	}
	stats, err := s.Run(decoded)
	return fmt.Sprintf("%d %d %d", stats.Nodes, stats.Copies, stats.CopiedBytes), err
}

// SessionShapes returns the shapes of a step's results, which depend on what is fed: [[size, ...], ...]. The step is
// that of RunSession; the addresses and sizes of its fetches are ignored.
func (calls) SessionShapes(s *process.Session, step string) (shapes []graph.Shape, err error) {
	decoded, err := decodeStep(step)
	if err != nil {
		return nil, err
	}
	return s.Shapes(decoded)
}

func decodeStep(step string) (decoded process.Step, err error) {
	var sent struct {
		Fetches, Feeds []hostArray
		Targets        []int64
	}
	if err := decode(step, &sent); err != nil {
		return decoded, err
	}
	decoded.Targets = sent.Targets
	if decoded.Fetches, decoded.Into, _, err = hostArrays(sent.Fetches); err != nil {
		return decoded, err
	}
	decoded.Feeds, decoded.From, decoded.Shapes, err = hostArrays(sent.Feeds)
	return decoded, err
}

// hostArray is [node, address, bytes, size, size, ...].
type hostArray []int64

// hostArrays splits arrays into the nodes, the host memory of each, and the shapes.
func hostArrays(sent []hostArray) (nodes []int64, memory [][]byte, shapes []graph.Shape, err error) {
	for _, each := range sent {
		if len(each) < 3 {
			return nil, nil, nil, status.Errorf(status.Internal, "%d numbers are not an array", len(each))
		}
		bytes, err := hostMemory(each[1], each[2])
		if err != nil {
			return nil, nil, nil, err
		}
		nodes, memory, shapes = append(nodes, each[0]), append(memory, bytes), append(shapes, graph.Shape(each[3:]))
	}
	return nodes, memory, shapes, nil
}

// SessionDevices describes a session's devices: [[name, type, bytes of the memory limit, incarnation], ...].
func (calls) SessionDevices(s *process.Session) (rows [][4]any, err error) {
	devices, err := s.ListDevices()
	for _, d := range devices {
		rows = append(rows, [4]any{d.Name, d.Type, d.MemoryLimit, d.Incarnation})
	}
	return rows, err
}

// SessionLog returns and clears a session's placement log.
func (calls) SessionLog(s *process.Session) (lines []string, err error) { return s.DrainLog(), nil }

// CloseSession ends a session.
func (calls) CloseSession(id int64) error { return process.Shared().CloseSession(id) }
