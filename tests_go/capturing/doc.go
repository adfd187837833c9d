// Package capturing lets a test capture the streams of any gpu.Driver as graphs and launch them, as another library of the process does on a
// GPU.
//
// A Driver stands in front of another driver. Calls that queue work in a captured stream do not reach that driver: they are recorded, and
// each launch makes them again, one after the other, in the stream that it is given. So their arguments are checked at the launch.
//
// A capture is in CUDA's global mode, without its rules about threads. Graphs within graphs and captured waits for words are refused.
package capturing
