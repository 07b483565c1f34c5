/* SPDX-License-Identifier: Apache-2.0
 *
 * freshstacks THREADS: burns for ever, hardly twice with the same stack. Each thread writes functions into memory of its
 * own and calls a random chain of 5 to 40 of them, down to a leaf that burns about a millisecond; twice a second it
 * throws the code away and writes it anew elsewhere. The code has frame pointers and no unwind tables, as that of most
 * JIT compilers. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "victim.h"

enum { FUNCTION_BYTES = 32, NFUNCTIONS = 512, DEPTH_MAX = 40, CHAINS_A_CODE = 500, THREADS_MAX = 64 };

typedef void (*function)(void *const *rest);

/* push %rbp; mov %rsp,%rbp; mov (%rdi),%rax; add $8,%rdi; call *%rax; pop %rbp; ret: calls the next of the list. */
static const unsigned char text[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x07, 0x48,
				     0x83, 0xc7, 0x08, 0xff, 0xd0, 0x5d, 0xc3};

VICTIM_NOINLINE static void leaf(void *const *rest)
{
	(void)rest;
	victim_burn_ns(1000000);
	VICTIM_NO_TAIL_CALL();
}

static unsigned char *write_code(void)
{
	size_t bytes = NFUNCTIONS * FUNCTION_BYTES;
	unsigned char *code = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	victim_check(code != MAP_FAILED, "mmap");
	for (int i = 0; i < NFUNCTIONS; i++)
		memcpy(code + (size_t)i * FUNCTION_BYTES, text, sizeof(text));
	victim_check(mprotect(code, bytes, PROT_READ | PROT_EXEC) == 0, "mprotect");
	return code;
}

VICTIM_NOINLINE static void call_chain(unsigned char *code, uint64_t *seed)
{
	void *chain[DEPTH_MAX + 1];
	int depth;

	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	depth = 5 + (int)((*seed >> 33) % (DEPTH_MAX - 5));
	for (int i = 0; i < depth; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		chain[i] = code + (*seed >> 33) % NFUNCTIONS * FUNCTION_BYTES;
	}
	chain[depth] = (void *)leaf;
	((function)chain[0])(chain + 1);
	VICTIM_NO_TAIL_CALL();
}

static void *burn(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	unsigned char *old = write_code();

	for (;;) {
		unsigned char *code = write_code();

		munmap(old, NFUNCTIONS * FUNCTION_BYTES);
		old = code;
		for (int i = 0; i < CHAINS_A_CODE; i++)
			call_chain(code, &seed);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long n = victim_arg(argc, argv, 1, 2);
	pthread_t t[THREADS_MAX];

	victim_check(n > 0 && n <= THREADS_MAX, "number of threads");
	for (long i = 0; i < n; i++)
		victim_check(!pthread_create(&t[i], NULL, burn, (void *)(i + 1)), "pthread_create");
	pthread_join(t[0], NULL);
	return 0;
}
