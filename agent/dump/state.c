/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread's own word counts most: a futex may be a mutex or a condition. Then the system call, then the kernel's
 * letter. */
#include "agent/dump/state.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/dump/look.h"
#include "agent/thread/parked.h"

static const char *const parked_words[PPA_PARKED_KINDS] = {
	[PPA_PARKED_MUTEX] = "mutex lock",
	[PPA_PARKED_RWLOCK_READ] = "rwlock read lock",
	[PPA_PARKED_RWLOCK_WRITE] = "rwlock write lock",
	[PPA_PARKED_CONDITION] = "condition wait",
	[PPA_PARKED_SEMAPHORE] = "semaphore wait",
	[PPA_PARKED_BARRIER] = "barrier wait",
	[PPA_PARKED_SPIN] = "spin lock",
	[PPA_PARKED_JOIN] = "thread join",
	[PPA_PARKED_FUTEX] = "futex wait",
	[PPA_PARKED_IO] = "IO wait",
	[PPA_PARKED_SLEEP] = "sleep",
	[PPA_PARKED_CHILD] = "child wait",
};

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static const struct {
	int nr;
	const char *word;
} calls[] = {
	{SYS_futex, "futex wait"},
	{SYS_futex_waitv, "futex wait"},
	{SYS_clock_nanosleep, "sleep"},
	{SYS_nanosleep, "sleep"},
#ifdef SYS_poll
	{SYS_poll, "poll"},
	{SYS_select, "select"},
	{SYS_epoll_wait, "epoll wait"},
	{SYS_pause, "signal wait"},
#endif
	{SYS_ppoll, "poll"},
	{SYS_pselect6, "select"},
	{SYS_epoll_pwait, "epoll wait"},
	{SYS_epoll_pwait2, "epoll wait"},
	{SYS_io_uring_enter, "IO wait (io_uring_enter)"},
	{SYS_io_getevents, "IO wait (io_getevents)"},
	{SYS_read, "IO wait (read)"},
	{SYS_readv, "IO wait (readv)"},
	{SYS_pread64, "IO wait (pread)"},
	{SYS_preadv, "IO wait (preadv)"},
	{SYS_recvfrom, "IO wait (recv)"},
	{SYS_recvmsg, "IO wait (recvmsg)"},
	{SYS_recvmmsg, "IO wait (recvmmsg)"},
	{SYS_accept, "IO wait (accept)"},
	{SYS_accept4, "IO wait (accept)"},
	{SYS_connect, "IO wait (connect)"},
	{SYS_write, "IO wait (write)"},
	{SYS_writev, "IO wait (writev)"},
	{SYS_pwrite64, "IO wait (pwrite)"},
	{SYS_pwritev, "IO wait (pwritev)"},
	{SYS_sendto, "IO wait (send)"},
	{SYS_sendmsg, "IO wait (sendmsg)"},
	{SYS_sendfile, "IO wait (sendfile)"},
	{SYS_splice, "IO wait (splice)"},
	{SYS_fsync, "IO wait (fsync)"},
	{SYS_fdatasync, "IO wait (fdatasync)"},
	{SYS_fallocate, "IO wait (fallocate)"},
	{SYS_openat, "IO wait (open)"},
	{SYS_flock, "file lock"},
	{SYS_fcntl, "file lock"},
	{SYS_wait4, "child wait"},
	{SYS_waitid, "child wait"},
	{SYS_rt_sigtimedwait, "signal wait"},
	{SYS_rt_sigsuspend, "signal wait"},
	{SYS_semop, "semaphore wait"},
	{SYS_semtimedop, "semaphore wait"},
	{SYS_msgrcv, "message wait"},
	{SYS_msgsnd, "message wait"},
	{SYS_mq_timedreceive, "message wait"},
	{SYS_mq_timedsend, "message wait"},
	{SYS_restart_syscall, "sleep"},
};

static const char *call_word(long nr)
{
	for (size_t i = 0; i < PPA_ARRAY_LEN(calls); i++)
		if (calls[i].nr == nr)
			return calls[i].word;
	return NULL;
}

static const char *asleep_word(const struct ppa_look *look, char letter)
{
	const char *word = call_word(look->syscall_nr);

	if (letter == 'T')
		return "stopped";
	if (letter == 't')
		return "traced";
	if (word)
		return word;
	return look->syscall_nr < 0 ? (letter == 'D' ? "page fault" : "waiting") : NULL;
}

static const char *word_of(const struct ppa_look *look, char letter, const struct ppa_parked_copy *parked)
{
	switch (look->kind) {
	case PPA_LOOK_RUNNING:
		return letter == 'R' ? "running" : "runnable";
	case PPA_LOOK_ASLEEP:
		return parked ? parked_words[parked->kind] : asleep_word(look, letter);
	default:
		return letter == 'R' ? "running" : "waiting";
	}
}

void ppa_state_describe(const struct ppa_look *look, char letter, const struct ppa_parked_copy *parked,
			const char *channel, char *out, size_t cap)
{
	const char *word = word_of(look, letter, parked && parked->kind < PPA_PARKED_KINDS ? parked : NULL);
	char call[24];

	if (!word) {
		snprintf(call, sizeof(call), "syscall %ld", look->syscall_nr);
		word = call;
	}
	if (*channel && !strchr(word, '('))
		snprintf(out, cap, "%s (%s)", word, channel);
	else
		snprintf(out, cap, "%s", word);
}
