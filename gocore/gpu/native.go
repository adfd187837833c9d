package gpu

// Native is a Driver in whose contexts NVIDIA's other libraries can work; facts 29 and 30.
type Native interface {
	// Version is the newest CUDA version that the driver runs: 12040 is 12.4.
	Version() int

	// InContext runs work in a device's primary context.
	InContext(ordinal int, work func() error) error

	// AtContextEnd has end called before the device's primary context ends. entered tells whether that is in the context: one that has
	// failed can't be entered any more.
	AtContextEnd(ordinal int, end func(entered bool)) error
}
