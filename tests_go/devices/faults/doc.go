// Package faults makes any gpu.Driver fail on demand.
//
// An Injector wraps a driver and counts the calls. For each call, a Fault decides whether it fails before it reaches
// the driver. To make every driver call of a run fail once, repeat the run with OnIndex(0), OnIndex(1) and so on until
// it succeeds.
package faults
