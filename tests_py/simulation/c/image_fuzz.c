/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads damaged kernel images: image_fuzz SEED COUNT. Each image ends where readable memory ends, so that a read behind
 * it is a fault; the same bytes are then loaded from a file, whose copy in the heap is AddressSanitizer's to watch.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleUnload(void *);
int cuModuleLoadData(void **, const void *), cuModuleLoad(void **, const char *),
    cuModuleGetFunction(void **, void *, const char *);

enum { ROOM = 1 << 14 };
static uint64_t state;
static int file; /* in memory: writing thousands of files to a disk takes long */
static char path[32];
static unsigned char *room; /* ROOM readable bytes, and behind them none */

static uint32_t draw(uint32_t below) {
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

static size_t make_ptx(unsigned char *at) {
	static const char text[] =
	    ".version 8.0\n.target sm_90\n.visible .entry kernel(.param .u64 p) { ret; }\n.entry\tother() { ret; }\n";
	memcpy(at, text, sizeof text);
	return sizeof text;
}

static size_t make_elf(unsigned char *at) {
	static const char names[] = "\0.shstrtab\0.text.kernel\0.text.other";
	Elf64_Ehdr head = {.e_ident = ELFMAG "\2\1\1",
	    .e_machine = 190,
	    .e_shoff = sizeof head,
	    .e_shentsize = sizeof(Elf64_Shdr),
	    .e_shnum = 4,
	    .e_shstrndx = 1};
	Elf64_Shdr parts[4] = {{0},
	    {.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = sizeof head + sizeof parts, .sh_size = sizeof names},
	    {.sh_name = 11}, {.sh_name = 24}};
	memcpy(at, &head, sizeof head);
	memcpy(at + sizeof head, parts, sizeof parts);
	memcpy(at + sizeof head + sizeof parts, names, sizeof names);
	return sizeof head + sizeof parts + sizeof names;
}

static size_t make_fatbinary(unsigned char *at) {
	size_t end = 16;
	for (int i = 0; i < 2; i++) {
		uint64_t bytes = (i == 0 ? make_elf : make_ptx)(at + end + 64);
		uint32_t header = 64;
		memset(at + end, 0, 64);
		memcpy(at + end + 4, &header, sizeof header);
		memcpy(at + end + 8, &bytes, sizeof bytes);
		end += 64 + bytes;
	}
	uint32_t magic = 0xba55ed50u;
	uint16_t header[2] = {1, 16};
	uint64_t bytes = end - 16;
	memcpy(at, &magic, 4), memcpy(at + 4, header, 4), memcpy(at + 8, &bytes, 8);
	return end;
}

/* Cuts it, and writes numbers over it: any, small ones, and those at the limits of their types. */
static size_t damage(unsigned char *image, size_t bytes) {
	static const uint64_t limits[] = {
	    0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_C(1) << 30, INT64_MAX, UINT64_MAX, UINT64_MAX - 63};
	for (uint32_t left = draw(4); left > 0; left--) {
		size_t width = (size_t)1 << draw(4);
		uint64_t value = draw(3) == 0   ? draw(1 << 16)
		                 : draw(2) == 0 ? draw(256)
		                                : limits[draw(sizeof limits / sizeof *limits)];
		if (bytes > width)
			memcpy(image + draw((uint32_t)(bytes - width)) / width * width, &value, width);
	}
	return draw(3) == 0 ? 1 + draw((uint32_t)bytes) : bytes;
}

static int load(const unsigned char *image, size_t bytes) {
	unsigned char *place = room + ROOM - bytes;
	void *module = NULL, *function;
	memcpy(place, image, bytes);
	int first = cuModuleLoadData(&module, place);
	if (first == 0 && (cuModuleGetFunction(&function, module, "kernel"), cuModuleUnload(module)) != 0)
		exit(3);
	if (ftruncate(file, 0) != 0 || pwrite(file, image, bytes, 0) != (ssize_t)bytes)
		exit(4);
	int second = cuModuleLoad(&module, path);
	if ((first != 0 && first != 200) || first != second)
		printf("from memory %d, from a file %d\n", first, second);
	return first;
}

int main(int count, char **arguments) {
	size_t (*const makers[])(unsigned char *) = {make_ptx, make_elf, make_fatbinary};
	unsigned char image[ROOM / 2];
	void *context, *module, *function, *wrapper[3] = {0};
	if (count != 3 || cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
		return 2;
	file = memfd_create("image", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	state = strtoull(arguments[1], NULL, 10);
	room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(room + ROOM, ROOM, PROT_NONE);
	for (int i = 0; i < 3; i++) { /* whole ones have their functions, and no others */
		size_t bytes = makers[i](image);
		if (load(image, bytes) != 0 || cuModuleLoadData(&module, room + ROOM - bytes) != 0 ||
		    cuModuleGetFunction(&function, module, "kernel") != 0 ||
		    cuModuleGetFunction(&function, module, "other") != 0 ||
		    cuModuleGetFunction(&function, module, "none") != 500)
			return 5;
	}
	uint32_t magic = 0x466243b1u; /* a wrapper, of the last image and of no memory */
	memcpy(wrapper, &magic, 4);
	wrapper[1] = room + ROOM - make_fatbinary(image);
	if (cuModuleLoadData(&module, wrapper) != 0)
		return 6;
	wrapper[1] = room + ROOM;
	if (cuModuleLoadData(&module, wrapper) != 200)
		return 7;
	int results[2] = {0};
	for (long i = strtol(arguments[2], NULL, 10); i > 0; i--)
		results[load(image, damage(image, makers[i % 3](image))) != 0]++;
	if (results[0] == 0 || results[1] == 0)
		return 8; /* it does not damage what is read */
	puts("done");
	return 0;
}
