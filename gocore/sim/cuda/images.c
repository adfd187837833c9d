/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of functions in kernel images: PTX, ELF, and fat binaries of these. A program gives most images without
 * their size, so every read is bounded: by the sizes that the image states, and by what the process can read from its
 * first byte on.
 */
#include "modules.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FATBINARY 0xba55ed50u
#define WRAPPER 0x466243b1u
#define MOST_IMAGE (UINT64_C(1) << 30)

/* Whether a part lies in what there is, without a sum that could overflow. */
static int holds(uint64_t left, uint64_t offset, uint64_t bytes) { return offset <= left && bytes <= left - offset; }

/* 0 where /proc is missing. */
uint64_t readable_bytes(const void *image) {
	uint64_t begin, end, at = (uint64_t)(uintptr_t)image;
	char line[512], access;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &begin, &end, &access) == 3 && access == 'r' && begin <= at &&
		    at < end)
			at = end;
	if (maps != NULL)
		fclose(maps);
	uint64_t bytes = at - (uint64_t)(uintptr_t)image;
	return bytes < MOST_IMAGE ? bytes : MOST_IMAGE;
}

static int name_character(int c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/* ".entry" and a name, wherever they stand: comments in PTX that have them name one function more, which no program
 * requests. */
static void read_ptx(struct module *module, const char *text, size_t bytes) {
	static const char entry[] = ".entry";
	for (const char *at = text, *end = text + bytes;
	    (at = memmem(at, (size_t)(end - at), entry, sizeof entry - 1)) != NULL;) {
		at += sizeof entry - 1;
		const char *name = at;
		while (name < end && strchr(" \t\r\n", *name) != NULL)
			name++;
		size_t length = 0;
		while (name + length < end && name_character((unsigned char)name[length]))
			length++;
		if (name > at && length > 0)
			add_function(module, name, length);
	}
}

/* Each kernel has a section of its own, named after it. */
static enum image read_elf(struct module *module, const unsigned char *image, uint64_t left) {
	static const char text[] = ".text.";
	Elf64_Ehdr head;
	Elf64_Shdr names, one;
	if (left < sizeof head)
		return DAMAGED_IMAGE;
	memcpy(&head, image, sizeof head);
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof one || head.e_shstrndx >= head.e_shnum)
		return OTHER_IMAGE;
	if (!holds(left, head.e_shoff, (uint64_t)head.e_shnum * sizeof one))
		return DAMAGED_IMAGE;
	memcpy(&names, image + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
	if (!holds(left, names.sh_offset, names.sh_size))
		return DAMAGED_IMAGE;
	for (size_t i = 0; i < head.e_shnum; i++) {
		memcpy(&one, image + head.e_shoff + i * sizeof one, sizeof one);
		const char *name = (const char *)image + names.sh_offset + one.sh_name;
		size_t length = one.sh_name < names.sh_size ? strnlen(name, names.sh_size - one.sh_name) : 0;
		if (length >= sizeof text && memcmp(name, text, sizeof text - 1) == 0)
			add_function(module, name + sizeof text - 1, length - (sizeof text - 1));
	}
	return READ_IMAGE;
}

struct fat_entry {
	uint16_t kind, version;
	uint32_t header;
	uint64_t bytes;
	uint32_t compressed, rest[5];
	uint64_t flags;
};

static enum image read_part(struct module *module, const unsigned char *image, uint64_t left);

/* One part for each architecture, with the same functions. A part that is a fat binary again is not read: depth would
 * have no bound. */
static enum image read_fatbinary(struct module *module, const unsigned char *image, uint64_t left) {
	struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
	} head;
	struct fat_entry entry;
	if (left < sizeof head)
		return DAMAGED_IMAGE;
	memcpy(&head, image, sizeof head);
	if (!holds(left, head.header, head.bytes))
		return DAMAGED_IMAGE;
	left = head.header + head.bytes;
	enum image result = READ_IMAGE;
	for (uint64_t at = head.header; result == READ_IMAGE && holds(left, at, sizeof entry);
	    at += entry.header + entry.bytes) {
		memcpy(&entry, image + at, sizeof entry);
		if (!holds(left - at, entry.header, entry.bytes))
			return DAMAGED_IMAGE;
		result = entry.header < sizeof entry || entry.compressed != 0
		             ? OTHER_IMAGE
		             : read_part(module, image + at + entry.header, entry.bytes);
	}
	return result;
}

/* PTX ends with a zero, or with its part of a fat binary. */
static enum image read_part(struct module *module, const unsigned char *image, uint64_t left) {
	if (left >= SELFMAG && memcmp(image, ELFMAG, SELFMAG) == 0)
		return read_elf(module, image, left);
	const char *text = (const char *)image;
	size_t bytes = strnlen(text, left);
	while (bytes > 0 && strchr(" \t\r\n", *text) != NULL)
		text++, bytes--;
	if (bytes == 0 || (*text != '.' && *text != '/'))
		return OTHER_IMAGE;
	read_ptx(module, text, bytes);
	return READ_IMAGE;
}

/* 0 where there are not even four bytes. */
static uint32_t magic_of(const unsigned char *image, uint64_t left) {
	uint32_t magic = 0;
	if (left >= sizeof magic)
		memcpy(&magic, image, sizeof magic);
	return magic;
}

enum image read_image(struct module *module, const unsigned char *image, uint64_t left) {
	if (magic_of(image, left) == FATBINARY)
		return read_fatbinary(module, image, left);
	if (magic_of(image, left) != WRAPPER)
		return read_part(module, image, left);
	const unsigned char *inner = NULL; /* a wrapper has the address of the fat binary */
	if (left < 8 + sizeof inner)
		return DAMAGED_IMAGE;
	memcpy(&inner, image + 8, sizeof inner);
	left = readable_bytes(inner);
	return magic_of(inner, left) == FATBINARY ? read_fatbinary(module, inner, left) : DAMAGED_IMAGE;
}
