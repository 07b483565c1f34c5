/* SPDX-License-Identifier: Apache-2.0
 *
 * The composition root: the only file that knows everyone. The constructor decides whether this process has an agent;
 * after that the agent is woken by hooks, signals and its keeper thread only. There is no destructor: at exit the
 * kernel takes everything, and a hook may still be entered by destructors of others. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/api/custom.h"
#include "agent/base/budget.h"
#include "agent/base/log.h"
#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/config.h"
#include "agent/dump/dump.h"
#include "agent/dump/wall.h"
#include "agent/heap/allocator.h"
#include "agent/heap/heap.h"
#include "agent/heap/mmap.h"
#include "agent/hook/fork.h"
#include "agent/hook/mutex.h"
#include "agent/lock/contention.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/trace_collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/cpu/cpu.h"
#include "agent/profile/random.h"
#include "agent/profile/ready.h"
#include "agent/profile/unloads.h"
#include "agent/cpu/sampler.h"
#include "agent/thread/created.h"
#include "agent/thread/newborn.h"
#include "agent/thread/threads.h"
#include "http/routes.h"
#include "http/server.h"
#include "unwind/module/modules.h"
#include "unwind/jit/jit.h"
#include "unwind/name/lines.h"
#include "unwind/name/symbols.h"

extern char **environ;

static struct ppa_config config;

/* The program by its file (shims are recognised by it: busybox is busybox under any name) and as it was called (what
 * people know it by: redis-server, whose file is redis-check-rdb). */
static char program_file[256];
static char program_name[16];

static void find_program(void)
{
	static char path[4096]; /* too large for a constructor's stack, which may be anyone's */
	long n = ppa_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof(path) - 1, 0, 0);
	const char *base;
	size_t len;

	ppa_syscall(SYS_prctl, PR_GET_NAME, (long)program_name, 0, 0, 0, 0);
	if (n <= 0)
		return; /* no /proc */
	path[n] = '\0';
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	len = strlen(base);
	if (len < sizeof(program_file))
		memcpy(program_file, base, len + 1);
}

static bool is_shim(void)
{
	return ppa_config_lists(config.skip, program_file) || ppa_config_lists(config.skip, program_name);
}

/* Below this rate the first allocations of a program matter to whoever set it. */
enum { FINE_HEAP_RATE = 64 << 10, READY_MS = 20 };

/* Sampling begins with the program, and its stacks need what a profile needs. */
static void begin(void)
{
	ppa_ready_prepare();
	ppa_vheap_trim();
}

static void begin_in_child(void)
{
	ppa_ready_inherit();
	ppa_vheap_trim();
}

static void speak(void)
{
	const char *unseen = ppa_heap_rate() ? ppa_heap_unseen() : NULL;

	if (unseen)
		ppa_log("%s", unseen);
}

static void start_server(bool is_fork_child)
{
	struct ppa_server_options o = {
		.addr = config.addr,
		.addr_file = config.addr_file,
		.token_file = config.token_file,
		.allows_settings = config.settings,
		.program = program_name,
		.begin = is_fork_child ? begin_in_child : begin,
		.speak = speak,
		.is_fork_child = is_fork_child,
	};
	int err = ppa_server_start(&o);

	if (err)
		ppa_log("cannot start a thread (errno %d): no profiles from process %d", -err, ppa_sys_getpid());
	if (!err && config.trace_buffer_s && ppa_trace_keep_past(config.trace_buffer_s))
		ppa_log("cannot start a thread: PPROF_TRACE_BUFFER does nothing");
}

/* A child has one thread and none of ours. What other threads may have held at the fork is forgotten, not released. */
static void fork_child(void)
{
	ppa_vheap_reset();
	ppa_thread_reset();
	ppa_heap_reset();
	ppa_created_reset();
	ppa_dump_reset();
	ppa_wall_reset();
	ppa_contention_reset();
	ppa_trace_reset();
	ppa_ready_reset();
	ppa_modules_reset();
	ppa_unloads_reset();
	ppa_symbols_reset();
	ppa_lines_reset();
	ppa_jit_reset();
	ppa_collect_reset();
	ppa_sampler_reset();
	ppa_cpu_reset();
	ppa_threads_scan_reset();
	ppa_newborn_reset();
	ppa_threads_reset(ppa_self.slot);
	ppa_random_seed();
	ppa_server_reset();
	start_server(true);
}

static bool is_usable(void)
{
	const char *why;

	if (!config.addr[0])
		return false; /* too long, and told */
	if (ppa_server_check(config.addr, &why)) {
		ppa_log("PPROF_ADDR=%.100s: %s; not listening", config.addr, why);
		return false;
	}
	if (ppa_signal_choose()) {
		ppa_log("every real-time signal is in use: not profiling");
		return false;
	}
	if (ppa_threads_init()) {
		ppa_log("out of memory: not profiling");
		return false;
	}
	return true;
}

static void start_heap(void)
{
	ppa_budget_set((uint64_t)config.max_memory_mib << 20);
	if (ppa_heap_start((uint64_t)config.heap_rate))
		ppa_log("out of memory: no heap profile");
	else if (config.heap_rate)
		ppa_unloads_start();
	if (config.heap_rate)
		ppa_allocator_call_directly();
	if (config.heap_rate && ppa_mmap_start())
		ppa_log("out of memory: no mmap profile");
}

static void start_contention(void)
{
	ppa_contention_set_io(config.block_io);
	if (ppa_contention_start((uint64_t)config.block_rate, (uint64_t)config.mutex_fraction))
		ppa_log("out of memory: no block and mutex profiles");
	else
		ppa_mutex_attempt_at_once();
}

static void start_threads(void)
{
	if (ppa_created_start())
		ppa_log("out of memory: no threadcreate profile");
	else
		ppa_unloads_start();
}

/* What the program may not call a profile of its own. */
static bool is_taken(const char *name)
{
	const struct ppa_route *route;

	for (size_t i = 0; (route = ppa_routes_at(i)); i++)
		if (strcmp(route->name, name) == 0)
			return true;
	return ppa_kinds_is_ours(name);
}

static void start_custom(void)
{
	if (ppa_custom_start(is_taken))
		ppa_log("out of memory: no profiles of the program's own");
}

/* A mask inherited over exec may block everything. */
static void free_own_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, ppa_signal_number());
	ppa_real()->pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

__attribute__((constructor)) static void init(void)
{
	int saved = errno;

	if (ppa_config_is_off(environ)) {
		ppa_heap_stay_off();
		return;
	}
	ppa_log_init();
	ppa_config_read(environ, &config);
	find_program();
	if (!is_shim() && is_usable()) {
		free_own_signal();
		ppa_random_seed();
		ppa_threads_adopt_main((uintptr_t)environ);
		ppa_collect_set_default_hz(config.cpu_hz);
		ppa_collect_set_lines(config.symbols == PPA_LEVEL_LINES);
		ppa_symbols_set_on(config.symbols != PPA_LEVEL_NONE);
		ppa_lines_set_limit((size_t)config.symbols_memory_mib << 20);
		ppa_jit_set_limit((uint64_t)config.symbols_memory_mib << 19); /* half as much */
		ppa_fork_on_child(fork_child);
		start_heap();
		start_contention();
		start_threads();
		start_custom();
		start_server(false);
		if (config.heap_rate && config.heap_rate < FINE_HEAP_RATE)
			ppa_ready_wait(READY_MS);
	} else {
		ppa_heap_stay_off();
	}
	errno = saved;
}
