/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c
/* Promise: a file reads the same from a descriptor and from a buffer.
 * Promise: whatever is cut off a file or overwritten in it, reading ends with an error or less, and
 * frees everything.
 * Promise: memory that cannot be read is an error, not a fault. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/vheap.h"
#include "test/fakes/vheap.h"
#include "unwind/name/elf_file.h"

static uint8_t *image;
static size_t image_len;
static int image_fd;

static int load(void **state)
{
	struct stat st;

	(void)state;
	image_fd = open("/proc/self/exe", O_RDONLY);
	if (image_fd < 0 || fstat(image_fd, &st))
		return -1;
	image_len = (size_t)st.st_size;
	image = malloc(image_len);
	return pread(image_fd, image, image_len, 0) == (ssize_t)image_len ? 0 : -1;
}

/* Everything the module offers, on one file. */
static void use(const struct ppa_elf_file *f)
{
	uint8_t id[32];
	char *bytes;

	ppa_elf_build_id(f, id, sizeof(id));
	ppa_elf_section_named(f, ".gnu_debugdata");
	for (size_t i = 0; i < f->nshdrs; i++) {
		if (ppa_elf_read_section(f, ppa_elf_section(f, i), 1 << 16, &bytes) == 0)
			ppa_vheap_free(bytes);
	}
}

static void file_and_buffer_agree(void **state)
{
	struct ppa_elf_source from_fd, from_bytes;
	struct ppa_elf_file a, b;
	uint8_t id_a[32], id_b[32];
	size_t len;

	(void)state;
	ppa_elf_source_file(&from_fd, image_fd, image_len);
	ppa_elf_source_bytes(&from_bytes, image, image_len);
	assert_int_equal(ppa_elf_open(&a, &from_fd), 0);
	assert_int_equal(ppa_elf_open(&b, &from_bytes), 0);
	assert_int_equal(a.nshdrs, b.nshdrs);
	assert_memory_equal(a.shdrs, b.shdrs, a.nshdrs * sizeof(*a.shdrs));
	assert_memory_equal(a.phdrs, b.phdrs, a.nphdrs * sizeof(*a.phdrs));
	assert_non_null(ppa_elf_section_named(&a, ".text"));
	assert_null(ppa_elf_section_named(&a, ".texta"));
	assert_ptr_equal(ppa_elf_section_named(&a, ".symtab"), ppa_elf_section_typed(&a, SHT_SYMTAB));
	assert_null(ppa_elf_section(&a, a.nshdrs));
	len = ppa_elf_build_id(&a, id_a, sizeof(id_a));
	assert_int_equal(len, ppa_elf_build_id(&b, id_b, sizeof(id_b)));
	assert_memory_equal(id_a, id_b, len);
	ppa_elf_close(&a);
	ppa_elf_close(&b);
	assert_int_equal(fake_vheap_live, 0);
}

static void sections_keep_their_limits(void **state)
{
	struct ppa_elf_source s;
	struct ppa_elf_file f;
	Elf64_Shdr lie;
	char *bytes;

	(void)state;
	ppa_elf_source_bytes(&s, image, image_len);
	assert_int_equal(ppa_elf_read(&s, &lie, 2, image_len - 1), -EIO);
	assert_int_equal(ppa_elf_read(&s, &lie, 0, image_len + 1), -EIO);
	assert_int_equal(ppa_elf_read(&s, &lie, 0, image_len), 0);
	assert_int_equal(ppa_elf_open(&f, &s), 0);
	lie = *ppa_elf_section_named(&f, ".text");
	assert_int_equal(ppa_elf_read_section(&f, &lie, lie.sh_size - 1, &bytes), -EFBIG);
	assert_int_equal(ppa_elf_read_section(&f, &lie, lie.sh_size, &bytes), 0);
	assert_int_equal(bytes[lie.sh_size], 0);
	assert_memory_equal(bytes, image + lie.sh_offset, lie.sh_size);
	ppa_vheap_free(bytes);
	lie.sh_offset = image_len - lie.sh_size + 1;
	assert_int_equal(ppa_elf_read_section(&f, &lie, SIZE_MAX, &bytes), -EIO);
	lie.sh_offset = UINT64_MAX - 1;
	assert_int_equal(ppa_elf_read_section(&f, &lie, SIZE_MAX, &bytes), -EIO);
	lie = *ppa_elf_section_named(&f, ".bss");
	assert_int_equal(ppa_elf_read_section(&f, &lie, SIZE_MAX, &bytes), -ENOENT);
	ppa_elf_close(&f);
}

static void foreign_files_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {
		{0, 0}, {EI_CLASS, ELFCLASS32}, {EI_DATA, ELFDATA2MSB}, {offsetof(Elf64_Ehdr, e_machine), EM_386}};
	struct ppa_elf_source s;
	struct ppa_elf_file f;

	(void)state;
	ppa_elf_source_bytes(&s, image, image_len);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		uint8_t old = image[changes[i].at];

		image[changes[i].at] = changes[i].value;
		assert_int_equal(ppa_elf_open(&f, &s), -ENOEXEC);
		image[changes[i].at] = old;
	}
}

static void a_file_cut_anywhere_is_survived(void **state)
{
	struct ppa_elf_source s;
	struct ppa_elf_file f;

	(void)state;
	for (size_t len = 0; len < image_len; len += len < 4096 ? 1 : 997) {
		uint8_t *cut = malloc(len + 1);

		memcpy(cut, image, len);
		/* The byte behind is not the source's; the sanitizer watches the one after it. */
		ppa_elf_source_bytes(&s, cut, len);
		if (ppa_elf_open(&f, &s) == 0) {
			use(&f);
			ppa_elf_close(&f);
		}
		free(cut);
		assert_int_equal(fake_vheap_live, 0);
	}
}

static void overwritten_headers_are_survived(void **state)
{
	struct ppa_elf_source s;
	struct ppa_elf_file f;
	size_t tables = ((Elf64_Ehdr *)image)->e_shoff;

	(void)state;
	ppa_elf_source_bytes(&s, image, image_len);
	srand(3);
	for (int round = 0; round < 20000; round++) {
		size_t at = (round & 1) ? (size_t)rand() % 1024 : tables + (size_t)rand() % (image_len - tables);
		uint8_t old = image[at];

		image[at] = (uint8_t)rand();
		if (ppa_elf_open(&f, &s) == 0) {
			use(&f);
			ppa_elf_close(&f);
		}
		image[at] = old;
		assert_int_equal(fake_vheap_live, 0);
	}
}

static void unreadable_memory_is_an_error(void **state)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ppa_elf_source s;
	struct ppa_elf_file f;

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	memcpy(pages, image, 4096);
	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	ppa_elf_source_memory(&s, (uintptr_t)pages, 8192);
	assert_int_equal(ppa_elf_open(&f, &s), 0);
	assert_true(f.nphdrs > 0);
	assert_int_equal(f.nshdrs, 0);
	ppa_elf_close(&f);
	assert_int_equal(ppa_elf_read(&s, image, 1, 4096), -EFAULT);
	ppa_elf_source_memory(&s, 16, 1 << 20);
	assert_int_not_equal(ppa_elf_open(&f, &s), 0);
	ppa_elf_source_memory(&s, UINTPTR_MAX - 10, 1 << 20);
	assert_int_not_equal(ppa_elf_open(&f, &s), 0);
	munmap(pages, 8192);
}

static void refused_memory_loses_nothing(void **state)
{
	struct ppa_elf_source s;
	struct ppa_elf_file f;
	int err = -1;

	(void)state;
	ppa_elf_source_bytes(&s, image, image_len);
	for (long budget = 0; err; budget++) {
		fake_vheap_budget = budget;
		err = ppa_elf_open(&f, &s);
		fake_vheap_budget = -1;
		if (err)
			assert_int_equal(err, -ENOMEM);
		else
			ppa_elf_close(&f);
		assert_int_equal(fake_vheap_live, 0);
		assert_true(budget < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_and_buffer_agree),
		cmocka_unit_test(sections_keep_their_limits),
		cmocka_unit_test(foreign_files_are_refused),
		cmocka_unit_test(a_file_cut_anywhere_is_survived),
		cmocka_unit_test(overwritten_headers_are_survived),
		cmocka_unit_test(unreadable_memory_is_an_error),
		cmocka_unit_test(refused_memory_loses_nothing),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
