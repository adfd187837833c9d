/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORM "[N x]MODEL[:MEMORY][:PROFILE]..."
enum { UNIT = 256, QUOTED = 4 * 120 + 64 };
#define MOST_BYTES (UINT64_C(16) << 40)

/* A part of a text. */
struct part {
	const char *at, *end;
};

static size_t length(struct part p) { return (size_t)(p.end - p.at); }

static int fail(char *complaint, size_t room, const char *format, ...) {
	va_list values;
	va_start(values, format);
	vsnprintf(complaint, room, format, values);
	va_end(values);
	return -1;
}

/* The bytes of a valid character of UTF-8, else 0. */
static int character(struct part p, unsigned *code) {
	const unsigned char *s = (const unsigned char *)p.at;
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t left = length(p);
	int bytes = 0;
	if (left == 0)
		return 0;
	if (*s < 0x80)
		bytes = 1;
	else if (*s >= 0xc2 && *s < 0xe0)
		bytes = 2;
	else if ((*s & 0xf0) == 0xe0)
		bytes = 3;
	else if (*s >= 0xf0 && *s < 0xf5)
		bytes = 4;
	if (bytes == 0 || left < (size_t)bytes)
		return 0;
	*code = bytes == 1 ? *s : *s & (0xffu >> (bytes + 1));
	for (int i = 1; i < bytes; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	return *code >= least[bytes] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff) ? bytes : 0;
}

/* The bytes of a white space character, else 0. */
static int space(struct part p) {
	unsigned c;
	int bytes = character(p, &c);
	int is = bytes && ((c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	                      (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
	                      c == 0x3000);
	return is ? bytes : 0;
}

static struct part trim(struct part p) {
	int bytes;
	while ((bytes = space(p)))
		p.at += bytes;
	const char *end = p.at;
	for (struct part q = p; q.at < q.end;) {
		bytes = space(q);
		q.at += bytes ? bytes : 1;
		if (!bytes)
			end = q.at;
	}
	p.end = end;
	return p;
}

/* What lies before a character; rest begins behind it. Returns whether it is there. */
static int cut(struct part p, char at, struct part *before, struct part *rest) {
	const char *found = p.at < p.end ? memchr(p.at, at, length(p)) : NULL;
	*before = (struct part){p.at, found ? found : p.end};
	*rest = (struct part){found ? found + 1 : p.end, p.end};
	return found != NULL;
}

/* Writes a text between quotation marks, and what does not print as an escape. */
static int quote_whole(struct part p, char *out, size_t room) {
	size_t n = (size_t)snprintf(out, room, "\"");
	while (p.at < p.end && n + 16 < room) {
		unsigned c = 0;
		int bytes = character(p, &c);
		const char *named = c ? strchr("\aa\bb\ff\nn\rr\tt\vv", (int)c) : NULL;
		if (bytes == 0)
			n += (size_t)snprintf(out + n, room - n, "\\x%02x", (unsigned char)*p.at);
		else if (c == '"' || c == '\\')
			n += (size_t)snprintf(out + n, room - n, "\\%c", (int)c);
		else if (c < ' ' && named)
			n += (size_t)snprintf(out + n, room - n, "\\%c", named[1]);
		else if (c < ' ' || c == 0x7f)
			n += (size_t)snprintf(out + n, room - n, "\\x%02x", c);
		else if ((c >= 0x80 && c <= 0xa0) || c == 0xad || (c >= 0x2000 && c <= 0x200f) ||
		         (c >= 0x2028 && c <= 0x202f) || c == 0xfeff)
			n += (size_t)snprintf(out + n, room - n, "\\u%04x", c);
		else
			n += (size_t)snprintf(out + n, room - n, "%.*s", bytes, p.at);
		p.at += bytes ? bytes : 1;
	}
	return (int)n + snprintf(out + n, room - n, "\"");
}

/* Quotes a caller's text for a message, without its middle if it is long. Returns out. */
static const char *quote(struct part p, char *out) {
	enum { MOST = 120 };
	if (length(p) <= MOST) {
		quote_whole(p, out, QUOTED);
		return out;
	}
	struct part start = {p.at, p.at + MOST / 2}, end = {p.end - MOST / 4, p.end};
	while (start.end > start.at && (*start.end & 0xc0) == 0x80)
		start.end--; /* not within a character */
	while (end.at < end.end && (*end.at & 0xc0) == 0x80)
		end.at++;
	int n = quote_whole(start, out, QUOTED - 64);
	n += snprintf(out + n, QUOTED - (size_t)n, "... %zu bytes ...", length(p) - length(start) - length(end));
	quote_whole(end, out + n, QUOTED - (size_t)n);
	return out;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static int same(struct part p, const char *text) {
	return strlen(text) == length(p) && strncasecmp(p.at, text, length(p)) == 0;
}

/* A name without what does not matter: case, white space, hyphens and the brand, so that "GeForce RTX 4090" is RTX4090.
 */
enum { PLAIN = 48 };
static int plain(struct part p, char out[PLAIN]) {
	static const char *const brands[] = {"nvidia", "tesla", "geforce"};
	int n = 0, words = 0, start = 0;
	while (p.at < p.end) {
		int gap = *p.at == '-' ? 1 : space(p);
		if (gap) {
			p.at += gap;
			if (n > start && words == 0)
				for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
					if (strlen(brands[i]) == (size_t)(n - start) &&
					    memcmp(out + start, brands[i], (size_t)(n - start)) == 0)
						words = -1;
			struct part left = {p.at, p.end};
			while (left.at < left.end && (gap = *left.at == '-' ? 1 : space(left)))
				left.at += gap;
			if (words == -1 && left.at < left.end)
				n = start; /* the brand is not the whole name */
			words = words == -1 ? 0 : n > start;
			continue;
		}
		if (n == PLAIN - 1 || *p.at == 0)
			return -1; /* no name is this long, or has a NUL */
		out[n++] = lower(*p.at++);
	}
	out[n] = 0;
	return n;
}

static struct part whole(const char *text) { return (struct part){text, text + strlen(text)}; }

/* A name without the remark in which those of simulated GPUs end. */
static struct part unremarked(struct part p) {
	static const char remark[] = "(simulated)";
	size_t n = sizeof remark - 1;
	if (length(p) > n && same((struct part){p.end - n, p.end}, remark))
		p.end -= n;
	return trim(p);
}

/* How many characters to change, insert or remove. */
static int distance(const char *a, const char *b) {
	int row[PLAIN + 1], n = (int)strlen(b);
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; *a; a++, i++) {
		int diagonal = row[0];
		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int changed = diagonal + (*a != b[j - 1]);
			diagonal = row[j];
			int other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
			row[j] = changed < other ? changed : other;
		}
	}
	return row[n];
}

/* A part of a name, such as 3090 or RTX of RTX3090. */
static int is_short(const char *known, const char *name) {
	size_t whole = strlen(known), part = strlen(name);
	return part >= 3 && part < whole &&
	       (strncmp(known, name, part) == 0 || (part >= 4 && strcmp(known + whole - part, name) == 0));
}

static int alike(const char *a, const char *b) {
	int n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

/* The model of a name, an alias or a product; how is how far the nearest one is. Of several, what begins like it. */
static const struct gpuconf_model *nearest(const char *name, int *how) {
	const struct gpuconf_model *best = NULL, *model;
	int begins = 0;
	*how = 1000;
	for (int i = 0; (model = gpuconf_model(i)); i++) {
		const char *names[] = {model->name, model->alias ? model->alias : model->name, model->product};
		for (int k = 0; k < 3; k++) {
			char known[PLAIN];
			plain(whole(names[k]), known);
			int d = is_short(known, name) ? 1 : distance(name, known), same = alike(known, name);
			if (d < *how || (d == *how && same > begins)) {
				best = model;
				*how = d;
				begins = same;
			}
		}
	}
	return best;
}

static const struct gpuconf_model *exactly(struct part p) {
	char name[PLAIN];
	int how;
	const struct gpuconf_model *model = plain(p, name) > 0 ? nearest(name, &how) : NULL;
	return model && how == 0 ? model : NULL;
}

static int all_digits(struct part p) {
	for (const char *at = p.at; at < p.end; at++)
		if (*at < '0' || *at > '9')
			return 0;
	return p.end > p.at && p.end - p.at <= 4;
}

/* What people write for 2xT4: "2*T4", "T4x2", "T4*2", "2 T4", "2T4", "2". Returns 0 for all else, such as "3090". */
static int other_form(struct part p, char *meant, size_t room) {
	if (all_digits(p) && length(p) <= 2 && *p.at != '0')
		return snprintf(meant, room, "%.*sxT4", (int)(p.end - p.at), p.at);
	for (const char *at = p.at; at < p.end; at++) {
		if (*at != '*' && *at != 'x' && *at != 'X' && *at != ' ')
			continue;
		struct part before = trim((struct part){p.at, at}), after = trim((struct part){at + 1, p.end});
		int turned = all_digits(after);
		struct part count = turned ? after : before, name = turned ? before : after;
		const struct gpuconf_model *model = all_digits(count) ? exactly(name) : NULL;
		if (model)
			return snprintf(meant, room, "%.*sx%s", (int)(count.end - count.at), count.at, model->name);
	}
	struct part count = {p.at, p.at};
	while (count.end < p.end && *count.end >= '0' && *count.end <= '9')
		count.end++;
	const struct gpuconf_model *model = all_digits(count) ? exactly((struct part){count.end, p.end}) : NULL;
	if (model)
		return snprintf(meant, room, "%.*sx%s", (int)(count.end - count.at), count.at, model->name);
	return 0;
}

/* There are too many models for an error's text, and each takes another memory. */
#define WAY_OUT "for another card write MODEL:MEMORY, such as RTX4090:12GiB; gpuconf simulate --models lists the models"

static int unknown_model(
    struct part entry, struct part name, const struct gpuconf_model *near, char *complaint, size_t room) {
	char quoted[QUOTED], form[64];
	if (length(name) == 0)
		return fail(complaint, room, "%s names no model, such as T4; %s", quote(entry, quoted), WAY_OUT);
	if (!other_form(name, form, sizeof form))
		snprintf(form, sizeof form, "%s", near ? near->name : "");
	return fail(complaint, room, "unknown GPU model %s; %s%s%s%s", quote(name, quoted), form[0] ? "did you mean " : "",
	    form, form[0] ? "?; " : "", WAY_OUT);
}

static int digits(struct part p) {
	int n = 0;
	while (p.at + n < p.end && p.at[n] >= '0' && p.at[n] <= '9')
		n++;
	return n;
}

/* The number of so many digits, or most if it is more. */
static uint64_t number(const char *at, int count, uint64_t most) {
	uint64_t value = 0;
	for (int i = 0; i < count; i++) {
		uint64_t digit = (uint64_t)(at[i] - '0');
		if (value > (most - digit) / 10)
			return most;
		value = 10 * value + digit;
	}
	return value;
}

/* In descending order, under the name that is written. */
static const struct unit {
	const char *name, *other;
	int shift;
} units[] = {{"TiB", "TB", 40}, {"GiB", "GB", 30}, {"MiB", "MB", 20}, {"KiB", "KB", 10}, {"B", "B", 0}};
enum { UNITS = sizeof units / sizeof *units };

static int is_unit(struct part p, int u) { return same(p, units[u].name) || same(p, units[u].other); }

static int read_memory(struct part p, uint64_t *memory, char *complaint, size_t room) {
	char quoted[QUOTED];
	int count = digits(p), u = 0;
	struct part unit = trim((struct part){p.at + count, p.end});
	while (u < UNITS && !is_unit(unit, u))
		u++;
	if (count == 0 || u == UNITS)
		return fail(complaint, room,
		    "memory %s is not a whole number with a unit (B, KiB, MiB, GiB, TiB), such as 8GiB", quote(p, quoted));
	uint64_t value = number(p.at, count, UINT64_MAX);
	int shown = length(p) < 100 ? (int)length(p) : 100;
	if (value > MOST_BYTES >> units[u].shift)
		return fail(complaint, room, "memory %.*s is more than 16TiB", shown, p.at);
	*memory = value << units[u].shift;
	if (*memory == 0)
		return fail(complaint, room, "memory must be positive, but got %.*s", shown, p.at);
	if (*memory % UNIT)
		return fail(complaint, room, "memory %.*s is not a multiple of %d bytes", shown, p.at, UNIT);
	return 0;
}

static const char *const profiles[] = {"wsl", "mig-container", "unified", "no-peers", "mps", "no-limit", "contexts"};
enum { PROFILES = sizeof profiles / sizeof *profiles };

const char *gpuconf_profile_name(int index) { return index >= 0 && index < PROFILES ? profiles[index] : NULL; }

/* driver=11.8 */
static int read_driver(struct part p, struct gpuconf_card *card, char *complaint, size_t room) {
	char quoted[QUOTED];
	struct part major, minor;
	int dot = cut(p, '.', &major, &minor), n = digits(major), k = digits(minor);
	if (!dot || n == 0 || k == 0 || n > 2 || k > 2 || length(major) != (size_t)n || length(minor) != (size_t)k ||
	    number(major.at, n, 99) == 0)
		return fail(complaint, room, "driver %s is not a version of CUDA, such as driver=11.8", quote(p, quoted));
	int driver = (int)(1000 * number(major.at, n, 99) + 10 * number(minor.at, k, 99));
	const struct gpuconf_driver *known;
	for (int i = 0; (known = gpuconf_driver(i)); i++)
		if (known->cuda == driver)
			break;
	if (known == NULL)
		return fail(complaint, room,
		    "a driver for CUDA %s is not simulated; known are 11.0 to 11.8, 12.0 to 12.6, 12.8, 12.9, 13.0 and 13.1, "
		    "such as driver=11.8",
		    quote(p, quoted));
	if (card->driver && card->driver != driver)
		return fail(complaint, room, "driver %s is the second one: a machine has one driver", quote(p, quoted));
	card->driver = driver;
	return 0;
}

static const char *sliced(char names[256]) {
	const struct gpuconf_model *model;
	size_t n = 0;
	for (int i = 0; (model = gpuconf_model(i)); i++)
		if (gpuconf_slice(model) && n < 200)
			n += (size_t)snprintf(names + n, 256 - n, "%s%s", n ? ", " : "", model->name);
	return names;
}

/* What a card cannot be. */
static int check_profile(const struct gpuconf_card *card, char *complaint, size_t room) {
	char names[256] = "";
	if (!(card->profile & GPUCONF_MIG_CONTAINER))
		return 0;
	if (gpuconf_slice(card->model) == NULL)
		return fail(complaint, room, "%s is not simulated with MIG; models with mig-container: %s", card->model->name,
		    sliced(names));
	if (card->profile & (GPUCONF_WSL | GPUCONF_AS_UNIFIED))
		return fail(complaint, room, "mig-container excludes wsl and unified: such machines have no MIG");
	return 0;
}

/* What a machine cannot be. */
static int check_machine(const struct gpuconf_card *cards, int n, char *complaint, size_t room) {
	int driver = 0;
	for (int i = 0; i < n; i++) {
		if (cards[i].profile & GPUCONF_MIG_CONTAINER && n > 1)
			return fail(complaint, room, "a machine with mig-container has one card: a program sees one MIG instance");
		if (cards[i].driver && driver && cards[i].driver != driver)
			return fail(complaint, room, "it has two drivers, %d.%d and %d.%d; a machine has one", driver / 1000,
			    driver % 1000 / 10, cards[i].driver / 1000, cards[i].driver % 1000 / 10);
		driver = cards[i].driver ? cards[i].driver : driver;
	}
	return 0;
}

static int read_profile(struct part p, struct gpuconf_card *card, char *complaint, size_t room) {
	char quoted[QUOTED], name[PLAIN];
	struct part key, value;
	if (cut(p, '=', &key, &value) && same(trim(key), "driver"))
		return read_driver(trim(value), card, complaint, room);
	for (int i = 0; i < PROFILES; i++)
		if (same(p, profiles[i])) {
			card->profile |= 1u << i;
			return 0;
		}
	int best = -1, least = 4;
	for (int i = 0; i < PROFILES && plain(p, name) > 0; i++) {
		char known[PLAIN];
		plain(whole(profiles[i]), known);
		int begins = strlen(name) >= 3 && strncmp(known, name, strlen(name)) == 0,
		    d = begins ? 0 : distance(name, known);
		if (d < least) {
			least = d;
			best = i;
		}
	}
	return fail(complaint, room,
	    "unknown profile %s; known profiles: wsl, mig-container, unified, no-peers, mps, no-limit, contexts, "
	    "driver=VERSION%s%s%s",
	    quote(p, quoted), best >= 0 ? "; did you mean " : "", best >= 0 ? profiles[best] : "", best >= 0 ? "?" : "");
}

/* A profile's word begins with a letter, and is no unit: that is a memory without its number. */
static int is_word(struct part p) {
	for (int u = 0; u < UNITS; u++)
		if (is_unit(p, u))
			return 0;
	return length(p) > 0 && lower(*p.at) >= 'a' && lower(*p.at) <= 'z';
}

/* What follows the model's colon. */
static int read_details(struct part p, struct gpuconf_card *card, char *complaint, size_t room) {
	char quoted[QUOTED];
	struct part all = p, one, rest;
	for (int first = 1, more = 1; more; first = 0, p = rest) {
		more = cut(p, ':', &one, &rest);
		one = trim(one);
		int failed = 0;
		if (is_word(one))
			failed = read_profile(one, card, complaint, room);
		else if (first)
			failed = read_memory(one, &card->memory, complaint, room);
		else
			failed = fail(complaint, room,
			    "memory %s is not a whole number with a unit (B, KiB, MiB, GiB, TiB), such as 8GiB",
			    quote(trim(all), quoted));
		if (failed)
			return -1;
	}
	return 0;
}

static long read_one(struct part entry, long most, struct gpuconf_card *card, char *complaint, size_t room) {
	char quoted[QUOTED], wanted[PLAIN];
	long count = 1;
	entry = trim(entry);
	if (length(entry) == 0)
		return fail(complaint, room, "an entry is empty; the form is " FORM);
	struct part rest = entry, name, details;
	int n = digits(entry);
	struct part after = trim((struct part){entry.at + n, entry.end});
	if (n && length(after) && lower(*after.at) == 'x') {
		count = (long)number(entry.at, n, (uint64_t)most + 1);
		if (count < 1 || count > most)
			return fail(complaint, room, "the count in %s must be from 1 to %ld", quote(entry, quoted), most);
		rest = trim((struct part){after.at + 1, after.end});
	}
	int detailed = cut(rest, ':', &name, &details), how = 1000;
	name = trim(name);
	int size = plain(unremarked(name), wanted);
	const struct gpuconf_model *model = size > 0 ? nearest(wanted, &how) : NULL;
	if (how > 0)
		return unknown_model(entry, name, how == 1 || 3 * how <= size ? model : NULL, complaint, room);
	*card = (struct gpuconf_card){.model = model, .memory = model->memory};
	return (detailed && read_details(details, card, complaint, room)) || check_profile(card, complaint, room) ? -1
	                                                                                                          : count;
}

long gpuconf_read_entry(struct gpuconf_reader *reader, struct gpuconf_card *card, char *complaint, size_t room) {
	struct part entry, rest, left = {reader->at, reader->end};
	if (reader->begun && reader->at == NULL)
		return 0;
	reader->begun = 1;
	int more = cut(left, ',', &entry, &rest);
	reader->at = more ? rest.at : NULL;
	long count = read_one(entry, reader->most, card, complaint, room);
	size_t used = count < 0 ? strlen(complaint) : 0;
	if (count < 0 && strstr(complaint, "such as ") == NULL && strstr(complaint, "an example is ") == NULL &&
	    used < room)
		snprintf(complaint + used, room - used, "; an example is 2xT4:8GiB");
	return count;
}

static int refuse(struct part text, const char *reason, char *complaint, size_t room) {
	char quoted[QUOTED];
	return fail(complaint, room, "cannot simulate %s: %s", quote(text, quoted), reason);
}

int gpuconf_read_spec(const char *text, size_t bytes, struct gpuconf_card *cards, char *complaint, size_t room) {
	char reason[GPUCONF_COMPLAINT - QUOTED - 32];
	struct part all = {text ? text : "", (text ? text : "") + bytes};
	if (length(trim(all)) == 0)
		return refuse(all, "the specification is empty; an example is 2xH100-80GB", complaint, room);
	struct gpuconf_reader reader = {.at = all.at, .end = all.end, .most = GPUCONF_MOST_CARDS};
	struct gpuconf_card card = {0};
	int n = 0;
	for (long count; (count = gpuconf_read_entry(&reader, &card, reason, sizeof reason));) {
		if (count < 0)
			return refuse(all, reason, complaint, room);
		if (count > GPUCONF_MOST_CARDS - n)
			return refuse(all, "it has more than 64 GPUs", complaint, room);
		while (count--)
			cards[n++] = card;
	}
	if (check_machine(cards, n, reason, sizeof reason))
		return refuse(all, reason, complaint, room);
	return n;
}

int gpuconf_write_card(const struct gpuconf_card *card, char *text, size_t room) {
	char memory[32] = "", words[64] = "", driver[24] = "";
	int u = 0;
	while (card->memory & ((UINT64_C(1) << units[u].shift) - 1))
		u++; /* the last unit divides every size */
	if (card->memory != card->model->memory)
		snprintf(memory, sizeof memory, ":%llu%s", (unsigned long long)(card->memory >> units[u].shift), units[u].name);
	for (int i = 0, n = 0; i < PROFILES; i++)
		if (card->profile & 1u << i)
			n += snprintf(words + n, sizeof words - (size_t)n, ":%s", profiles[i]);
	if (card->driver)
		snprintf(driver, sizeof driver, ":driver=%d.%d", card->driver / 1000, card->driver % 1000 / 10);
	return snprintf(text, room, "%s%s%s%s", card->model->name, memory, words, driver);
}
