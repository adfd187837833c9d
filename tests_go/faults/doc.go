// Package faults makes any gpu.Driver fail on demand.
//
// An Injector stands in front of a driver and counts the calls. A Fault decides, call by call, whether one fails before it reaches the
// driver. Walking OnIndex up from 0 until a run succeeds fails every driver call of the run once.
package faults
