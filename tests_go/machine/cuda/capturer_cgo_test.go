//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"

	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/machine/drivertest"
)

// capturer is the driver and, beside it, another library in the process that captures streams in the same contexts.
type capturer struct{ gpu.Driver }

var _ drivertest.Capturer = capturer{}

func openCapturer() (gpu.Driver, error) {
	driver, err := cuda.Open()
	return capturer{driver}, err
}

// within runs a function in a device's primary context, and restores the thread's context.
func within(ordinal int, do func() error) error {
	before := fake.Current()
	context, err := fake.Retain(ordinal)
	if err != nil {
		return err
	}
	err = errors.Join(twice(func() error { return fake.SetCurrent(context) }), do())
	return errors.Join(err, twice(func() error { return fake.SetCurrent(before) }),
		twice(func() error { return fake.Release(ordinal) }))
}

// twice runs a cleanup that must succeed, and reports whether the first attempt failed.
func twice(do func() error) error {
	err := do()
	if err != nil {
		_ = do()
	}
	return err
}

func (c capturer) BeginCapture(ordinal int, stream gpu.Stream) error {
	return within(ordinal, func() error { return fake.BeginCapture(uint64(stream), 0) })
}

func (c capturer) EndCapture(ordinal int, stream gpu.Stream) (graph uint64, err error) {
	err = within(ordinal, func() (err error) { graph, err = fake.EndCapture(uint64(stream)); return err })
	return graph, err
}

func (c capturer) GraphPieces(_ int, graph uint64) int { return fake.GraphPieces(graph) }

func (c capturer) Instantiate(ordinal int, graph uint64) (exec uint64, err error) {
	err = within(ordinal, func() (err error) { exec, err = fake.Instantiate(graph); return err })
	return exec, err
}

func (c capturer) Launch(ordinal int, exec uint64, stream gpu.Stream) error {
	return within(ordinal, func() error { return fake.Launch(exec, uint64(stream)) })
}

func (c capturer) DestroyGraph(ordinal int, graph uint64) error {
	return twice(func() error { return within(ordinal, func() error { return fake.GraphDestroy(graph) }) })
}

func (c capturer) DestroyExec(ordinal int, exec uint64) error {
	return twice(func() error { return within(ordinal, func() error { return fake.ExecDestroy(exec) }) })
}
