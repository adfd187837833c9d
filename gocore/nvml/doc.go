// Package nvml is a gpu.Monitor over NVIDIA's management library: which GPUs the machine has, what their memory holds and
// who holds it, without a CUDA context. It speaks to libnvidia-ml.so.1 through NVIDIA's go-nvml.
//
// # How the library is found
//
// Nothing of NVIDIA's is needed to build, to import or to start. Open loads the library when it is called, from the places in
// candidates, and says what it tried where there is none. Once loaded it stays: other code of the process may use it, too.
//
// # Trampolines
//
// go-nvml calls some four hundred functions as if the library were linked, and leaves it to the loader to bind each at
// its first call. Python doesn't allow that: it loads extensions with RTLD_NOW, which fails where one function is
// nowhere to be found; so does everything where LD_BIND_NOW is set or the linker's default is to bind at once. Where
// functions are bound late, a call to one that the driver lacks ends the process.
//
// So this package defines all of them (trampolines.h). Each is one jump through a table, which Open fills. That makes
// NVML's promises hold always:
//
//  1. No nvml symbol of ours is undefined, and none is visible outside the library or executable that we are linked into.
//  2. Before the library is loaded, every call answers NVML_ERROR_UNINITIALIZED, and a call to what the loaded library
//     lacks answers NVML_ERROR_FUNCTION_NOT_FOUND.
//  3. The table is filled once in a process, and the library that it points into is never unloaded.
//  4. go-nvml's own look-ups see the driver's library only: they ask its handle, and our definitions are hidden.
//
// symbols.h, which names the functions, is written by generate_trampolines.py from go-nvml's source; a test holds it to
// the version in go.mod.
//
// # What NVML is known for
//
//   - Its order of GPUs is its own, and it ignores CUDA_VISIBLE_DEVICES.
//   - On GPUs that share the host's memory (GB10, Jetson) asking for their memory is not supported.
//   - In a container, PIDs are the host's, unless the container shares the host's PID namespace.
//   - Under WSL no process is ever listed, and where the driver can't tell a process's memory it answers all ones.
//   - The card of a MIG instance that a container was given may be read in part only.
//   - A function's version grows with its structure; go-nvml calls the newest that the library has.
//
// # Locks
//
// library guards what a process has once, the table and go-nvml's state. A Monitor's own lock is held for reading during
// every call and for writing by Close.
package nvml
