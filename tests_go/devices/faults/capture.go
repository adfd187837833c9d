package faults

import "gpuconf/gocore/machine/gpu"

// ContextSynchronize passes the call on.
func (i *Injector) ContextSynchronize(ordinal int) error {
	if err := i.before("ContextSynchronize", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.ContextSynchronize(ordinal)
}

// StreamGetCaptureInfo passes the call on.
func (i *Injector) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (capture uint64, err error) {
	if err := i.before("StreamGetCaptureInfo", ordinal, 0); err != nil {
		return 0, err
	}
	return i.upstream.StreamGetCaptureInfo(ordinal, stream)
}

// StreamGetCaptureLife passes the call on.
func (i *Injector) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	if err := i.before("StreamGetCaptureLife", ordinal, 0); err != nil {
		return nil, err
	}
	return i.upstream.StreamGetCaptureLife(ordinal, stream)
}
