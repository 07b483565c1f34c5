/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/cmdline: the arguments joined by NUL bytes, without the last one's. The kernel's view is given and not a
 * copy made at start: a program may have rewritten its title since, and ps shows the same. */
#include <errno.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/sink.h"

enum { STEP_BYTES = 4096, CMDLINE_MAX = 4 << 20 };

static int read_cmdline(struct ppa_sink *out)
{
	char *step = ppa_vheap_malloc(STEP_BYTES);
	int fd = ppa_sys_open_read("/proc/thread-self/cmdline");
	long n = step ? fd : -ENOMEM;

	while (n >= 0 && out->len < CMDLINE_MAX) {
		n = ppa_sys_pread(fd, step, STEP_BYTES, out->len);
		if (n <= 0)
			break;
		ppa_sink_write(out, step, (size_t)n);
	}
	if (fd >= 0)
		ppa_sys_close(fd);
	ppa_vheap_free(step);
	return n < 0 ? (int)n : out->err;
}

void ppa_handle_cmdline(struct ppa_request *r)
{
	struct ppa_sink out;
	int err;

	ppa_sink_init(&out);
	err = read_cmdline(&out);
	if (out.len > 0 && out.bytes[out.len - 1] == '\0')
		out.len--;
	if (err)
		ppa_reply_error(r, 500, "cannot read /proc/self/cmdline");
	else
		ppa_reply_ok(r, PPA_TYPE_TEXT, NULL, out.bytes, out.len);
	ppa_sink_free(&out);
}
