/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <stdio.h>
#include <string.h>

uint64_t gpuconf_card_speed(const struct gpuconf_card *card) {
	return (uint64_t)card->model->multiprocessors * (uint64_t)card->model->capability->lanes *
	       (uint64_t)card->model->clock_mhz;
}

void gpuconf_see(const struct gpuconf_card *card, int slot, struct gpuconf_view *view) {
	const struct gpuconf_model *model = card->model;
	int major = model->capability->major, minor = model->capability->minor, wsl = (card->profile & GPUCONF_WSL) != 0;
	int unified = model->kind == GPUCONF_UNIFIED || card->profile & GPUCONF_AS_UNIFIED;
	*view = (struct gpuconf_view){
	    .total = card->memory,
	    .multiprocessors = model->multiprocessors,
	    .l2_bytes = model->l2_bytes,
	    .integrated = unified,
	    .host_page_tables = model->kind == GPUCONF_COHERENT ||
		                    (model->kind == GPUCONF_UNIFIED && major == 12 && minor == 1), /* GB10 has both */
	    .oversubscribes = major >= 6 && !wsl,
	    .mps = (card->profile & GPUCONF_MPS) != 0,
	    .wsl = wsl,
	    .mig = (card->profile & GPUCONF_MIG_CONTAINER) != 0,
	};
	snprintf(view->name, sizeof view->name, "%s", model->product);
	gpuconf_card_bus(slot, view->bus);
	gpuconf_card_uuid(card, slot, view->uuid);
	memcpy(view->instance, view->uuid, sizeof view->uuid);
	const struct gpuconf_slice *slice = gpuconf_slice(model);
	if (!view->mig || slice == NULL)
		return;
	snprintf(view->name, sizeof view->name, "%s MIG %s", model->product, slice->name);
	view->instance[0] ^= 0xff;
	view->multiprocessors = slice->multiprocessors;
	view->l2_bytes /= slice->slices;
	if (card->memory == model->memory)
		view->total = (uint64_t)slice->memory_mib << 20;
}

int gpuconf_is_alone(const struct gpuconf_model *model, unsigned profile) {
	static const char without[] = "NVIDIA GeForce RTX";
	return (profile & (GPUCONF_NO_PEERS | GPUCONF_MIG_CONTAINER)) != 0 ||
	       strncmp(model->product, without, sizeof without - 1) == 0;
}
