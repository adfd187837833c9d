/* SPDX-License-Identifier: Apache-2.0 */
#include "cover.h"
#include <errno.h>
bool mirror_make(const struct request *request, struct cover *cover) { (void)request; errno = ENOSYS; return failed(cover, "make", "a mirror"); }
bool mirror_confine(const struct request *request, const struct cover *cover, int *listener) { (void)request; (void)cover; *listener = -1; return false; }
void mirror_answer(int listener, const struct cover *cover) { (void)listener; (void)cover; }
