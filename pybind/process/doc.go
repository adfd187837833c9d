// Package process holds the one process-wide state of gpuconf: which machine it runs on, and the devices made of it.
//
// Everything below is a value that a test can construct; this package is where the value becomes a global, because Python
// modules, C callers and sessions of one process share one set of pools and books.
//
// # States
//
//	empty       no Manager: nothing was asked yet, or Reset was called
//	enumerated  a Manager lists the physical devices
//	initialised its logical devices exist
//	broken      a panic was caught at the gate: every later call that needs the devices fails with Internal
//
// # Locks
//
// mu guards the choice of the machine and the life of the Manager. Calls on the hot path load the Manager atomically and
// take only its own locks.
package process
