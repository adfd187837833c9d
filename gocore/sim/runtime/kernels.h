/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the libraries that a program has loaded, by the address that its launches name them with. */
#ifndef KERNELS_H
#define KERNELS_H

/* The kernel's name as in its source, without template arguments and parameters; "a kernel" for an unknown address. It
 * stays. */
const char *kernel_name(const void *function);

#endif
