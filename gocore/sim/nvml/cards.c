/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of a specification, as gocore/machine/models describes them to the driver and to gpuconf, too. */
#include "nvml.h"

#include "../../machine/models/spec.h"

#include <stdio.h>
#include <string.h>

static void write_uuid(char *out, size_t room, const char *kind, const unsigned char uuid[16]) {
	int at = snprintf(out, room, "%s-", kind);
	for (int i = 0; i < 16; i++)
		at += snprintf(out + at, room - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

static void add(const struct gpuconf_card *simulated, int slot) {
	const struct gpuconf_model *model = simulated->model;
	struct device *card = &machine.device[machine.devices++];
	struct gpuconf_view view;

	gpuconf_see(simulated, slot, &view);
	*card = (struct device){.parent = -1,
	    .major = model->capability->major,
	    .minor = model->capability->minor,
	    .multiprocessors = model->multiprocessors,
	    .lanes = model->capability->lanes,
	    .clock = model->clock_mhz,
	    .memory_clock = model->memory_mhz,
	    .bus_bits = model->bus_bits,
	    .total = view.mig ? model->memory : view.total,
	    .reserved = simulated->memory == model->memory ? gpuconf_reserved(model) : 0,
	    .mig = gpuconf_slice(model) != NULL ? MIG_OFF : MIG_NONE,
	    .shares_host = view.integrated,
	    .mps = view.mps,
	    .hides_use = view.wsl,
	    .addressing = view.host_page_tables ? 2 : 0,
	    .model = model,
	    .alone = view.integrated || gpuconf_is_alone(model, simulated->profile)};
	sscanf(view.bus, "%x:%x", &card->domain, &card->bus);
	snprintf(card->name, sizeof card->name, "%s", model->product);
	write_uuid(card->uuid, sizeof card->uuid, "GPU", view.uuid);
	if (!view.mig)
		return;
	struct device *instance = &machine.device[machine.devices++];
	*instance = *card;
	card->mig = MIG_ON;
	card->places = 1;
	card->restricted = 1;
	instance->mig = MIG_NONE;
	instance->parent = (int)(card - machine.device);
	instance->gi = 7; /* the first one of the smallest profile */
	instance->total = view.total;
	instance->reserved = 0;
	instance->multiprocessors = view.multiprocessors;
	snprintf(instance->name, sizeof instance->name, "%s", view.name);
	write_uuid(instance->uuid, sizeof instance->uuid, "MIG", view.instance);
}

static void set_driver(int cuda) {
	const struct gpuconf_driver *driver;
	for (int i = 0; (driver = gpuconf_driver(i)) != NULL; i++)
		if (driver->cuda == cuda) {
			snprintf(machine.driver, sizeof machine.driver, "%s", driver->version);
			machine.cuda = cuda;
		}
}

int simulate(const char *spec, char *complaint, unsigned room) {
	struct gpuconf_card cards[GPUCONF_MOST_CARDS];
	int count = spec != NULL && *spec != '\0' ? gpuconf_read_spec(spec, strlen(spec), cards, complaint, room) : 0;
	set_driver(DEFAULT_CUDA);
	for (int i = 0; i < count; i++) {
		add(&cards[i], i);
		set_driver(cards[i].driver);
	}
	return count >= 0;
}
