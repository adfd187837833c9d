/* A program without Python that allocates GPU memory within a limit: GPUCONF_LIMIT=1GiB ./limit, on a real or simulated
 * GPU. */
#include <gpuconf.h>
#include <stdio.h>

int main(void) {
	if (gpuconf_abi_version() != GPUCONF_ABI_VERSION || !gpuconf_init()) {
		fprintf(stderr, "gpuconf: %s\n", gpuconf_last_error());
		return 1;
	}

	gpuconf_tag_push("weights");
	void *weights = gpuconf_malloc(600u << 20, 0, NULL);
	gpuconf_tag_pop();
	printf("600 MiB of weights: %s\n", weights != NULL ? "allocated" : gpuconf_last_error());

	void *more = gpuconf_malloc(600u << 20, 0, NULL); /* beyond a limit of 1 GiB */
	printf("600 MiB more: %s\n", more != NULL ? "allocated" : "out of memory");

	gpuconf_free(more, 0, 0, NULL);
	gpuconf_free(weights, 0, 0, NULL);
	return 0;
}
