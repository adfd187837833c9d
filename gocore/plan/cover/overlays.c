/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a program whose writes stay in memory. Each folder of the machine is seen through an overlay, whose upper
 * layer is in a tmpfs of a limited size; the tree becomes the root of the mount namespace, and the machine's own is
 * detached. So what is forgotten here is missing in the tree, and is never the machine's.
 *
 * While it is built, the machine's tree is at OLD, and the new one at NEW. What is different in a user namespace:
 * - An overlay can't be made of a folder with mounts below it (they are locked). Such a folder is made anew, entry by
 * entry.
 * - Only this user and its group exist. A file of another owner can't be copied to the upper layer (EOVERFLOW): a
 * folder that the program may write to, and which belongs to others, is copied as a whole if it is small.
 */
#include "cover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 0x1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#define OLD "/old"
#define NEW "/new"
#define LAYERS "/layers"
#define REPORT "/report"
#define SMALL_FILE \
	(16 << 20) /* bytes: a file of a folder that is made anew is copied up to this size, and read-only beyond */

struct attributes { /* struct mount_attr of linux/mount.h, which older headers lack */
	uint64_t set, clear, propagation, namespace;
};

struct mount_point {
	char *path;
	bool disk; /* whether files of it are kept, and not made by the kernel when they are read */
	bool gone; /* whether a later one covers it */
};

/* What is known while the tree is built. This process has one thread, so nothing guards it. */
static struct mount_point *mounts;
static int mounts_count;
static int layers_count;
static char *read_only[64]; /* places in the new tree of folders that can't be written to on the machine, either */
static int read_only_count;
static bool in_user_namespace;
static const struct request *asked;
static struct cover *made;

/* The types of file systems that have no files of a disk (man 5 filesystems, and what systemd mounts). */
static const char *const VIRTUAL[] = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "securityfs",
    "debugfs", "tracefs", "bpf", "configfs", "pstore", "efivarfs", "hugetlbfs", "mqueue", "binfmt_misc", "autofs",
    "rpc_pipefs", "nsfs", "fusectl", "selinuxfs", "nfsd", NULL};

/* Their files are made by the kernel when they are read, and must not be copied. */
static bool is_virtual(const char *type) {
	for (const char *const *one = VIRTUAL; *one != NULL; one++)
		if (strcmp(type, *one) == 0)
			return true;
	return false;
}

/* Octal escapes of mountinfo, in place. */
static void unescape(char *text) {
	char *to = text;
	for (char *from = text; *from != 0; from++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] != 0 && from[3] != 0) {
			*to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
}

/* Whether a path lies below a folder. */
static bool is_below(const char *path, const char *folder) {
	size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
	return strncmp(path, folder, length) == 0 && path[length] == '/' && path[length + 1] != 0;
}

/* In the order in which they were mounted: a later one covers those at and below its path. */
static bool read_mounts(void) {
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	if (file == NULL)
		return failed(made, "read", "/proc/self/mountinfo");
	while (getline(&line, &size, file) > 0) {
		char path[PATH_MAX], type[64];
		char *dash = strstr(line, " - ");
		if (sscanf(line, "%*d %*d %*s %*s %4095s", path) != 1 || dash == NULL || sscanf(dash, " - %63s", type) != 1)
			continue;
		unescape(path);
		for (int i = 0; i < mounts_count; i++)
			mounts[i].gone |= strcmp(mounts[i].path, path) == 0 || is_below(mounts[i].path, path);
		struct mount_point *more = realloc(mounts, sizeof *mounts * (size_t)(mounts_count + 1));
		if (more == NULL)
			break;
		mounts = more;
		mounts[mounts_count++] = (struct mount_point){strdup(path), !is_virtual(type), false};
	}
	free(line);
	fclose(file);
	return true;
}

/* Mounts that are covered by a later one cannot be reached, and do not count. */
static bool has_mounts_below(const char *path) {
	for (int i = 0; i < mounts_count; i++)
		if (!mounts[i].gone && is_below(mounts[i].path, path))
			return true;
	return false;
}

/* Whether the kernel makes the files of the mount that a path lies on. */
static bool on_virtual_mount(const char *path) {
	const struct mount_point *nearest = NULL;
	for (int i = 0; i < mounts_count; i++)
		if (!mounts[i].gone && (strcmp(mounts[i].path, path) == 0 || is_below(path, mounts[i].path)) &&
		    (nearest == NULL || strlen(mounts[i].path) >= strlen(nearest->path)))
			nearest = &mounts[i];
	return nearest != NULL && !nearest->disk;
}

/* Paths of the machine are at most this long, so that one of a tree has room. */
#define PATH_MOST (PATH_MAX - 8)

/* The root of a tree is written without its slash, so that no path has two. */
static void join(char *to, const char *tree, const char *path) {
	snprintf(to, PATH_MAX, "%s%.*s", tree, PATH_MOST, strcmp(path, "/") == 0 ? "" : path);
}

/* Mount what is at a path of the machine in the new tree, where it cannot be written to. */
static bool bind_read_only(const char *from, const char *to) {
	struct attributes attributes = {.set = MOUNT_ATTR_RDONLY};
	if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
		return failed(made, "bind", to);
	if (mount(NULL, to, NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    syscall(SYS_mount_setattr, AT_FDCWD, to, AT_RECURSIVE, &attributes, sizeof attributes) != 0)
		return failed(made, "protect", to);
	return true;
}

/* Make a folder for a layer's files, with a link that says which folder of the machine it is of. */
static bool new_folder(const char *from, char *upper, char *work) {
	char link[64];
	const char *path = from[strlen(OLD)] != 0 ? from + strlen(OLD) : "/";
	int number = layers_count++;
	snprintf(upper, PATH_MAX, LAYERS "/%d", number);
	snprintf(work, PATH_MAX, LAYERS "/%d/work", number);
	snprintf(link, sizeof link, LAYERS "/%d/of", number);
	if (mkdir(upper, 0700) != 0 || mkdir(work, 0700) != 0 || symlink(path, link) != 0)
		return failed(made, "make a layer for", path);
	strcat(upper, "/files");
	return true;
}

/* The same with the folder for the files, which has the rights that the program has in the machine's. */
static bool new_layer(const char *from, char *upper, char *work) {
	struct stat facts;
	if (stat(from, &facts) != 0)
		return failed(made, "look at", from + strlen(OLD));
	if (!new_folder(from, upper, work))
		return false;
	mode_t mode = facts.st_mode & 07777;
	if (in_user_namespace && facts.st_uid != geteuid()) {
		mode_t own = (access(from, R_OK) == 0 ? 0400 : 0) | (access(from, W_OK) == 0 ? 0200 : 0) |
		             (access(from, X_OK) == 0 ? 0100 : 0);
		mode = (mode & ~0700u) | own;
	}
	struct timespec times[2] = {facts.st_atim, facts.st_mtim};
	bool done = mkdir(upper, 0700) == 0 && (in_user_namespace || chown(upper, facts.st_uid, facts.st_gid) == 0);
	if (!done || chmod(upper, mode) != 0 || utimensat(AT_FDCWD, upper, times, 0) != 0)
		return failed(made, "make a layer for", from);
	return true;
}

/* Open a folder, so that its path can be given to the kernel whatever characters it has. */
static int handle(const char *path, char *name) {
	int descriptor = open(path, O_PATH | O_CLOEXEC);
	snprintf(name, 64, "/proc/self/fd/%d", descriptor);
	return descriptor;
}

/*
 * An overlay's own options have commas and colons, so the folders are passed as open descriptors. "volatile": nothing
 * is synchronized with a disk, as the layers are in memory. A folder that is read-only on the machine is noted, and
 * becomes so when all is in place.
 */
static bool overlay(const char *from, const char *to) {
	char upper[PATH_MAX], work[PATH_MAX], options[512], names[3][64];
	if (!new_layer(from, upper, work))
		return false;
	int handles[3] = {handle(from, names[0]), handle(upper, names[1]), handle(work, names[2])};
	/* With an index the names of a file stay links of one file. Not every file system can be below it. */
	bool done = false;
	for (int index = 1; index >= 0 && !done; index--) {
		snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s,volatile,index=%s,%s", names[0], names[1],
		    names[2], index ? "on" : "off", in_user_namespace ? "userxattr" : "redirect_dir=on,metacopy=on");
		done = mount("overlay", to, "overlay", 0, options) == 0;
	}
	int error = errno;
	for (int i = 0; i < 3; i++)
		close(handles[i]);
	errno = error;
	struct statvfs facts;
	if (done && statvfs(from, &facts) == 0 && facts.f_flag & ST_RDONLY && read_only_count < 64)
		read_only[read_only_count++] = strdup(to + strlen(NEW));
	return done || failed(made, "overlay", from + strlen(OLD));
}

/* Whether a folder of the machine belongs to a user who does not exist in this namespace, and the program may write to
 * it. */
static bool is_foreign(const char *from, bool *shared) {
	struct stat facts;
	if (!in_user_namespace || stat(from, &facts) != 0 || (facts.st_uid == geteuid() && facts.st_gid == getegid()))
		return false;
	*shared = (facts.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);
	return access(from, W_OK) == 0;
}

/* The copy is bound and not overlaid: its files belong to this user, who may change them. */
static bool cover_by_copy(const char *from, const char *to) {
	char upper[PATH_MAX], work[PATH_MAX];
	if (!new_folder(from, upper, work))
		return false;
	if (!copy_folder(from, upper, NULL))
		return failed(made, "copy", from + strlen(OLD));
	return mount(upper, to, NULL, MS_BIND, NULL) == 0 || failed(made, "bind", to + strlen(NEW));
}

/* Cover folders on the way from a folder to a deeper one that belong to others: an overlay above them can't copy them.
 */
static bool cover_foreign(const char *folder, const char *deep) {
	static char *covered[64];
	static int count;
	char path[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
	if (deep == NULL || !is_below(deep, folder) || strlen(deep) >= sizeof path)
		return true;
	strcpy(path, deep);
	for (size_t end = strcmp(folder, "/") == 0 ? 1 : strlen(folder) + 1; end <= strlen(deep); end++) {
		bool shared, before = false;
		if (deep[end] != '/' && deep[end] != 0)
			continue;
		path[end] = 0;
		join(from, OLD, path);
		join(to, NEW, path);
		for (int i = 0; i < count; i++)
			before |= strcmp(covered[i], path) == 0;
		if (!before && is_foreign(from, &shared) && count < 64) {
			covered[count++] = strdup(path);
			if (!shared && copy_is_small(from))
				return cover_by_copy(from, to);
			if (!overlay(from, to))
				return false;
		}
		path[end] = deep[end];
	}
	return true;
}

/* A twin of a file of the machine: a copy if it is small. */
static bool twin_of_file(const char *from, const char *to, const struct stat *facts) {
	if (facts->st_blocks * 512LL <= SMALL_FILE && access(from, R_OK) == 0)
		return copy_file(from, to) || failed(made, "copy", from + strlen(OLD));
	int empty = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (empty < 0 || close(empty) != 0)
		return failed(made, "make", to);
	return bind_read_only(from, to);
}

/* Folders that the program surely wants. */
static const char *wanted(int number) {
	const char *const paths[] = {asked->folder, getenv("HOME"), getenv("TMPDIR"), "/var/tmp", "/tmp", NULL};
	const char *path = paths[number];
	return path == NULL && number < 3 ? "" : path;
}

static bool cover_folder(const char *path);

static bool is_of_kernel(const char *path) { /* made later */
	return strcmp(path, "/proc") == 0 || strcmp(path, "/dev") == 0 || strcmp(path, "/sys") == 0;
}

static bool make_entry(const char *folder, const char *name) {
	char path[PATH_MAX], from[PATH_MAX], to[PATH_MAX], link[PATH_MAX];
	struct stat facts;
	if (snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name) >= PATH_MOST)
		return true;
	join(from, OLD, path);
	join(to, NEW, path);
	if (lstat(from, &facts) != 0)
		return true; /* it has gone */
	if (S_ISDIR(facts.st_mode)) {
		/* A mount can't be renamed or removed, so a folder of the program's own is copied if it is small. */
		if (is_below(path, asked->folder) && !is_of_kernel(path) && !has_mounts_below(path) && copy_is_small(from))
			return copy_folder(from, to, NULL) || failed(made, "copy", path);
		if (mkdir(to, 0700) != 0)
			return errno == EEXIST || failed(made, "make", path);
		return cover_folder(path);
	}
	if (S_ISLNK(facts.st_mode)) {
		ssize_t length = readlink(from, link, sizeof link - 1);
		link[length < 0 ? 0 : length] = 0;
		struct timespec times[2] = {facts.st_atim, facts.st_mtim};
		return length < 0 || (symlink(link, to) == 0 && utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW) == 0) ||
		       failed(made, "link", path);
	}
	return !S_ISREG(facts.st_mode) || twin_of_file(from, to, &facts);
}

/* The entry of a folder on the way to a deeper path. */
static bool make_entry_towards(const char *folder, const char *deep) {
	if (!is_below(deep, folder))
		return true;
	const char *start = deep + (strcmp(folder, "/") == 0 ? 1 : strlen(folder) + 1);
	char name[NAME_MAX + 1];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "/"), start);
	return make_entry(folder, name);
}

/* A folder that is made anew: its folders are covered one by one. Sockets and FIFOs are left out. */
static bool make_anew(const char *path) {
	char from[PATH_MAX], to[PATH_MAX], upper[PATH_MAX], work[PATH_MAX];
	join(from, OLD, path);
	join(to, NEW, path);
	if (!new_layer(from, upper, work))
		return false;
	if (mount(upper, to, NULL, MS_BIND, NULL) != 0)
		return failed(made, "bind", path);
	struct stat facts;
	if (stat(to, &facts) != 0 || chmod(to, 0700) != 0)
		return failed(made, "make", path);
	/* One that mounts its folders when they are looked at must not be read, and some may not be: what is known to be
	 * there is made. */
	CLOSED_DIR *folder = on_virtual_mount(path) ? NULL : opendir(from);
	bool whole = true;
	for (const char *name; whole && (name = next_entry(folder)) != NULL;)
		whole = make_entry(path, name);
	for (int i = 0; folder == NULL && whole && i < mounts_count; i++)
		whole = mounts[i].gone || make_entry_towards(path, mounts[i].path);
	for (int i = 0; folder == NULL && whole && wanted(i) != NULL; i++)
		whole = make_entry_towards(path, wanted(i));
	struct timespec times[2] = {facts.st_atim, facts.st_mtim};
	return whole && ((chmod(to, facts.st_mode & 07777) == 0 && utimensat(AT_FDCWD, to, times, 0) == 0) ||
	                    failed(made, "make", path));
}

/* Cover a folder of the machine, whose place in the new tree exists, with all that is below it. */
static bool cover_folder(const char *path) {
	char from[PATH_MAX], to[PATH_MAX];
	bool shared = false;
	if (is_of_kernel(path))
		return true;
	join(from, OLD, path);
	join(to, NEW, path);
	if (in_user_namespace && has_mounts_below(path))
		return make_anew(path);
	if (on_virtual_mount(path))
		return true; /* an empty folder */
	if (in_user_namespace && access(from, X_OK) != 0)
		return chmod(to, 0) == 0 || failed(made, "make", path);
	if (is_foreign(from, &shared) && !shared && copy_is_small(from))
		return cover_by_copy(from, to);
	if (!overlay(from, to)) { /* of a file system that can't be below one */
		if (!bind_read_only(from, to))
			return false;
		snprintf(made->what, sizeof made->what, "%.400s is read-only", path);
		return true;
	}
	for (int i = 0; wanted(i) != NULL; i++)
		if (!cover_foreign(path, wanted(i)))
			return false;
	return true;
}

/* Folders on the way that exist are left as they are. */
static void make_path(const char *path) {
	char part[PATH_MAX];
	for (const char *end = path + 1; (end = strchr(end, '/')) != NULL; end++) {
		snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
		mkdir(part, 0755);
	}
	mkdir(path, 0755);
}

/* Root's overlays may have mounts below them: each gets its own, outer ones first, as mountinfo has them. */
static bool cover_mounts(void) {
	for (int i = 0; i < mounts_count; i++) {
		char from[PATH_MAX], to[PATH_MAX];
		const char *path = mounts[i].path;
		struct stat facts;
		if (mounts[i].gone || !mounts[i].disk || strcmp(path, "/") == 0 || is_below(path, "/proc") ||
		    is_below(path, "/sys") || strcmp(path, "/dev") == 0 || is_below(path, "/dev"))
			continue;
		join(from, OLD, path);
		join(to, NEW, path);
		if (stat(from, &facts) != 0)
			continue;
		if (S_ISREG(facts.st_mode)) {
			unlink(to);
			if (!twin_of_file(from, to, &facts))
				return false;
		} else if (S_ISDIR(facts.st_mode)) {
			make_path(to); /* one that was below another that is covered */
			if (!cover_folder(path))
				return false;
		}
	}
	return true;
}

/* Only devices that keep nothing and belong to no one. A terminal of its own, and shared memory that ends with the
 * cover. */
static bool make_devices(void) {
	static const char *const NODES[] = {"null", "zero", "full", "random", "urandom", "tty", NULL};
	static const char *const LINKS[][2] = {{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
	    {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"}};
	char from[PATH_MAX], to[PATH_MAX], size[64];
	if (mount("tmpfs", NEW "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") != 0)
		return failed(made, "mount", "/dev");
	for (const char *const *name = NODES; *name != NULL; name++) {
		snprintf(from, sizeof from, OLD "/dev/%s", *name);
		snprintf(to, sizeof to, NEW "/dev/%s", *name);
		int file = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (file < 0 || close(file) != 0)
			return failed(made, "make", to + strlen(NEW));
		if (access(from, F_OK) == 0 && !bind_read_only(from, to)) /* the device is written to, and its mode is not */
			return false;
	}
	for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) {
		snprintf(to, sizeof to, NEW "/dev/%s", LINKS[i][1]);
		if (symlink(LINKS[i][0], to) != 0)
			return failed(made, "link", to + strlen(NEW));
	}
	if (mkdir(NEW "/dev/pts", 0755) != 0 || mkdir(NEW "/dev/shm", 0755) != 0 ||
	    mount("devpts", NEW "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") != 0)
		return failed(made, "mount", "/dev/pts");
	snprintf(size, sizeof size, "mode=1777,size=%lld", asked->writes);
	return (access(OLD "/dev/shm", F_OK) == 0 && overlay(OLD "/dev/shm", NEW "/dev/shm")) ||
	       mount("tmpfs", NEW "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size) == 0 ||
	       failed(made, "mount", "/dev/shm");
}

/* The kernel's own folders: /proc of this namespace of processes, /sys without writes, and a /dev of its own. */
static bool make_kernel_folders(void) {
	static const char *const SWITCHES[] = {"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", NULL};
	static const char *const FOLDERS[] = {NEW "/proc", NEW "/sys", NEW "/dev", NULL};
	for (const char *const *folder = FOLDERS; *folder != NULL; folder++)
		if (mkdir(*folder, 0755) != 0 && errno != EEXIST)
			return failed(made, "make", *folder + strlen(NEW));
	if (made->first ? mount("proc", NEW "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0
	                : mount(OLD "/proc", NEW "/proc", NULL, MS_BIND | MS_REC, NULL) != 0)
		return failed(made, "mount", "/proc");
	for (const char *const *name = SWITCHES; *name != NULL; name++) {
		char path[PATH_MAX];
		snprintf(path, sizeof path, NEW "/proc/%s", *name);
		if (access(path, F_OK) == 0 && !bind_read_only(path, path))
			return false;
	}
	return bind_read_only(OLD "/sys", NEW "/sys") && make_devices();
}

/* The library that every program inside loads, whatever its environment says, before those that the machine has here.
 */
static bool write_preload(void) {
	char before[4096];
	const char *path = NEW "/etc/ld.so.preload";
	if (asked->preload == NULL)
		return true;
	read_text(path, before, sizeof before);
	unlink(path);
	CLOSED_INT file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return (file >= 0 && dprintf(file, "%s\n%s", asked->preload, before) > 0) ||
	       failed(made, "write", "/etc/ld.so.preload");
}

/* Sockets of others are dead in an overlay, since the kernel looks for its own of the file below. These stay alive. */
static bool allow_sockets(void) {
	for (const char *const *socket = asked->sockets; *socket != NULL; socket++) {
		char from[PATH_MAX], to[PATH_MAX];
		join(from, OLD, *socket);
		join(to, NEW, *socket);
		int file = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600); /* ENXIO: its dead twin is there */
		if (file >= 0)
			close(file);
		if (mount(from, to, NULL, MS_BIND, NULL) != 0)
			return failed(made, "allow the socket", *socket);
	}
	return true;
}

/* Two steps, as everybody's who builds a root: a small tmpfs becomes the root, so that the whole machine is at OLD;
 * then NEW does. */
static bool make_stage(void) {
	char size[64];
	snprintf(size, sizeof size, "mode=755,size=%lld", asked->writes + COPY_BYTES_MOST);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return failed(made, "make private", "/");
	if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, size) != 0)
		return failed(made, "mount", "a tmpfs");
	if (chdir("/tmp") != 0 || mkdir("old", 0700) != 0 || mkdir("new", 0755) != 0 || mkdir("layers", 0700) != 0 ||
	    mkdir("report", 0700) != 0 || mkdir("proc", 0700) != 0)
		return failed(made, "make", "folders");
	if (syscall(SYS_pivot_root, ".", "old") != 0 || chdir("/") != 0)
		return failed(made, "change", "the root");
	if (mount(OLD "/proc", "/proc", NULL, MS_BIND | MS_REC, NULL) != 0)
		return failed(made, "bind", "/proc");
	if (mount("tmpfs", REPORT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700") != 0)
		return failed(made, "mount", "the report");
	made->layers = open(LAYERS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	made->report = open(REPORT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return (made->layers >= 0 && made->report >= 0) || failed(made, "open", "folders");
}

/* What the cover itself has copied by now does not count. */
static bool limit_writes(void) {
	char size[64];
	struct statvfs now;
	if (statvfs(LAYERS, &now) != 0)
		return failed(made, "look at", "the layers");
	long long taken = (long long)((now.f_blocks - now.f_bfree) * now.f_frsize);
	snprintf(size, sizeof size, "size=%lld", taken + asked->writes);
	return mount(NULL, "/", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, size) == 0 || failed(made, "limit", "writes");
}

/*
 * The report is mounted last, so that no folder of the machine hides it. Then the old root is detached with all that
 * is below it: from here on the machine's tree cannot be reached by a path. What was read-only becomes so now, since
 * the tree was built through it.
 */
static bool leave_old_root(void) {
	if (mkdir(NEW "/run", 0755) != 0 && errno != EEXIST)
		return failed(made, "make", "/run");
	if ((mkdir(NEW INSIDE, 0700) != 0 && errno != EEXIST) || mount(REPORT, NEW INSIDE, NULL, MS_BIND, NULL) != 0)
		return failed(made, "mount", INSIDE);
	if (chdir(NEW) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
		return failed(made, "leave", "the old root");
	for (int i = 0; i < read_only_count; i++) {
		struct attributes attributes = {.set = MOUNT_ATTR_RDONLY};
		const char *path = *read_only[i] != 0 ? read_only[i] : "/";
		if (syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &attributes, sizeof attributes) != 0)
			return failed(made, "protect", path);
	}
	if (chdir(asked->folder) != 0)
		return failed(made, "enter", asked->folder);
	return true;
}

/* The steps in their order; each says in `cover` what failed. */
bool overlays_enter(const struct request *request, struct cover *cover, enum kind kind) {
	asked = request;
	made = cover;
	in_user_namespace = kind == USER;
	strcpy(cover->inside, INSIDE);
	strcpy(cover->folder, request->folder);
	mode_t mask = umask(0);
	bool whole = read_mounts() && make_stage();
	if (whole && kind == ROOT)
		whole = overlay(OLD "/", NEW) && cover_mounts();
	else if (whole)
		whole = make_anew("/");
	whole = whole && make_kernel_folders() && write_preload() && allow_sockets() && limit_writes() && leave_old_root();
	umask(mask);
	return whole;
}
