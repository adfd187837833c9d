/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a cover, starts the program in it, and ends with it. cover.h says what it promises. */
#include "cover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define NOT_STARTED 125 /* the exit status if no cover works */
#define GRACE_MS 200    /* for processes that end by themselves when the program has */

static sigset_t waited_for, of_program;   /* signals: blocked and waited for here, and as the program has them */
static struct sigaction child_of_program; /* SIGCHLD as the program has it: who ignores it cannot wait for a child */

const char *const kind_names[KINDS] = {"root", "user", "mirror", "unprotected"};

/* Keeps what failed with its errno, for the answer to the parent, and is false, so that a caller can return it. */
bool failed(struct cover *cover, const char *step, const char *path) {
	snprintf(cover->what, sizeof cover->what, "%s %s: %s", step, path, strerror(errno));
	return false;
}

const char *next_entry(DIR *folder) {
	struct dirent *entry = NULL;
	while (folder != NULL && (entry = readdir(folder)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			break;
	return entry != NULL ? entry->d_name : NULL;
}

ssize_t read_text(const char *path, char *text, size_t room) {
	CLOSED_INT file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file >= 0 ? read(file, text, room - 1) : -1;
	text[length < 0 ? 0 : length] = 0;
	return length;
}

/* A message to the parent, with up to two descriptors. It may have gone: that is noticed elsewhere, and is no
 * SIGPIPE. */
static void tell(int control, const char *text, const int *descriptors, int count) {
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} space = {0};
	struct iovec piece = {(char *)text, strlen(text)};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	if (count > 0) {
		message.msg_control = &space;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		space.header.cmsg_level = SOL_SOCKET;
		space.header.cmsg_type = SCM_RIGHTS;
		space.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(&space.header), descriptors, (size_t)count * sizeof(int));
	}
	while (sendmsg(control, &message, FLAGS_OF_TELL) < 0 && errno == EINTR)
		;
}

/*
 * Root of a machine keeps no power over it, nor does root of a namespace over what covers the machine. This process
 * loses them, too: a root that may trace processes would take them from it.
 */
static bool drop_powers(struct cover *cover) {
	static const int POWERS[] = {CAP_SYS_ADMIN, CAP_MKNOD, CAP_SYS_BOOT, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_TIME,
	    CAP_NET_ADMIN, CAP_DAC_READ_SEARCH, CAP_SYS_PACCT, CAP_SYSLOG, CAP_MAC_ADMIN, CAP_MAC_OVERRIDE,
	    CAP_AUDIT_CONTROL, CAP_WAKE_ALARM, CAP_BLOCK_SUSPEND, CAP_LINUX_IMMUTABLE, 38 /* PERFMON */, 39 /* BPF */,
	    40 /* CHECKPOINT_RESTORE */};
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2];
	if (syscall(SYS_capget, &header, sets) != 0)
		return failed(cover, "read", "capabilities");
	for (size_t i = 0; i < sizeof POWERS / sizeof *POWERS; i++) {
		uint32_t others = ~(1U << (POWERS[i] & 31));
		struct __user_cap_data_struct *set = &sets[POWERS[i] >> 5];
		set->effective &= others, set->permitted &= others, set->inheritable &= others;
		if (prctl(PR_CAPBSET_READ, POWERS[i], 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, POWERS[i], 0, 0, 0) != 0)
			return failed(cover, "drop", "a capability");
	}
	return syscall(SYS_capset, &header, sets) == 0 || failed(cover, "drop", "capabilities");
}

/* A network namespace begins with a loopback interface that is down. */
static bool start_loopback(struct cover *cover) {
	struct ifreq request = {.ifr_name = "lo"};
	CLOSED_INT file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done = file >= 0 && ioctl(file, SIOCGIFFLAGS, &request) == 0;
	request.ifr_flags |= IFF_UP;
	done = done && ioctl(file, SIOCSIFFLAGS, &request) == 0;
	return done || failed(cover, "start", "the loopback interface");
}

/* The kernel takes a whole file of /proc in one write or refuses it. */
static bool write_text(struct cover *cover, const char *path, const char *text) {
	CLOSED_INT file = open(path, O_WRONLY | O_CLOEXEC);
	bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	return done || failed(cover, "write", path);
}

/* The user and the group keep their numbers. "deny" must come first: a kernel allows an unprivileged group map only
 * without setgroups (man 7 user_namespaces). */
static bool map_user(struct cover *cover, uid_t user, gid_t group) {
	char users[64], groups[64];
	snprintf(users, sizeof users, "%u %u 1\n", user, user);
	snprintf(groups, sizeof groups, "%u %u 1\n", group, group);
	return write_text(cover, "/proc/self/setgroups", "deny") && write_text(cover, "/proc/self/uid_map", users) &&
	       write_text(cover, "/proc/self/gid_map", groups);
}

/* The command line of a process has the module that multiprocessing's helper runs; it ends by itself. */
static bool is_helper(pid_t process) {
	char path[64], line[4096];
	snprintf(path, sizeof path, "/proc/%d/cmdline", process);
	ssize_t length = read_text(path, line, sizeof line);
	return length > 0 && memmem(line, (size_t)length, "multiprocessing.resource_tracker", 32) != NULL;
}

/*
 * End every process that the program has left. A process whose parent has ended becomes this one's child, and a child
 * that has not been waited for keeps its number, so that no signal reaches a stranger. Returns how many there were,
 * without helpers.
 */
static int end_all(void) {
	pid_t helpers[16];
	int ended = 0, helpers_count = 0, i;
	for (;;) {
		char line[65536], path[64];
		snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)syscall(SYS_gettid));
		ssize_t length = read_text(path, line, sizeof line);
		for (char *at = line, *end; *at != 0; at = end + strspn(end, " ")) {
			pid_t child = (pid_t)strtol(at, &end, 10);
			if (end == at)
				break;
			if (is_helper(child) && helpers_count < 16)
				helpers[helpers_count++] = child;
			kill(child, SIGKILL);
		}
		if (length < 0 && getpid() == 1)
			kill(-1, SIGKILL);             /* a kernel without lists of children */
		pid_t gone = waitpid(-1, NULL, 0); /* one at a time: its children have become this process's */
		for (i = 0; i < helpers_count && helpers[i] != gone; i++)
			;
		ended += gone > 0 && i == helpers_count;
		if (gone < 0 && errno == ECHILD)
			return ended;
	}
}

/* Helpers end when the program's pipe to them is closed. They get a moment, so that they can remove what the program
 * has left. */
static void wait_for_helpers(void) {
	for (int waited = 0; waited < GRACE_MS; waited += 5) {
		pid_t child;
		do
			child = waitpid(-1, NULL, WNOHANG);
		while (child > 0);
		if (child < 0)
			return;
		usleep(5000);
	}
}

/*
 * Wait for the program, for the parent or for a signal, and answer the calls that mirror.c lets this process decide.
 * A program in a mirror that has written more than it may is ended.
 * Returns the program's status, or -1 if it was ended.
 */
static int supervise(int control, pid_t program, int signals, int listener, const struct cover *cover) {
	struct pollfd wanted[3] = {{control, POLLIN | POLLRDHUP, 0}, {signals, POLLIN, 0}, {listener, POLLIN, 0}};
	for (;;) {
		int status;
		pid_t ended;
		while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
			if (ended == program)
				return status;
		if (poll(wanted, 3, listener >= 0 ? 50 : 1000) < 0 && errno != EINTR)
			return -1;
		long long most = mirror_full();
		if (most > 0) {
			char text[64];
			snprintf(text, sizeof text, "full %lld", most);
			tell(control, text, NULL, 0);
			return -1;
		}
		if (wanted[2].revents & POLLIN)
			mirror_answer(listener, cover);
		else if (wanted[2].revents != 0)
			wanted[2].fd = -1;
		if (wanted[0].revents != 0)
			return -1; /* whatever the parent says after "go", also that it has gone, is the end */
		if (wanted[1].revents != 0) {
			struct signalfd_siginfo one;
			if (read(signals, &one, sizeof one) == sizeof one && one.ssi_signo != SIGCHLD)
				return -1;
		}
	}
}

/*
 * The program has its own signal mask again. A pipe that an exec closes says whether there was one: what comes out of
 * it is the errno. In a mirror the program passes the listener of its seccomp filter, so that this process decides
 * its calls from the first one on.
 */
static pid_t start_program(const struct request *request, const struct cover *cover, enum kind kind, int *listener) {
	int problem[2], pair[2] = {-1, -1}, error = 0;
	if (pipe2(problem, O_CLOEXEC) != 0 ||
	    (kind == MIRROR && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0))
		return -1;
	pid_t program = fork();
	if (program == 0) {
		int own = -1;
		setsid(); /* or a signal to its own process group would reach this process */
		sigaction(SIGCHLD, &child_of_program, NULL);
		sigprocmask(SIG_SETMASK, &of_program, NULL);
		if (kind == MIRROR && !mirror_confine(request, cover, &own))
			_exit(NOT_STARTED);
		if (kind == MIRROR)
			tell(pair[1], "listener", &own, own >= 0);
		if (own >= 0)
			close(own);
		execvp(request->words[0], request->words);
		error = errno;
		if (write(problem[1], &error, sizeof error) != sizeof error)
			_exit(NOT_STARTED);
		_exit(127);
	}
	close(problem[1]);
	if (kind == MIRROR) {
		char text[16], space[CMSG_SPACE(sizeof(int))];
		struct iovec piece = {text, sizeof text};
		struct msghdr message = {
		    .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
		close(pair[1]);
		if (program > 0 && recvmsg(pair[0], &message, MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&message) != NULL)
			memcpy(listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *listener);
		close(pair[0]);
	}
	struct pollfd waits[2] = {{problem[0], POLLIN, 0}, {*listener, POLLIN, 0}};
	while (poll(waits, 2, -1) >= 0 &&
	       waits[0].revents == 0) /* what it calls before it is another program is answered, too */
		if (waits[1].revents & POLLIN)
			mirror_answer(*listener, cover);
	if (program > 0 && read(problem[0], &error, sizeof error) == sizeof error) {
		char text[64];
		snprintf(text, sizeof text, "exec %d", error);
		tell(request->control, text, NULL, 0);
	}
	close(problem[0]);
	return program;
}

/* End before the program runs, if the parent was killed, which else removes the folder of a mirror, or the caller went.
 * The caller writes to the folder, too, until it has closed the socket. */
static void give_up(const struct request *request, const struct cover *cover) {
	char rest[64];
	shutdown(request->control, SHUT_WR);
	while (recv(request->control, rest, sizeof rest, 0) > 0)
		;
	if (cover->mirror != NULL)
		remove_folder(cover->mirror);
	_exit(NOT_STARTED);
}

/* Run the program in the cover that this process is in, to its end. Never returns. */
static void run_inside(const struct request *request, struct cover *cover, enum kind kind, int ready) {
	char text[sizeof cover->what + PATH_MAX + 64];
	int descriptors[2] = {cover->report, cover->layers}, listener = -1;
	int signals = signalfd(-1, &waited_for, SFD_CLOEXEC);
	snprintf(text, sizeof text, "ready %s\n%s\n%s", kind_names[kind], cover->inside, cover->what);
	tell(request->control, text, descriptors, cover->layers >= 0 ? 2 : 1);
	if (kind <= USER) { /* in a namespace the program could look at this process's descriptors */
		close(cover->report);
		close(cover->layers);
	}
	if (send(ready, "y", 1, MSG_NOSIGNAL) != 1)
		give_up(request, cover);
	close(ready);
	static char answer[1 << 16]; /* "go", and variables of the program that depend on the cover */
	ssize_t length = recv(request->control, answer, sizeof answer - 1, 0);
	if (length <= 0)
		give_up(request, cover);
	for (char *variable = answer + strlen(answer) + 1; variable < answer + length; variable += strlen(variable) + 1)
		putenv(variable);
	if (kind <= USER && !isatty(STDIN_FILENO)) { /* the machine's own, whose mode and times could be changed */
		int null = open("/dev/null", O_RDWR);
		if (null < 0 || dup2(null, STDIN_FILENO) < 0)
			_exit(NOT_STARTED);
		close(null);
	}
	pid_t program = start_program(request, cover, kind, &listener);
	int status = program > 0 ? supervise(request->control, program, signals, listener, cover) : NOT_STARTED << 8;
	if (status >= 0)
		wait_for_helpers();
	int outlived = end_all();
	snprintf(text, sizeof text, "status %d %d", status, outlived);
	tell(request->control, text, NULL, 0);
	if (kind > USER) {
		while (recv(request->control, text, sizeof text, 0) > 0)
			; /* until the parent has read the report */
		remove_folder(cover->mirror);
	}
	if (status < 0)
		_exit(128 + SIGKILL);
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* Enter a cover in this process, which is new and has one thread, and run the program. Never returns. */
static void enter(const struct request *request, enum kind kind, bool first, const char *mirror, int ready) {
	struct cover cover = {.report = -1, .layers = -1, .first = first, .mirror = mirror};
	bool whole = prctl(PR_SET_PDEATHSIG, kind <= USER && first ? SIGKILL : SIGTERM) == 0;
	if (!first && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		whole = failed(&cover, "become", "a subreaper");
	if (kind == ROOT || kind == USER) {
		whole = whole && (request->network || start_loopback(&cover)) && overlays_enter(request, &cover, kind) &&
		        landlock_scope(&cover, !first, request->network) && drop_powers(&cover);
		syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	} else {
		whole = whole && mirror_make(request, &cover);
	}
	if (!whole) {
		if (send(ready, cover.what, strlen(cover.what), MSG_NOSIGNAL) < 0)
			give_up(request, &cover);
		_exit(NOT_STARTED);
	}
	run_inside(request, &cover, kind, ready);
}

/* Wait until a cover is made or is refused. A copy takes a while: if the parent goes or a signal comes, it ends. */
static void end_if_left(int control, int ready, pid_t child) {
	int signals = signalfd(-1, &waited_for, SFD_CLOEXEC);
	struct pollfd wanted[3] = {{ready, POLLIN, 0}, {control, POLLRDHUP, 0}, {signals, POLLIN, 0}};
	struct signalfd_siginfo one = {0};
	do {
		if (poll(wanted, 3, -1) < 0 && errno != EINTR)
			break;
		if (wanted[2].revents == 0 || read(signals, &one, sizeof one) != sizeof one)
			one.ssi_signo = SIGCHLD;
	} while (wanted[0].revents == 0 && wanted[1].revents == 0 && one.ssi_signo == SIGCHLD);
	if (wanted[0].revents == 0 || one.ssi_signo != SIGCHLD)
		kill(child, SIGKILL);
	close(signals);
}

/* Try a cover in a process of its own, and wait for it. Returns whether the program ran in it; then its exit status is
 * known. */
static bool try_cover(const struct request *request, enum kind kind, bool first, int *code) {
	int ready[2]; /* sockets: a write to a pipe would end the child of a parent that was killed, before it cleans up */
	char what[600];
	struct cover cover = {.what = ""};
	uid_t user = geteuid();
	gid_t group = getegid();
	unsigned long flags = SIGCHLD;
	if (kind == ROOT || kind == USER)
		flags |= CLONE_NEWNS | CLONE_NEWIPC | (first ? CLONE_NEWPID : 0) | (request->network ? 0 : CLONE_NEWNET);
	if (kind == USER)
		flags |= CLONE_NEWUSER;
	const char *folder = kind > USER ? mirror_new_folder() : NULL;
	if ((kind > USER && folder == NULL) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ready) != 0)
		return false;
	pid_t child = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
	if (child == 0) {
		close(ready[0]);
		if (kind == USER && !map_user(&cover, user, group)) {
			send(ready[1], cover.what, strlen(cover.what), MSG_NOSIGNAL);
			_exit(NOT_STARTED);
		}
		enter(request, kind, first, folder, ready[1]);
	}
	close(ready[1]);
	ssize_t length = 0;
	if (child < 0) {
		length = snprintf(what, sizeof what, "start a namespace: %s", strerror(errno));
	} else {
		end_if_left(request->control, ready[0], child);
		while ((length = read(ready[0], what, sizeof what - 1)) < 0 && errno == EINTR)
			;
	}
	what[length < 0 ? 0 : length] = 0;
	close(ready[0]);
	int status = NOT_STARTED << 8;
	bool ran = strcmp(what, "y") == 0;
	if (!ran) {
		char text[700];
		snprintf(text, sizeof text, "refused %s\n%s", kind_names[kind], *what != 0 ? what : "it ended");
		tell(request->control, text, NULL, 0);
	}
	/* The first process of a namespace gets the signals of this one, and it ends the others. */
	for (int number = SIGCHLD; child > 0 && waitpid(child, &status, WNOHANG) == 0; sigwait(&waited_for, &number))
		if (number != SIGCHLD)
			kill(child, SIGTERM);
	end_all(); /* of a subreaper that was killed */
	if (folder != NULL)
		remove_folder(folder);
	*code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return ran;
}

/* The initial one maps all numbers onto themselves. Root elsewhere has no power to mount. */
static bool is_initial_user_namespace(void) {
	unsigned long inner, outer, count;
	FILE *file = fopen("/proc/self/uid_map", "re");
	bool initial = file != NULL && fscanf(file, "%lu %lu %lu", &inner, &outer, &count) == 3 && inner == 0 &&
	               outer == 0 && count == 4294967295;
	if (file != NULL)
		fclose(file);
	return initial;
}

/* It is not meant for people: the parent passes a socket. */
static void usage(void) {
	fputs("gpuconf-cover is started by gpuconf: gpuconf-cover --control FD [--only KIND] [--network] [--writes BYTES] "
	      "[--preload FILE] [--mapped FILE] [--socket PATH ...] -- PROGRAM [ARGUMENT ...]\n",
	    stderr);
	exit(2);
}

int main(int count, char **words) {
	struct request request = {.control = -1, .only = -1, .writes = 8LL << 30};
	int sockets = 0, i = 1;
	for (; i < count && strcmp(words[i], "--") != 0; i++) {
		if (strcmp(words[i], "--network") == 0) {
			request.network = true;
			continue;
		}
		const char *value = i + 1 < count ? words[i + 1] : NULL;
		if (value == NULL)
			usage();
		if (strcmp(words[i], "--control") == 0)
			request.control = atoi(value);
		else if (strcmp(words[i], "--writes") == 0)
			request.writes = atoll(value);
		else if (strcmp(words[i], "--preload") == 0)
			request.preload = value;
		else if (strcmp(words[i], "--mapped") == 0)
			request.mapped = value;
		else if (strcmp(words[i], "--socket") == 0 && sockets < SOCKETS_MOST)
			request.sockets[sockets++] = value;
		else if (strcmp(words[i], "--only") == 0)
			for (int kind = 0; kind < KINDS; kind++)
				request.only = strcmp(value, kind_names[kind]) == 0 ? kind : request.only;
		else
			usage();
		i++;
	}
	request.words = words + i + 1;
	if (request.control < 0 || i + 1 >= count || request.writes <= 0)
		usage();
	if (getcwd(request.folder, sizeof request.folder) == NULL || request.folder[0] != '/') {
		tell(request.control, "refused working folder\nit has been removed", NULL, 0);
		return NOT_STARTED;
	}
	fcntl(request.control, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &child_of_program);
	sigfillset(&waited_for);
	sigdelset(&waited_for, SIGSEGV);
	sigdelset(&waited_for, SIGBUS);
	sigprocmask(SIG_SETMASK, &waited_for, &of_program);
	int code = NOT_STARTED;
	for (enum kind kind = ROOT; kind < (request.only < 0 ? UNPROTECTED : KINDS); kind++) {
		if (request.only >= 0 && request.only != (int)kind)
			continue;
		if (kind == ROOT && (geteuid() != 0 || !is_initial_user_namespace()))
			continue;
		if (try_cover(&request, kind, kind <= USER, &code))
			return code;
		if (kind == USER && try_cover(&request, kind, false, &code)) /* where /proc can't be mounted */
			return code;
	}
	tell(request.control, "none", NULL, 0);
	return NOT_STARTED;
}
