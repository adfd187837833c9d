/*
 * Runs a program, and writes the files that it and all that it starts open, one a line, with whichever function or
 * system call:
 *
 *     opened_files LIST program argument...
 *
 * It needs no rights: a seccomp filter makes open, openat, openat2 and creat stop for the tracer. The exit status is
 * the program's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_AT(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)

static void start(char **program) {
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    STOP_AT(__NR_openat),
#ifdef __NR_openat2
	    STOP_AT(__NR_openat2),
#endif
#ifdef __NR_open
	    STOP_AT(__NR_open),
	    STOP_AT(__NR_creat),
#endif
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof *code, code};

	if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0 || raise(SIGSTOP) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
		perror("opened_files");
		_exit(125);
	}
	execvp(program[0], program);
	perror(program[0]);
	_exit(127);
}

/* The name that a stopped thread is about to open. */
static void write_name(FILE *list, pid_t thread) {
	struct __ptrace_syscall_info info;
	char memory[64], name[4096] = "";

	if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0)
		return;
	int by_name = 0;
#ifdef __NR_open
	by_name = info.seccomp.nr == __NR_open || info.seccomp.nr == __NR_creat;
#endif
	snprintf(memory, sizeof memory, "/proc/%d/mem", (int)thread);
	int file = open(memory, O_RDONLY | O_CLOEXEC);
	if (file < 0 || pread(file, name, sizeof name - 1, (off_t)info.seccomp.args[by_name ? 0 : 1]) <= 0)
		snprintf(name, sizeof name, "?");
	if (file >= 0)
		close(file);
	fprintf(list, "%s\n", name);
}

int main(int count, char **words) {
	FILE *list = count > 2 ? fopen(words[1], "we") : NULL;
	if (list == NULL)
		return 125;
	pid_t first = fork();
	if (first == 0)
		start(words + 2);
	int status, result = 125;
	waitpid(first, &status, 0);
	if (ptrace(PTRACE_SETOPTIONS, first, 0,
	        PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	            PTRACE_O_EXITKILL) != 0)
		return perror("opened_files"), 125;
	ptrace(PTRACE_CONT, first, 0, 0);
	for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;) {
		if (!WIFSTOPPED(status)) {
			if (thread == first)
				result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			continue;
		}
		int event = status >> 16, signal = WSTOPSIG(status);
		if (event == PTRACE_EVENT_SECCOMP)
			write_name(list, thread);
		/* A new thread begins with a stop, and an event is no signal of the program's. */
		ptrace(PTRACE_CONT, thread, 0, event != 0 || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
	}
	fclose(list);
	return result;
}
