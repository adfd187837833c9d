/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's machine, if GPUCONF_SIMULATE names one: gocore/machine/models has the grammar, the models and the
 * profiles. A program with rights that its caller does not have gets none. FAKECUDA_GPUS, of tests, comes first.
 */
#include "driver.h"

#include "../../machine/models/simulator.h"

#include "../../machine/models/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *specification(void) {
	const char *spec = secure_getenv("GPUCONF_SIMULATE");
	return spec != NULL && *spec != '\0' && TEST_VARIABLE("GPUS") == NULL ? spec : NULL;
}

/* Returns how many cards, -1 if the specification is wrong, which is said once. */
static int read_specification(struct gpuconf_card *cards, int quiet) {
	static int said;
	char complaint[GPUCONF_COMPLAINT];
	const char *spec = specification();
	int count = spec != NULL ? gpuconf_read_spec(spec, strlen(spec), cards, complaint, sizeof complaint) : 0;
	if (count < 0 && !quiet && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "gpuconf's simulated CUDA driver has no GPUs: GPUCONF_SIMULATE: %s\n", complaint);
	return count;
}

int version_of_environment(void) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int version = 0, count = read_specification(cards, 1);
	for (int i = 0; i < count; i++)
		version = cards[i].driver > 0 ? cards[i].driver : version;
	return version;
}

static int place_of(const struct gpuconf_model *model) {
	int place = 0;
	while (gpuconf_model(place) != model)
		place++;
	return place;
}

static void describe(const struct gpuconf_card *card, int slot, struct simulator_card *out) {
	const struct gpuconf_capability *limits = card->model->capability;
	struct gpuconf_view view;
	gpuconf_see(card, slot, &view);
	*out = (struct simulator_card){.total = view.total,
	    .granularity = limits->granularity,
	    .major = limits->major,
	    .minor = limits->minor,
	    .multiprocessors = view.multiprocessors,
	    .greatest_priority = limits->greatest_priority,
	    .memops = 1,
	    .managed = 1,
	    .oversubscribes = view.oversubscribes,
	    .integrated = view.integrated,
	    .host_page_tables = view.host_page_tables,
	    .model = place_of(card->model) + 1,
	    .profile = card->profile};
	snprintf(out->name, sizeof out->name, "%s", view.name);
	snprintf(out->pci_bus_id, sizeof out->pci_bus_id, "%s", view.bus);
	memcpy(out->uuid, view.uuid, sizeof out->uuid);
	memcpy(out->instance, view.instance, sizeof out->instance);
}

/* In the order of CUDA_DEVICE_ORDER; equally fast ones in that of their buses. */
static void put_in_order(const struct gpuconf_card *cards, int count, int *slots) {
	const char *order = getenv("CUDA_DEVICE_ORDER");
	int by_bus = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;
	for (int i = 0; i < count; i++) {
		int at = i;
		for (; !by_bus && at > 0 && gpuconf_card_speed(&cards[slots[at - 1]]) < gpuconf_card_speed(&cards[i]); at--)
			slots[at] = slots[at - 1];
		slots[at] = i;
	}
}

int cards_of_environment(struct simulator_card **out) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int slots[GPUCONF_MOST_CARDS], count = read_specification(cards, 0);
	if (count <= 0)
		return count;
	*out = calloc((size_t)count, sizeof **out);
	if (*out == NULL)
		return -1;
	put_in_order(cards, count, slots);
	for (int i = 0; i < count; i++)
		describe(&cards[slots[i]], slots[i], &(*out)[i]);
	return count;
}
