// SPDX-License-Identifier: Apache-2.0

// Package process holds the process-wide state of gpuconf: the machine that it runs on and the devices of that machine.
//
// The packages below define values that a test can construct. This package makes one of them global, because Python
// modules, C callers and sessions of a process share one set of pools and their accounting.
//
// # States
//
//	empty       no Manager: devices have not been listed, or Reset was called
//	enumerated  a Manager lists the physical devices
//	initialized its logical devices exist
//	broken      a panic was caught at the gate: every later call that needs the devices fails with Internal
//
// # Locks
//
// mu guards the choice of the machine and the lifetime of the Manager. Calls on the hot path load the Manager
// atomically and take only its own locks.
package process
