/*
 * A CUDA program that takes memory in one way after another, with nothing but the driver's functions.
 *
 *     client WAY fill ROW...     allocates chunks until it is refused, and frees them: a line "ROW count result left
 *                                left-after-free" each
 *     client WAY walk ROW...     makes every driver call of an allocation and a free fail, one after another: "ROW
 *                                calls-failed"
 *
 * WAY is how the functions are found: linked, dlsym, default (RTLD_DEFAULT), resolver (cuGetProcAddress), resolver2
 * (cuGetProcAddress_v2, which resolves itself), or path (the driver's library by its path, in DRIVER).
 */
#include "rows.h"

#define CHUNK (64 * MIB)
#define MOST 64

static unsigned long long left(void) {
	size_t available = 0, total = 0;
	if (cu.cuMemGetInfo_v2(&available, &total) != 0)
		return 0;
	return available / MIB;
}

static void fill(const struct row *row) {
	static struct object objects[MOST];
	int count = 0, result = 0, drop = 0;
	memset(objects, 0, sizeof objects);
	for (int i = 0; i < MOST; i++)
		objects[i].bytes = CHUNK;
	while (count < MOST && (result = row->take(&objects[count])) == 0)
		count++;
	unsigned long long full = left();
	for (int i = 0; i < count; i++)
		if (row->drop(&objects[i]) != 0)
			drop++;
	if (pool != NULL)
		cu.cuMemPoolTrimTo(pool, (size_t)0);
	cu.cuCtxSynchronize();
	printf("%s %d %d %llu %llu%s\n", row->name, count, result, full, left(), drop ? " not-freed" : "");
}

static uint64_t used(void) {
	static const unsigned char uuid[16] = {
	    0xf0, 0xce, 0xd0, 0x0d, 0x12, 0x34, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x00};
	uint64_t values[6] = {0};
	cu.cuCtxSynchronize();
	if (!figures(uuid, values))
		return UINT64_MAX;
	return values[2];
}

/* Each failure of each driver call in turn, until an allocation and a free get through without one. */
static void walk(const struct row *row) {
	static const int results[] = {2, 999};
	unsigned long nth = 0, before = fired();
	struct object object = {.bytes = CHUNK};
	if (row->take(&object) != 0 || row->drop(&object) != 0) { /* pools and contexts are there then */
		printf("%s cannot begin\n", row->name);
		return;
	}
	uint64_t start = used();
	for (int more = 1; more; nth++) {
		unsigned long so_far = fired();
		object = (struct object){.bytes = CHUNK};
		fail("*", nth, results[nth % 2]);
		int result = row->take(&object);
		more = fired() > so_far;
		if (!more && result == 0) {
			calm();
			fail("*", 0, 0);
			calm();
		}
		calm();
		if (result == 0 && row->drop(&object) != 0)
			row->drop(&object);
		if (pool != NULL)
			cu.cuMemPoolTrimTo(pool, (size_t)0);
		if (used() != start) {
			printf("%s: after failure %lu of an allocation %llu bytes are charged\n", row->name, nth,
			    (unsigned long long)(used() - start));
			return;
		}
	}
	for (nth = 0;; nth++) {
		object = (struct object){.bytes = CHUNK};
		if (row->take(&object) != 0)
			break;
		unsigned long so_far = fired();
		fail("*", nth, 999);
		int result = row->drop(&object);
		int more = fired() > so_far;
		calm();
		if (result != 0)
			row->drop(&object);
		if (pool != NULL)
			cu.cuMemPoolTrimTo(pool, (size_t)0);
		if (used() != start) {
			printf("%s: after failure %lu of a free %llu bytes are charged\n", row->name, nth,
			    (unsigned long long)(used() - start));
			return;
		}
		if (!more)
			break;
	}
	printf("%s %lu\n", row->name, fired() - before);
}

int main(int count, char **words) {
	if (count < 4)
		return 2;
	find(words[1]);
	if (cu.cuInit(0u) != 0 || cu.cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu.cuCtxSetCurrent(context) != 0)
		return 4;
	for (int i = 3; i < count; i++) {
		if (strcmp(words[2], "fill") == 0)
			fill(find_row(words[i]));
		else if (strcmp(words[2], "walk") == 0)
			walk(find_row(words[i]));
	}
	return 0;
}
