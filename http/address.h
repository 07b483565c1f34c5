/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar of PPROF_ADDR, a pure parser:
 *
 *   6060, 127.0.0.1:6060, localhost:6060, [::1]:6060   one address; a bare port and localhost mean 127.0.0.1
 *   :6060, [::]:6060                                   every interface, IPv4 and IPv6 by one socket
 *   0.0.0.0:6060                                       every IPv4 interface
 *   :0, 127.0.0.1:0                                    a free port, chosen by the kernel
 *   unix:/run/%e-%p.sock                               a socket file; %e program, %p process id, %% a percent sign
 *
 * "http://" before and "/" after one of the TCP forms are tolerated, because people paste URLs. Names are refused: a
 * lookup would load name service modules into the target. */
#ifndef PPA_HTTP_ADDRESS_H
#define PPA_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"

enum ppa_address_kind {
	PPA_ADDRESS_IP4,
	PPA_ADDRESS_IP6,
	PPA_ADDRESS_ANY, /* dual stack */
	PPA_ADDRESS_UNIX,
};

enum { PPA_ADDRESS_PATH_MAX = 256 };

struct ppa_address {
	enum ppa_address_kind kind;
	uint8_t ip[16];			    /* network order; the first 4 for IP4 */
	uint16_t port;			    /* host order; 0: any free one */
	char pattern[PPA_ADDRESS_PATH_MAX]; /* UNIX: the path with its % still in place */
};

/* 0 and *out filled, or -EINVAL with a static reason in *why. Context: any; reads nothing but its arguments. */
int ppa_address_parse(const char *text, struct ppa_address *out, const char **why) PPA_CTX_ANY;

/* Can only programs of this machine reach it? Context: any. */
bool ppa_address_is_loopback(const struct ppa_address *a) PPA_CTX_ANY;

/* Write the pattern's path into buf (cap bytes, NUL included), slashes of program replaced by '_'. Its length, or
 * -ENAMETOOLONG. Context: any. */
int ppa_address_expand(const char *pattern, const char *program, pid_t pid, char *buf, size_t cap) PPA_CTX_ANY;

#endif
