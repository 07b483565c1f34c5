// link: agent/base/static_call.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a static call site does the same before and after it was patched, and is left alone where another thread runs, where
 * /proc/self/mem cannot be had, where the genuine function is too far away, and where it is no site. Each case has a
 * process of its own, as a patch stays. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/static_call.h"
#include "agent/base/static_call_x86_64.h"

enum { GENUINE = 100, DETOUR = 200, ODD = 300 };
#define APART __attribute__((noinline, noclone))
/* A tail call is a jump, in every variant of the build. */
#define AS_A_HOOK APART __attribute__((optimize("O2"), no_sanitize("address", "undefined", "thread")))
#define HIDDEN __attribute__((visibility("hidden")))

static APART int genuine(int n)
{
	__asm__ volatile("");
	return GENUINE + n;
}

static APART int aside(int n)
{
	__asm__ volatile("");
	return DETOUR + n;
}

/* How a hook has its pointers: hidden, and known to the compiler as nothing but a variable. */
int (*near_pointer)(int) HIDDEN = genuine;
int (*far_pointer)(int) HIDDEN = genuine;

/* The shape of a hook: below zero a detour, else the genuine function. */
#define SITE(name, way)                                                                                                \
	static AS_A_HOOK int name(int n)                                                                               \
	{                                                                                                              \
		__asm__ goto(                                                                                          \
			"cmpl $0, %[n]\n\tsets %%al\n\ttestb %%al, %%al" PPA_ARCH_STATIC_CALL(PPA_ARCH_IF_NOT_ZERO)    \
			:                                                                                              \
			: [n] "r"(n)                                                                                   \
			: "cc", "rax", "memory"                                                                        \
			: detour);                                                                                     \
		way;                                                                                                   \
	detour:                                                                                                        \
		return aside(n);                                                                                       \
	}
SITE(near_site, return near_pointer(n))
SITE(far_site, return far_pointer(n))
SITE(no_site, return n * n + ODD) /* what follows is no jump through a pointer */

/* An entry: through the pointer as compiled, else what stands behind. */
int (*entry_pointer)(int) HIDDEN = genuine;
int entry(int n) HIDDEN;
__asm__(".pushsection .text\n\t.type entry, @function\nentry:\n\t.cfi_startproc\n\t" PPA_ARCH_STATIC_ENTRY(
	"entry_pointer") "lea 400(%rdi), %eax\n\tret\n\t.cfi_endproc\n\t.size entry, . - entry\n\t.popsection");
enum { BEHIND = 400 };

static const uint8_t *site_of(int (*function)(int))
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)function;

	while (p[0] != 0x0f || (p[1] & 0xfe) != 0x84)
		p++;
	return p;
}

static bool is_patched(int (*function)(int))
{
	return site_of(function)[1] == 0x84;
}

static bool all_right(void)
{
	return near_site(5) == GENUINE + 5 && near_site(-5) == DETOUR - 5 && no_site(2) == 4 + ODD &&
	       no_site(-2) == DETOUR - 2 && far_site(-1) == DETOUR - 1;
}

/* Cases; each returns the number of what is wrong. */

static int near_is_patched(void)
{
	errno = 7;
	return !all_right()				     ? 1
	       : ppa_static_calls_patch() != 1		     ? 2
	       : errno != 7				     ? 3
	       : !is_patched(near_site)			     ? 4
	       : is_patched(far_site) || is_patched(no_site) ? 5
	       : !all_right()				     ? 6
	       : ppa_static_calls_patch() != 0		     ? 7
	       : !all_right()				     ? 8
							     : 0;
}

/* The second address that is there for certain and more than 2 GiB away from a PIE: the stack's. */
static int both_are_patched_if_near(void)
{
	far_pointer = genuine;
	return ppa_static_calls_patch() != 2 ? 1
	       : !is_patched(far_site)	     ? 2
	       : far_site(3) != GENUINE + 3  ? 3
	       : !all_right()		     ? 4
					     : 0;
}

static int entries_are_left_out(void)
{
	return entry(1) != GENUINE + 1		 ? 1
	       : ppa_static_entries_patch() != 1 ? 2
	       : entry(1) != BEHIND + 1		 ? 3
	       : is_patched(near_site)		 ? 4
	       : ppa_static_entries_patch() != 0 ? 5
	       : entry(2) != BEHIND + 2		 ? 6
						 : 0;
}

static void *sleeps(void *unused)
{
	pause();
	return unused;
}

static int threads_are_respected(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleeps, NULL))
		return 1;
	return ppa_static_calls_patch() != -EBUSY     ? 2
	       : is_patched(near_site)		      ? 3
	       : !all_right()			      ? 4
	       : ppa_static_entries_patch() != -EBUSY ? 5
	       : entry(1) != GENUINE + 1	      ? 6
						      : 0;
}

static int no_descriptor_no_patch(void)
{
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_NOFILE, &none))
		return 1;
	return ppa_static_calls_patch() != -EMFILE ? 2 : is_patched(near_site) ? 3 : !all_right() ? 4 : 0;
}

static void assert_case(int (*run)(void), bool far)
{
	int status = -1;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	skip(); /* its runtime has a thread */
#endif
	pid = fork();
	if (!pid) {
		char here;

		/* Never called while it points there, but with what the detour takes. */
		if (far)
			far_pointer = (int (*)(int))(uintptr_t)&here;
		_exit(run());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_near_site_is_patched_once(void **state)
{
	(void)state;
	assert_case(near_is_patched, true);
	assert_case(both_are_patched_if_near, false);
}

static void an_entry_begins_behind_its_jump(void **state)
{
	(void)state;
	assert_case(entries_are_left_out, true);
}

static void a_process_with_threads_is_left_alone(void **state)
{
	(void)state;
	assert_case(threads_are_respected, true);
}

static void what_cannot_be_written_is_left_alone(void **state)
{
	(void)state;
	assert_case(no_descriptor_no_patch, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_near_site_is_patched_once),
		cmocka_unit_test(an_entry_begins_behind_its_jump),
		cmocka_unit_test(a_process_with_threads_is_left_alone),
		cmocka_unit_test(what_cannot_be_written_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
