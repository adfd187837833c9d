/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where mounts are refused, as in most containers: the program works in a copy of its working folder. Landlock lets it
 * write only there, in a folder for temporary files and in one for shared memory. What Landlock does not know of
 * (modes, owners, times and attributes of files, and sockets that have a path) the kernel asks this process for by
 * seccomp, before it does it.
 *
 * The question is answered by the path at that time. A program that changes the path while it is read gets through: a
 * rehearsal protects from what programs do, and is no prison for one that wants to break out.
 *
 * The folder has the report, and below "layers" what the others make of overlays: "0/files" stands for the root of the
 * machine, where only the way to the working folder exists, beside links to all that it passes.
 */
#include "cover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Of linux/landlock.h, which older headers lack in part. */
enum {
	CREATE_RULESET = 444,
	ADD_RULE = 445,
	RESTRICT_SELF = 446,
	PATH_BENEATH = 1,
	OLDEST_ABI = 3,
	ABI_WITH_SCOPES = 6
};
#define WRITE_FILE (1ULL << 1)
#define TRUNCATE (1ULL << 14)
#define ALL_WRITES 0x7ff2ULL /* WRITE_FILE, REMOVE_*, MAKE_*, REFER and TRUNCATE */
#define ABSTRACT_SOCKETS 1ULL
#define SIGNALS 2ULL

struct ruleset {
	uint64_t files, network, scopes;
};

struct __attribute__((packed)) rule {
	uint64_t allowed;
	int32_t folder;
};

/* What an argument means: a file, the address of a socket, messages with addresses, a process, or by the one before it
 * also a group of processes or all of a user. */
enum target { PATH, LINK, DESCRIPTOR, AT, ADDRESS, MESSAGES, PROCESS, PROCESSES };

static const struct asked_call {
	int number;
	enum target target;
	int argument; /* AT: which has the flags, or -1; from ADDRESS on: which it is */
} CALLS[] = {
#ifdef SYS_chmod
    {SYS_chmod, PATH, -1},
    {SYS_chown, PATH, -1},
    {SYS_lchown, LINK, -1},
    {SYS_utime, PATH, -1},
    {SYS_utimes, PATH, -1},
    {SYS_futimesat, AT, -1},
#endif
    {SYS_fchmod, DESCRIPTOR, -1},
    {SYS_fchmodat, AT, -1},
    {452 /* fchmodat2 */, AT, 3},
    {SYS_fchown, DESCRIPTOR, -1},
    {SYS_fchownat, AT, 4},
    {SYS_utimensat, AT, 3},
    {SYS_setxattr, PATH, -1},
    {SYS_lsetxattr, LINK, -1},
    {SYS_fsetxattr, DESCRIPTOR, -1},
    {SYS_removexattr, PATH, -1},
    {SYS_lremovexattr, LINK, -1},
    {SYS_fremovexattr, DESCRIPTOR, -1},
    {463 /* setxattrat */, AT, 2},
    {466 /* removexattrat */, AT, 2},
    {SYS_connect, ADDRESS, 1},
    {SYS_sendto, ADDRESS, 4},
    {SYS_sendmsg, MESSAGES, -1},
    {SYS_sendmmsg, MESSAGES, -1},
    {SYS_setpriority, PROCESSES, 1},
    {SYS_ioprio_set, PROCESSES, 1},
    {SYS_prlimit64, PROCESS, 0},
    {SYS_sched_setaffinity, PROCESS, 0},
    {SYS_sched_setparam, PROCESS, 0},
    {SYS_sched_setscheduler, PROCESS, 0},
    {SYS_sched_setattr, PROCESS, 0},
    {SYS_process_vm_writev, PROCESS, 0},
};

/* What belongs to the machine and to no file: memory, messages, semaphores and keys that outlive their processes.
 * io_uring makes calls that seccomp does not see. */
static const int REFUSED[] = {425 /* io_uring_setup */, SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd,
    SYS_msgrcv, SYS_msgctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_mq_open, SYS_mq_unlink, SYS_add_key,
    SYS_keyctl, SYS_request_key};

/* The last call, file_getattr, of those that are known: what a later kernel adds may change a file by its path, as
 * file_setattr does. The numbers of the x32 interface, which this table does not have, are higher, too. */
#define LAST_KNOWN 468

/* Requests of ioctl that give a file system something, by their letters: FS_IOC_SETFLAGS and FS_IOC_ENABLE_VERITY are
 * of 'f', FS_IOC_SETVERSION of 'v', FS_IOC_FSSETXATTR of 'X', FAT_IOCTL_SET_ATTRIBUTES of 'r', btrfs has 0x94. They
 * change a file through a descriptor that can only read. */
static const uint8_t LETTERS[] = {'f', 'v', 'X', 'r', 0x94};
#define GIVES (1U << 30) /* _IOC_WRITE */

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static char root[96]; /* the folder of all that the program may write to */
static const char *const *allowed_sockets;
static long long limit;     /* bytes that the program may write; 0 if there is no mirror */
static long long next_look; /* while the disk has as many free bytes, the program has not reached its limit */

/* Make the way to the working folder, with links to what lies beside it, and return where it is. */
static bool make_way(struct cover *cover, const char *folder) {
	char at[PATH_MAX], beside[PATH_MAX], link[PATH_MAX];
	snprintf(at, sizeof at, "%s/layers/0/files", root);
	for (const char *rest = folder; rest != NULL && *rest != 0;) {
		const char *end = strchr(rest + 1, '/');
		size_t length = end != NULL ? (size_t)(end - rest) : strlen(rest);
		snprintf(beside, sizeof beside, "%.*s/", (int)(rest - folder), folder);
		if (mkdir(at, 0755) != 0)
			return failed(cover, "make", at);
		CLOSED_DIR *siblings = opendir(beside);
		for (const char *name; (name = next_entry(siblings)) != NULL;) {
			if (strlen(name) == length - 1 && strncmp(name, rest + 1, length - 1) == 0)
				continue;
			char target[PATH_MAX];
			if (snprintf(link, sizeof link, "%s/%s", at, name) < (int)sizeof link &&
			    snprintf(target, sizeof target, "%s%s", beside, name) < (int)sizeof target)
				(void)!symlink(target, link);
		}
		snprintf(at + strlen(at), sizeof at - strlen(at), "%.*s", (int)length, rest);
		rest = end;
	}
	strcpy(cover->folder, at);
	return copy_folder(folder, at, root) || failed(cover, "copy", folder);
}

static bool make_layer(struct cover *cover, int number, const char *of, mode_t mode) {
	char path[PATH_MAX];
	bool done = true;
	snprintf(path, sizeof path, "%s/layers/%d", root, number);
	done = mkdir(path, 0700) == 0;
	snprintf(path, sizeof path, "%s/layers/%d/of", root, number);
	done = done && symlink(of, path) == 0;
	snprintf(path, sizeof path, "%s/layers/%d/files", root, number);
	return (done && (mode == 0 || (mkdir(path, mode) == 0 && chmod(path, mode) == 0))) || failed(cover, "make", path);
}

static bool try_to_confine(const struct request *request, struct cover *cover) {
	int status = 0, listener = -1;
	pid_t child = fork();
	if (child == 0 && mirror_confine(request, cover, &listener))
		_exit(0);
	if (child == 0)
		_exit(errno > 0 && errno < 256 ? errno : EPERM);
	if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		return failed(cover, "try", "Landlock and seccomp");
	errno = WEXITSTATUS(status);
	return errno == 0 || failed(cover, "use", "Landlock and seccomp");
}

static long long free_bytes(void) {
	struct statvfs facts;
	return statvfs(root, &facts) == 0 ? (long long)facts.f_bavail * (long long)facts.f_frsize : LLONG_MAX;
}

/*
 * A folder of a disk has no limit of its own. So this is asked often, and asks the disk, which is quick; the program's
 * files are counted when the disk has lost as much as the program may write, be it to others. What has no name any more
 * is not counted.
 */
long long mirror_full(void) {
	long long left = limit > 0 ? free_bytes() : LLONG_MAX;
	if (left >= next_look)
		return 0;
	long long may = limit - bytes_beyond_copies(root);
	next_look = left - may;
	return may < 0 ? limit : 0;
}

const char *mirror_new_folder(void) {
	const char *temporary = getenv("TMPDIR"); /* short, because the path of a socket is */
	bool usable =
	    temporary != NULL && strlen(temporary) < 60 && *temporary == '/' && access(temporary, W_OK | X_OK) == 0;
	snprintf(root, sizeof root, "%s/gpuconf-plan-XXXXXX", usable ? temporary : "/tmp");
	return mkdtemp(root);
}

bool mirror_make(const struct request *request, struct cover *cover) {
	char path[PATH_MAX];
	strcpy(cover->inside, root);
	strcpy(cover->folder, request->folder);
	cover->report = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (request->only == UNPROTECTED)
		return cover->report >= 0 || failed(cover, "open", root);
	allowed_sockets = request->sockets;
	bool done = true;
	if (!copy_is_small(request->folder)) {
		errno = EFBIG;
		done = failed(cover, "copy (at most 50,000 files and 2 GiB)", request->folder);
	}
	snprintf(path, sizeof path, "%s/layers", root);
	done = done && (mkdir(path, 0700) == 0 || failed(cover, "make", path));
	done = done && make_layer(cover, 0, "/", 0) && make_layer(cover, 1, "/tmp", 01777) &&
	       make_layer(cover, 2, "/dev/shm", 01777);
	done = done && make_way(cover, request->folder) && try_to_confine(request, cover);
	cover->layers = done ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	long long left = free_bytes();
	limit = request->writes < left / 2 ? request->writes : left / 2;
	next_look = left - limit;
	return done;
}

bool landlock_scope(struct cover *cover, bool signals, bool abstract_sockets) {
	struct ruleset wanted = {0, 0, (signals ? SIGNALS : 0) | (abstract_sockets ? ABSTRACT_SOCKETS : 0)};
	if (wanted.scopes == 0)
		return true;
	if (syscall(CREATE_RULESET, NULL, 0, 1) < ABI_WITH_SCOPES) {
		snprintf(cover->what, sizeof cover->what, "%s reach other processes of the user",
		    signals ? "signals" : "abstract sockets");
		return true;
	}
	CLOSED_INT ruleset = (int)syscall(CREATE_RULESET, &wanted, sizeof wanted, 0);
	return (ruleset >= 0 && syscall(RESTRICT_SELF, ruleset, 0) == 0) ||
	       failed(cover, "keep inside", "signals and abstract sockets");
}

static bool let_write(int ruleset, const char *path, uint64_t allowed) {
	CLOSED_INT folder = open(path, O_PATH | O_CLOEXEC);
	struct rule rule = {allowed, folder};
	return folder < 0 || syscall(ADD_RULE, ruleset, PATH_BENEATH, &rule, 0) == 0;
}

static bool confine_files(void) {
	static const char *const DEVICES[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
	    "/dev/tty", "/dev/pts", "/dev/ptmx", NULL};
	long abi = syscall(CREATE_RULESET, NULL, 0, 1);
	struct ruleset wanted = {ALL_WRITES, 0, abi >= ABI_WITH_SCOPES ? ABSTRACT_SOCKETS | SIGNALS : 0};
	if (abi >= 0 && abi < OLDEST_ABI)
		errno = ENOSYS; /* it lets files be truncated */
	if (abi < OLDEST_ABI)
		return false;
	CLOSED_INT ruleset = (int)syscall(CREATE_RULESET, &wanted, abi >= ABI_WITH_SCOPES ? 24 : 8, 0);
	if (ruleset < 0 || !let_write(ruleset, root, ALL_WRITES))
		return false;
	for (const char *const *device = DEVICES; *device != NULL; device++)
		if (!let_write(ruleset, *device, WRITE_FILE | (strcmp(*device, "/dev/pts") == 0 ? 0 : TRUNCATE)))
			return false;
	return syscall(RESTRICT_SELF, ruleset, 0) == 0;
}

#define LOAD(field) (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skipped) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skipped)
#define RETURN(action) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, action)

/* Ask this process's parent about the calls of the table, and refuse those of the other one. A call that names no
 * address, or its own process by 0, is the ordinary one, and is not asked about. */
static int ask_for_calls(void) {
	struct sock_filter program[24 + 7 * COUNT(CALLS) + 2 * COUNT(REFUSED) + 2 * COUNT(LETTERS)];
	int size = 0;
#ifdef __x86_64__
	uint32_t machine = AUDIT_ARCH_X86_64;
#else
	uint32_t machine = AUDIT_ARCH_AARCH64;
#endif
	program[size++] = LOAD(arch);
	program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, machine, 1, 0);
	program[size++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	program[size++] = LOAD(nr);
	program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN, 0, 1);
	program[size++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	for (int i = 0; i < COUNT(REFUSED); i++) {
		program[size++] = UNLESS(REFUSED[i], 1);
		program[size++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	}
	program[size++] = UNLESS(SYS_sendmsg, 4);
	program[size++] = LOAD(args[2]);
	program[size++] = UNLESS(FLAGS_OF_TELL, 1); /* of the message that names the filter */
	program[size++] = RETURN(SECCOMP_RET_ALLOW);
	program[size++] = RETURN(SECCOMP_RET_USER_NOTIF);
	for (int i = 0; i < COUNT(CALLS); i++) {
		bool has_zero = CALLS[i].target == ADDRESS || CALLS[i].target == PROCESS;
		program[size++] = UNLESS(CALLS[i].number, has_zero ? 6 : 1);
		if (has_zero) { /* both halves of a pointer; a process's number has one, and the other may be anything */
			program[size++] = LOAD(args[CALLS[i].argument]);
			program[size++] = UNLESS(0, 3);
			program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			    CALLS[i].target == PROCESS ? offsetof(struct seccomp_data, args[CALLS[i].argument])
				                           : offsetof(struct seccomp_data, args[CALLS[i].argument]) + 4);
			program[size++] = UNLESS(0, 1);
			program[size++] = RETURN(SECCOMP_RET_ALLOW);
		}
		program[size++] = RETURN(SECCOMP_RET_USER_NOTIF);
	}
	program[size++] = UNLESS(SYS_ioctl, 2 + 2 * COUNT(LETTERS));
	program[size++] = LOAD(args[1]);
	program[size++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, GIVES | 0xff00);
	for (int i = 0; i < COUNT(LETTERS); i++) {
		program[size++] = UNLESS(GIVES | (uint32_t)LETTERS[i] << 8, 1);
		program[size++] = RETURN(SECCOMP_RET_USER_NOTIF);
	}
	program[size++] = RETURN(SECCOMP_RET_ALLOW);
	struct sock_fprog filter = {(unsigned short)size, program};
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

bool mirror_confine(const struct request *request, const struct cover *cover, int *listener) {
	char temporary[sizeof root + 32], mirror[sizeof root + PATH_MAX + 1], preload[3 * PATH_MAX];
	const char *before = getenv("LD_PRELOAD");
	snprintf(temporary, sizeof temporary, "%s/layers/1/files", root);
	snprintf(mirror, sizeof mirror, "%s:%s", root, request->folder);
	snprintf(preload, sizeof preload, "%s %s %s", request->mapped != NULL ? request->mapped : "",
	    request->preload != NULL ? request->preload : "", before != NULL ? before : "");
	if (setenv("GPUCONF_MIRROR", mirror, 1) != 0 || setenv("LD_PRELOAD", preload, 1) != 0 ||
	    chdir(cover->folder) != 0 || setenv("TMPDIR", temporary, 1) != 0 || setenv("PWD", cover->folder, 1) != 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !confine_files())
		return false;
	*listener = ask_for_calls();
	return *listener >= 0;
}

static bool is_inside(const char *path) {
	size_t length = strlen(root);
	if (path[0] != '/' || strncmp(path, "/memfd:", 7) == 0)
		return true; /* no file of the machine: a pipe, memory */
	if (strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0))
		return true;
	for (const char *const *socket = allowed_sockets; socket != NULL && *socket != NULL; socket++)
		if (strcmp(*socket, path) == 0)
			return true;
	return false;
}

/*
 * Read memory of another process, up to the first NUL of a text. Through /proc, because containers forbid
 * process_vm_readv. Returns an error of the system, EFAULT if there is no memory at the address.
 */
static int read_of(pid_t process, uint64_t address, void *to, size_t size, bool text) {
	char path[64], *next = to;
	snprintf(path, sizeof path, "/proc/%d/mem", process);
	CLOSED_INT memory = open(path, O_RDONLY | O_CLOEXEC);
	int error = memory < 0 ? errno : 0;
	while (error == 0 && size > 0) { /* page by page: a text may end before memory that can't be read */
		size_t part = 4096 - address % 4096;
		part = part < size ? part : size;
		if (pread(memory, next, part, (off_t)address) != (ssize_t)part)
			error = EFAULT;
		else if (text && memchr(next, 0, part) != NULL)
			break;
		next += part, address += part, size -= part;
	}
	return error;
}

/* Find which file a call is about. Returns false with an error of the system; if there is none, the kernel will say so.
 */
static bool find(pid_t process, int folder, const char *name, bool follow, char *path) {
	char start[PATH_MAX + 64], link[64];
	if (name != NULL && *name == '/')
		snprintf(start, sizeof start, "/proc/%d/root%s", process, name);
	else if (folder == AT_FDCWD)
		snprintf(start, sizeof start, "/proc/%d/cwd/%s", process, name != NULL ? name : "");
	else
		snprintf(start, sizeof start, "/proc/%d/fd/%d%s%s", process, folder, name != NULL && *name != 0 ? "/" : "",
		    name != NULL ? name : "");
	if (name == NULL || *name == 0) { /* the descriptor's own file, which may be a pipe */
		ssize_t length = readlink(start, path, PATH_MAX - 1);
		path[length < 0 ? 0 : length] = 0;
		return length >= 0;
	}
	CLOSED_INT file = open(start, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
	if (file < 0)
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", file);
	ssize_t length = readlink(link, path, PATH_MAX - 1);
	path[length < 0 ? 0 : length] = 0;
	return length >= 0;
}

/* The error with which a call is refused that sends to an address, or 0. */
static int refusal_of_address(pid_t process, uint64_t at, uint64_t length, const struct cover *cover) {
	char name[PATH_MAX], path[PATH_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	size_t size = length < sizeof address ? length : sizeof address;
	int error = at != 0 ? read_of(process, at, &address, size, false) : 0;
	if (error != 0)
		return error;
	if (address.sun_family != AF_UNIX || address.sun_path[0] == 0)
		return 0;
	snprintf(name, sizeof name, "%.*s", (int)sizeof address.sun_path, address.sun_path);
	if (find(process, AT_FDCWD, name, true, path) ? is_inside(path) : errno == ENOENT || errno == ENOTDIR)
		return 0;
	CLOSED_INT tried = openat(cover->report, "tried", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (tried >= 0)
		dprintf(tried, "%s\n", path);
	return ECONNREFUSED;
}

/* The same for messages, each with an address or none: one of sendmsg, or those of sendmmsg. */
static int refusal_of_messages(pid_t process, const struct seccomp_notif *asked, const struct cover *cover) {
	bool many = asked->data.nr == SYS_sendmmsg;
	uint64_t count = many ? asked->data.args[2] : 1;
	size_t size = many ? sizeof(struct mmsghdr) : sizeof(struct msghdr);
	for (uint64_t i = 0; i < count && i < 1024 /* the kernel's most */; i++) {
		struct msghdr message;
		int error = read_of(process, asked->data.args[1] + i * size, &message, sizeof message, false);
		if (error == 0)
			error = refusal_of_address(process, (uint64_t)message.msg_name, message.msg_namelen, cover);
		if (error != 0)
			return error;
	}
	return 0;
}

/* Whether a process descends from this one, which adopts those that its descendants leave. */
static bool is_ours(pid_t process) {
	for (int depth = 0; process > 1 && depth < 1000; depth++) {
		char path[64], text[512];
		if (process == getpid())
			return depth > 0;
		snprintf(path, sizeof path, "/proc/%d/stat", process);
		read_text(path, text, sizeof text);
		const char *after = strrchr(text, ')'); /* of the name, which may contain anything */
		if (after == NULL || sscanf(after, ") %*c %d", &process) != 1)
			return false;
	}
	return false;
}

/* The same for what processes a call changes. */
static int refusal_of_process(const struct seccomp_notif *asked, const struct asked_call *call) {
	int kind = 0; /* of what the number is: a process, its group, or a user, all of whose processes are meant */
	pid_t number = (pid_t)asked->data.args[call->argument];
	if (call->target == PROCESSES)
		kind = (int)asked->data.args[0] - (asked->data.nr == SYS_ioprio_set);
	bool allowed = number == 0 ? kind < 2 /* its own */ : kind == 0 && is_ours(number);
	return allowed ? 0 : EPERM;
}

/* The error with which a call is refused, or 0. */
static int refusal(const struct seccomp_notif *asked, const struct cover *cover) {
	char name[PATH_MAX] = "", path[PATH_MAX];
	pid_t process = (pid_t)asked->pid;
	const uint64_t *arguments = (const uint64_t *)asked->data.args;
	const struct asked_call *call = CALLS, request_of_ioctl = {SYS_ioctl, DESCRIPTOR, -1};
	while (call != CALLS + COUNT(CALLS) && call->number != asked->data.nr)
		call++;
	if (call == CALLS + COUNT(CALLS))
		call = &request_of_ioctl;
	if (call->target == ADDRESS)
		return refusal_of_address(process, arguments[call->argument], arguments[call->argument + 1], cover);
	if (call->target == MESSAGES)
		return refusal_of_messages(process, asked, cover);
	if (call->target == PROCESS || call->target == PROCESSES)
		return refusal_of_process(asked, call);
	int folder = AT_FDCWD;
	bool follow = call->target != LINK;
	uint64_t text = arguments[0];
	if (call->target == DESCRIPTOR || call->target == AT)
		folder = (int)arguments[0], text = call->target == AT ? arguments[1] : 0;
	if (call->target == AT && call->argument >= 0)
		follow = (arguments[call->argument] & AT_SYMLINK_NOFOLLOW) == 0;
	int error = text != 0 ? read_of(process, text, name, sizeof name - 1, true) : 0;
	if (error != 0)
		return error;
	if (!find(process, folder, text != 0 ? name : NULL, follow, path)) /* what is not known is not allowed */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG ? 0 : EACCES;
	return is_inside(path) ? 0 : EACCES;
}

void mirror_answer(int listener, const struct cover *cover) {
	struct seccomp_notif asked = {0};
	struct seccomp_notif_resp answer = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
		return; /* the process has ended */
	int error = refusal(&asked, cover);
	answer.id = asked.id;
	answer.error = -error;
	answer.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
