// SPDX-License-Identifier: Apache-2.0

// Package config is the state machine behind tf.config: which devices are visible, whether their memory grows, how
// they are split into logical devices, and a few switches. It also computes the size of memory pools and parses
// TensorFlow's environment variables. It works on numbers and strings only, and never accesses a GPU, a clock, a file
// or the environment.
//
// # States
//
//	S0  no runtime                  no State exists yet; the caller handles this
//	S1  runtime, not enumerated     New(nil): switches may be set; TakeSwitches carries them over to S2
//	S2  enumerated                  New: everything may be set
//	SB  built by sessions           Build: everything may still be set, as in TensorFlow
//	S3  initialized                 Initialize: only equal values may be set; this state is final
//
// SB differs from S3 because a session has its own layout, which need not match the configuration. Changed says whether
// a setting was made since; then Initialize builds anew what differs. A caller goes from S2 to S3 in three steps:
// Layout returns what to build, the caller builds it, and Initialize records the call that caused it. If Layout or
// building fails, the State remains in S2, where it can be corrected and tried again.
//
// # Calls
//
// Checks run in the order of the rows. "Same" means equal to the stored value; it is tested after the argument has been
// validated and before the state is checked.
//
//	call               argument                                       S2, S3
//	SetVisible         a device that is unknown or of another type    Value            Unrecognized device: ...
//	SetGrowth          unknown device                                 Value            Unrecognized device: ...
//	                   device has a logical configuration, even []    Value            Cannot set memory growth on device when ...
//	                   not a GPU                                      Value            Cannot set memory growth on non-GPU and ...
//	                   value neither bool nor int                     InvalidType      Memory growth must be True or False, ... (*)
//	SetLogicalConfigs  unknown device                                 Value            Unrecognized device: ...
//	                   CPU: any field given                           Value            Setting memory limit on CPU virtual ...
//	                   GPU: no memory limit                           Value            Setting memory limit is required for ...
//	                   another device type                            Value            Virtual devices are not supported for XPU
//	                   limit negative, NaN, infinite, too large        Value            memory_limit is ... (*)
//	                   priority or ordinal beyond 32 bits             Value            Value out of range: ... (*)
//	Set...OpThreads    beyond 32 bits                                 Value            Value out of range: ... (*)
//	Growth             unknown device                                 Value            Unrecognized device: ...
//	                   not a GPU                                      NotFound         PhysicalDevice(...), as a KeyError
//	LogicalConfigs     unknown device                                 Value            Unrecognized device: ...
//
//	(*) TensorFlow accepts the value and fails or misbehaves later.
//
//	call               "same" is                                      same  different in S2  different in S3: State
//	SetVisible         order and duplicates count                     ok    stored           Visible devices cannot be modified ...
//	SetGrowth          1 is True, 0 is False; None is neither         ok    stored           Physical devices cannot be modified ...
//	SetLogicalConfigs  10 is 10.0; a list is no tuple; never set      ok    stored           Virtual devices cannot be modified ...
//	                   is not []; a limit in bytes is what it limits
//	SetIntraOpThreads  what is stored: None at first, not 0           ok    stored           Intra op parallelism cannot be modified ...
//	SetInterOpThreads  likewise                                       ok    stored           Inter op parallelism cannot be modified ...
//	other switches     -                                              ok    stored           stored
//
// # Evaluation
//
// Setters validate one device at a time. Evaluate checks that the settings are consistent, and so do Layout and the
// getters SoftPlacement, LogPlacement, Jit, IntraOpThreads, InterOpThreads and OptimizerOptions. Over the visible GPUs
// in physical order:
//
//	K1  some but not all entries of a GPU have a priority    priority must be specified for all virtual devices
//	K2  some but not all have an ordinal                     device_ordinals must be specified for all virtual devices
//	K3  growth values differ                                 Memory growth cannot differ between GPU devices
//
// K1 and K2 apply only if some device has a logical configuration, including the CPU or a hidden GPU. K3 and growth
// itself apply only if no device has one: otherwise growth is silently ignored.
//
// Layout then makes the checks of device creation, in this order. GPUFacts describes the machine.
//
//	N1   NotFound         No CPU devices are available in this process
//	N13  InvalidArgument  Could not parse entry in 'visible_device_list': ... (*)
//	N14  InvalidArgument  'visible_device_list' listed an invalid Device id ... (*)
//	N15  InvalidArgument  visible_device_list contained a duplicate entry: ... (*)
//	N4   InvalidArgument  It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set. (*)
//	N3   Unknown          Not enough GPUs to create virtual devices. (a GPU with [], unless others have more than one)
//	N5   InvalidArgument  The number of GPUs in visible_device_list doesn't match ... (*)
//	N6   Unknown          The number of valid GPUs doesn't match ... (*)
//	N7   InvalidArgument  Device ordinals must be set for all virtual devices or none. (a visible GPU without any counts)
//	N8   InvalidArgument  Number of virtual device ordinals specified doesn't match ... (*)
//	N9   InvalidArgument  Priority must be set for all virtual devices or none. (the first visible GPU has none)
//	N10  InvalidArgument  Number of virtual device priorities specified doesn't match ... (only the first ones have)
//	N11  InvalidArgument  Priority -9 is outside the range of supported priorities [-5,0] ...
//	N17  Internal         Unified memory on GPUs with compute capability lower than 6.0 ... (*)
//
//	(*) only with Options, from a session (LayoutFor) or from program start (Import): no tf.config call leads to it.
//
// A session's options override the configuration where they are set; AllowGrowth can only turn growth on. The number of
// devices that a session sees is not part of what is built: the layout stores it separately from the devices.
//
// A GPU has one logical device for each entry of its configuration, or a single one sized by DefaultLimit. Logical
// devices are numbered by ordinal, then in physical order of the GPUs. Unlike in TensorFlow, a priority always belongs
// to the entry that specifies it.
//
// # Invariants
//
//  1. visible holds indices of physical devices.
//  2. Only a GPU has a growth value.
//  3. Only a CPU or a GPU has a logical configuration, and it is one that the setter accepts.
//  4. A call that returns an error changes nothing. Getters, Evaluate and Layout never change anything.
//  5. Setting the stored value again succeeds in every state and changes nothing.
//  6. In S3 no call changes the result of Layout.
//  7. The state shares no memory with its callers: changing an argument or a result later has no effect.
//  8. The same state and facts always produce the same layout.
//
// Check verifies 1 to 3. A State has no lock; devmgr guards it.
//
// # From a call in Python to here
//
// gpuconf.config.experimental.set_memory_growth(gpu, True)
//
//  1. python/gpuconf/config/_devices.py looks up the position of the device in the physical list (position in
//     _core/runtime.py). The first such call lists the devices with pybind.Enumerate. Python passes the
//     environment along, because Go only sees the environment that the process started with.
//  2. _core/native.py loads the extension on first use, and Python calls core.pybind_SetMemoryGrowth(...). The
//     generated stub in pybind/_gpuconf releases the GIL and calls pybind.SetMemoryGrowth (pybind/config.go),
//     which runs behind the gate. Arguments and results of several values are JSON (_core/message.py).
//  3. devmgr.Manager.Configure takes the lock, and config.State.SetGrowth makes TensorFlow's checks in
//     TensorFlow's order.
//  4. An error returns as one string, \x1eINVALID_ARGUMENT\x1etext (pybind/process/gate.go). _core/native.py
//     raises the class for that kind.
//
// The first call that needs a device (list_logical_devices, get_memory_info, device, allocate) ends the configuration.
// pybind.Initialize calls devmgr.Manager.Initialize. config.State.Layout returns what to build, or the reason why it
// cannot be built. devmgr builds a pool for each logical GPU (context, limit, growth: pool.go) and freezes the
// configuration, with the file and line of the call. If a step fails, everything is undone.
package config
