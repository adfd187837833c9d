// Package capturing lets a test capture the streams of any gpu.Driver as graphs and launch them, as another library in
// the process would on a GPU.
//
// A Driver wraps another driver. Calls that queue work in a captured stream do not reach that driver: they are
// recorded, and each launch replays them in order, in the given stream. So their arguments are checked at the launch.
//
// Captures use CUDA's global mode, without its rules about threads. Nested graphs and captured waits for words are not
// supported.
package capturing
