// Package config is the state machine behind tf.config: which devices a program sees, how their memory grows, into
// how many logical devices they are split, and the few switches beside. It also sizes memory pools and reads
// TensorFlow's environment variables. Numbers and texts go in and come out; it sees no GPU, clock, file or
// environment.
//
// # States
//
//	S0  no runtime                  no State yet; the caller's business
//	S1  runtime, not enumerated     New(nil): switches may be set, which TakeSwitches carries over to S2
//	S2  enumerated                  New: everything may be set
//	SB  built by sessions           Build: a setter may ask for what is built, and for any number of threads
//	S3  initialized                 Initialize: only equal values may be set; there is no way back
//
// A session has a layout of its own, which need not be the configuration's; so SB is not S3. A caller goes from S2 to S3 in three steps: Layout says what to build, the caller builds it, Initialize records who
// wanted it. When Layout or the building fails the State is still in S2, to be mended and tried again.
//
// # Calls
//
// Checks are made in the order of the rows. "Same" means equal to what is stored; it is tested after all that can be
// wrong with the argument alone, and before the state.
//
//	call               argument                                       S2, S3
//	SetVisible         a device that is unknown or of another type    InvalidArgument  Unrecognized device: ...
//	SetGrowth          unknown device                                 InvalidArgument  Unrecognized device: ...
//	                   device has a logical configuration, even []    InvalidArgument  Cannot set memory growth on device when ...
//	                   not a GPU                                      InvalidArgument  Cannot set memory growth on non-GPU and ...
//	                   value neither bool nor int                     InvalidType      Memory growth must be True or False, ... (*)
//	SetLogicalConfigs  unknown device                                 InvalidArgument  Unrecognized device: ...
//	                   CPU: any field given                           InvalidArgument  Setting memory limit on CPU virtual ...
//	                   GPU: no memory limit                           InvalidArgument  Setting memory limit is required for ...
//	                   another type of device                         InvalidArgument  Virtual devices are not supported for XPU
//	                   limit negative, NaN, infinite, immense         InvalidArgument  memory_limit is ... (*)
//	                   priority or ordinal beyond 32 bits             InvalidArgument  Value out of range: ... (*)
//	Set...OpThreads    beyond 32 bits                                 InvalidArgument  Value out of range: ... (*)
//	Growth             unknown device                                 InvalidArgument  Unrecognized device: ...
//	                   not a GPU                                      NotFound         PhysicalDevice(...), as a KeyError
//	LogicalConfigs     unknown device                                 InvalidArgument  Unrecognized device: ...
//
//	(*) TensorFlow takes the value, and fails or misbehaves later.
//
//	call               "same" is                                      same  different in S2  different in S3: FailedPrecondition (**)
//	SetVisible         order and duplicates count                     ok    stored           Visible devices cannot be modified ...
//	SetGrowth          1 is True, 0 is False; None is neither         ok    stored           Physical devices cannot be modified ...
//	SetLogicalConfigs  10 is 10.0; a list is no tuple; never set      ok    stored           Virtual devices cannot be modified ...
//	                   is not []
//	SetIntraOpThreads  what is stored: None at first, not 0           ok    stored           Intra op parallelism cannot be modified ...
//	SetInterOpThreads  likewise                                       ok    stored           Inter op parallelism cannot be modified ...
//	other switches     -                                              ok    stored           stored
//
//	(**) In SB too, unless it asks for what is built: the physical devices that have logical ones; the growth of those on the
//	device; their limits and priorities, or any for a hidden device. Threads are stored: they are no part of what is built.
//
// # Evaluation
//
// Setters look at one device at a time. Whether the settings fit together is looked at by Evaluate, and therefore by
// Layout and by the getters SoftPlacement, LogPlacement, Jit, IntraOpThreads, InterOpThreads and OptimizerOptions. Over
// the visible GPUs in physical order:
//
//	K1  some but not all entries of a GPU have a priority    priority must be specified for all virtual devices
//	K2  some but not all have an ordinal                     device_ordinals must be specified for all virtual devices
//	K3  growth values differ                                 Memory growth cannot differ between GPU devices
//
// K1 and K2 exist only when some device has a logical configuration, be it the CPU or a hidden GPU, and K3 and
// growth itself only when none has: from then on growth is silently ignored.
//
// Layout goes on with what device creation checks, in this order. It knows the caller's machine by GPUFacts.
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
//	(*) only with Options, those of a session (LayoutFor) or of the program's start (Import): nothing in tf.config leads there.
//
// A session's options count for the layout where they are set, and the configuration where they are not; AllowGrowth can only
// switch growth on. How many devices a session wants to see is no part of what is built: it is in the layout beside the devices.
//
// A GPU's logical devices are one for each entry, else one that is sized by DefaultLimit; they are numbered in physical
// order of the GPUs, or by ordinal first. Unlike in TensorFlow a priority always belongs to the entry that
// asked for it.
//
// # Invariants
//
//  1. visible holds indices of physical devices.
//  2. Only a GPU has a growth value.
//  3. Only a CPU or a GPU has a logical configuration, and only one that its setter accepts.
//  4. A call that returns an error changes nothing. Getters, Evaluate and Layout never change anything.
//  5. Setting what is stored succeeds in every state and changes nothing.
//  6. In S3 no call changes what Layout returns.
//  7. The state shares no memory with its callers: changing an argument or a result later has no effect.
//  8. The same state and facts give the same layout.
//
// Check walks 1 to 3. A State has no lock; devmgr guards it.
package config
