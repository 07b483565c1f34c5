/* SPDX-License-Identifier: Apache-2.0
 *
 * What the vendored archives find where they think libc is (scripts/vendor.redefine says which name became which).
 * Nobody else calls these. */
#ifndef PPA_BASE_VENDOR_H
#define PPA_BASE_VENDOR_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/attr.h"

/* Fortified printing, which musl lacks: the size is the bound, nothing aborts. Context: server. */
int ppa_vendor_sprintf_chk(char *s, int flag, size_t cap, const char *fmt, ...) PPA_CTX_SERVER;
int ppa_vendor_snprintf_chk(char *s, size_t n, int flag, size_t cap, const char *fmt, ...) PPA_CTX_SERVER;

/* libunwind: its caller lets one thread in at a time and may be the handler. Locks are none, masks stay as they are,
 * nothing is printed, memory comes from the kernel. Context: signal. */
int ppa_vendor_mutex_init(void *mutex, const void *attr) PPA_CTX_SIGNAL;
int ppa_vendor_mutex_lock(void *mutex) PPA_CTX_SIGNAL;
int ppa_vendor_mutex_unlock(void *mutex) PPA_CTX_SIGNAL;
int ppa_vendor_sigprocmask(int how, const sigset_t *set, sigset_t *old) PPA_CTX_SIGNAL;
ssize_t ppa_vendor_write(int fd, const void *buf, size_t len) PPA_CTX_SIGNAL;
char *ppa_vendor_strerror(int err) PPA_CTX_SIGNAL;
void *ppa_vendor_mmap(void *at, size_t len, int prot, int flags, int fd, long offset) PPA_CTX_SIGNAL;
int ppa_vendor_munmap(void *at, size_t len) PPA_CTX_SIGNAL;

/* libbacktrace: only its LZMA decoder is called. The rest of that object is linked because it is one section; should
 * it ever run, it finds no file, no module and no memory. Context: server. */
void *ppa_bt_mmap(void *at, size_t len, int prot, int flags, int fd, long offset) PPA_CTX_SERVER;
int ppa_bt_munmap(void *at, size_t len) PPA_CTX_SERVER;
int ppa_bt_dl_iterate_phdr(void *callback, void *data) PPA_CTX_SERVER;
int ppa_bt_fstat(int fd, void *st) PPA_CTX_SERVER;
int ppa_bt_lstat(const char *path, void *st) PPA_CTX_SERVER;
ssize_t ppa_bt_readlink(const char *path, char *buf, size_t len) PPA_CTX_SERVER;
int ppa_bt_open(const char *path, int flags, ...) PPA_CTX_SERVER;
int ppa_bt_fcntl(int fd, int cmd, ...) PPA_CTX_SERVER;
int ppa_bt_close(int fd) PPA_CTX_SERVER;
int ppa_bt_getpid(void) PPA_CTX_SERVER;

#endif
