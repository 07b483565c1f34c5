/* SPDX-License-Identifier: Apache-2.0
 *
 * The genuine locking functions, and what hooks know about locks without asking. */
#ifndef PPA_HOOK_LOCK_REAL_H
#define PPA_HOOK_LOCK_REAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <threads.h>
#include <time.h>

#include "agent/base/attr.h"

/* Where in a pthread_mutex_t its kind stands, in bytes, and the bit of it that says robust: part of either libc's ABI. */
enum { PPA_GLIBC_KIND_AT = 16, PPA_GLIBC_ROBUST = 16, PPA_MUSL_KIND_AT = 0, PPA_MUSL_ROBUST = 4 };

struct ppa_lock_real {
	/* First, because every lock and unlock reads it. */
	int (*mutex_trylock)(pthread_mutex_t *);
	int (*mutex_unlock)(pthread_mutex_t *);
	uint64_t taken; /* which bits of its first 8 bytes are 0 while it is free */
	_Atomic bool is_resolved;

	int (*mutex_lock)(pthread_mutex_t *);
	int (*mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
	int (*mutex_clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);

	int (*rwlock_rdlock)(pthread_rwlock_t *);
	int (*rwlock_tryrdlock)(pthread_rwlock_t *);
	int (*rwlock_timedrdlock)(pthread_rwlock_t *, const struct timespec *);
	int (*rwlock_clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*rwlock_wrlock)(pthread_rwlock_t *);
	int (*rwlock_trywrlock)(pthread_rwlock_t *);
	int (*rwlock_timedwrlock)(pthread_rwlock_t *, const struct timespec *);
	int (*rwlock_clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*rwlock_unlock)(pthread_rwlock_t *);

	int (*cond_signal)(pthread_cond_t *);
	int (*cond_broadcast)(pthread_cond_t *);
	int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

	int (*sem_post)(sem_t *);
	int (*sem_wait)(sem_t *);
	int (*sem_timedwait)(sem_t *, const struct timespec *);
	int (*sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
	int (*sem_getvalue)(sem_t *, int *);

	int (*barrier_wait)(pthread_barrier_t *);
	int (*spin_lock)(pthread_spinlock_t *);
	int (*spin_trylock)(pthread_spinlock_t *);
	int (*spin_unlock)(pthread_spinlock_t *);

	int (*join)(pthread_t, void **);
	int (*timedjoin)(pthread_t, void **, const struct timespec *);
	int (*clockjoin)(pthread_t, void **, clockid_t, const struct timespec *);

	int (*mtx_lock)(mtx_t *);
	int (*mtx_trylock)(mtx_t *);
	int (*mtx_timedlock)(mtx_t *, const struct timespec *);
	int (*mtx_unlock)(mtx_t *);
	int (*cnd_signal)(cnd_t *);
	int (*cnd_broadcast)(cnd_t *);
	int (*cnd_wait)(cnd_t *, mtx_t *);
	int (*cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
	int (*thrd_join)(thrd_t, int *);
};

extern struct ppa_lock_real ppa_lock_table __attribute__((visibility("hidden")));

/* Look everything up; what the libc lacks is emulated with what it has. Keeps errno. Context: any. */
void ppa_lock_resolve(void) PPA_CTX_ANY;

/* Only the three functions of a mutex that every libc has: allocates nothing anywhere. Context: any. */
void ppa_lock_resolve_mutex(void) PPA_CTX_ANY;

static inline const struct ppa_lock_real *ppa_lock_real(void)
{
	/* acquire: the table is complete; pairs with the release in ppa_lock_resolve. */
	if (ppa_unlikely(!atomic_load_explicit(&ppa_lock_table.is_resolved, memory_order_acquire)))
		ppa_lock_resolve();
	return &ppa_lock_table;
}

#endif
