/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/symbols.c unwind/name/symload.c unwind/name/module_file.c unwind/module/maps.c unwind/module/maps_read.c unwind/name/symtab.c unwind/name/symtab_collect.c unwind/name/elf_file.c unwind/module/elf_headers.c unwind/name/dynsyms.c unwind/name/plt.c unwind/name/debugdata.c unwind/name/bt_alloc.c unwind/name/demangle.c agent/base/vheap.c agent/base/sys.c agent/base/vendor.c @backtrace @iberty -ldl -lpthread @zlib
/* Promise: functions of the program, its libraries and the vdso have their names, static ones where
 * the file knows them.
 * Promise: linkage stubs are named for what they lead to.
 * Promise: a library whose file is deleted, replaced or overwritten keeps its exported names and
 * gets no wrong ones.
 * Promise: mini debug information names what .dynsym does not.
 * Promise: equal files share a table, trim gives all memory back, any number of threads may look
 * up. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/vheap.h"
#include "unwind/name/symbols.h"

static char dir[] = "/tmp/ppa-symbols-XXXXXX";

__attribute__((noinline)) static int a_static_function(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

struct wanted {
	uintptr_t addr;
	struct ppa_module *m;
	char *path;
};

static void take_note(struct ppa_module *m, const ElfW(Phdr) * p)
{
	const char *note = (const char *)(m->bias + p->p_vaddr), *end = note + p->p_memsz;

	while (note + sizeof(ElfW(Nhdr)) < end) {
		ElfW(Nhdr) h;

		memcpy(&h, note, sizeof(h));
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && h.n_descsz <= PPA_BUILD_ID_MAX) {
			m->build_id_len = h.n_descsz;
			memcpy(m->build_id, note + sizeof(h) + 4, h.n_descsz);
			return;
		}
		note += sizeof(h) + ((h.n_namesz + 3) & ~3U) + ((h.n_descsz + 3) & ~3U);
	}
}

static int match(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;
	struct ppa_module m = {.bias = info->dlpi_addr, .lo = UINTPTR_MAX};
	struct stat st;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD) {
			uintptr_t lo = m.bias + (p->p_vaddr & ~4095UL), hi = m.bias + p->p_vaddr + p->p_memsz;

			m.lo = lo < m.lo ? lo : m.lo;
			m.hi = hi > m.hi ? hi : m.hi;
		} else if (p->p_type == PT_NOTE && !m.build_id_len) {
			take_note(&m, p);
		}
	}
	if (w->addr < m.lo || w->addr >= m.hi)
		return 0;
	m.serial = m.lo;
	m.is_main = !info->dlpi_name[0];
	snprintf(w->path, 512, "%s", m.is_main ? "/proc/self/exe" : info->dlpi_name);
	if (m.is_main) {
		ssize_t n = readlink("/proc/self/exe", w->path, 511);

		w->path[n > 0 ? n : 0] = '\0';
	} else if (!strchr(w->path, '/')) {
		strcpy(w->path, "[vdso]");
	}
	m.path = w->path;
	if (stat(m.path, &st) == 0) {
		m.dev = st.st_dev;
		m.ino = st.st_ino;
	}
	*w->m = m;
	return 1;
}

/* The module around an address, as unwind/module/modules.c would tell it. */
static void module_of(const void *addr, struct ppa_module *m, char path[512])
{
	struct wanted w = {(uintptr_t)addr, m, path};

	assert_int_equal(dl_iterate_phdr(match, &w), 1);
}

static void assert_named(const struct ppa_module *m, const void *addr, const char *name)
{
	struct ppa_symbol s;

	assert_int_equal(ppa_symbols_lookup(m, (uintptr_t)addr + 1, &s), 0);
	assert_string_equal(s.name, name);
	assert_int_equal(s.address, (uintptr_t)addr);
}

static int run(const char *format, ...)
{
	char command[1600];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	return system(command);
}

static int make_libraries(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	return run("cd %s && for i in 1 2 3 4 5 6 7 8 9 10; do "
		   "echo \"__attribute__((noinline)) static int hidden_$i(int x) { __asm__ volatile(\\\"\\\" : "
		   "\\\"+r\\\"(x));"
		   " return x * $i; } int shown_$i(int x) { return hidden_$i(x) + 1; }"
		   " void *where_$i(void) { return (void *)hidden_$i; }\"; done > l.c && "
		   "gcc -O2 -fPIC -shared -Wl,--build-id -o full.so l.c && strip -o bare.so full.so && "
		   "echo 'int puts(const char *); int getpid(void); void *keep = (void *)getpid;"
		   " int calls(void) { return getpid() + puts(\"\"); }' > p.c && "
		   "gcc -O2 -fPIC -shared -Wl,--build-id -fcf-protection -Wl,-z,ibtplt -o ibt.so p.c && "
		   "gcc -O2 -fPIC -shared -Wl,--build-id=none -o fullnoid.so l.c && strip -o noid.so fullnoid.so && "
		   "echo 'int other(void) { return 7; } int shown_1(void) { return 1; }' > o.c && "
		   "gcc -O0 -fPIC -shared -Wl,--build-id -o other.so o.c",
		   dir);
}

static int remove_libraries(void **state)
{
	(void)state;
	return run("rm -rf %s", dir);
}

static void *load(const char *name, struct ppa_module *m, char path[512], const char *exported)
{
	void *lib;

	snprintf(path, 512, "%s/%s", dir, name);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(lib);
	module_of(dlsym(lib, exported), m, path);
	return lib;
}

static void *hidden(void *lib)
{
	void *(*where)(void) = (void *(*)(void))dlsym(lib, "where_1");

	return where();
}

static void the_program_and_libc_are_named(void **state)
{
	struct ppa_module m;
	char path[512];

	(void)state;
	a_static_function(1);
	module_of((void *)a_static_function, &m, path);
	assert_named(&m, (void *)a_static_function, "a_static_function");
	assert_named(&m, (void *)the_program_and_libc_are_named, "the_program_and_libc_are_named");
	module_of(dlsym(RTLD_DEFAULT, "qsort"), &m, path);
	assert_named(&m, dlsym(RTLD_DEFAULT, "qsort"), "qsort");
	assert_named(&m, dlsym(RTLD_DEFAULT, "puts"), "puts");
	assert_named(&m, dlsym(RTLD_DEFAULT, "malloc"), "malloc");
	ppa_symbols_trim();
}

static void the_vdso_is_named(void **state)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *addr = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
	struct ppa_module m;
	struct ppa_symbol s;
	char path[512];

	(void)state;
	if (!addr)
		skip(); /* no vdso under this kernel or valgrind */
	module_of(addr, &m, path);
	assert_string_equal(m.path, "[vdso]");
	assert_int_equal(ppa_symbols_lookup(&m, (uintptr_t)addr + 1, &s), 0);
	assert_non_null(strstr(s.name, "clock_gettime"));
	assert_int_equal(s.address, (uintptr_t)addr);
	ppa_symbols_trim();
}

static void static_functions_need_symtab_or_mini_debug_information(void **state)
{
	struct ppa_module m;
	struct ppa_symbol s;
	char path[512];
	void *lib;

	(void)state;
	lib = load("full.so", &m, path, "shown_1");
	assert_named(&m, hidden(lib), "hidden_1");
	dlclose(lib);
	ppa_symbols_trim(); /* full and bare have one build id */
	lib = load("bare.so", &m, path, "shown_1");
	assert_named(&m, dlsym(lib, "shown_3"), "shown_3");
	assert_int_equal(ppa_symbols_lookup(&m, (uintptr_t)hidden(lib), &s), -ENOENT);
	dlclose(lib);
	ppa_symbols_trim();
	if (run("command -v xz >/dev/null") ||
	    run("cd %s && nm full.so | awk '$2 == \"t\" {print $3}' > keep && objcopy --only-keep-debug full.so d && "
		"objcopy -S --keep-symbols=keep d m && xz -f m && "
		"objcopy --add-section .gnu_debugdata=m.xz bare.so mini.so",
		dir))
		skip();
	lib = load("mini.so", &m, path, "shown_1");
	assert_named(&m, hidden(lib), "hidden_1");
	assert_named(&m, dlsym(lib, "shown_3"), "shown_3");
	dlclose(lib);
	ppa_symbols_trim();
}

/* Where the calls in a function lead to: a call is e8 and a displacement, a jump e9. */
static bool a_call_is_named(const struct ppa_module *m, const uint8_t *code, const char *name)
{
	struct ppa_symbol s;

	for (size_t i = 0; i < 64; i++) {
		int32_t displacement;

		memcpy(&displacement, code + i + 1, sizeof(displacement));
		if ((code[i] == 0xe8 || code[i] == 0xe9) &&
		    ppa_symbols_lookup(m, (uintptr_t)(code + i + 5 + displacement), &s) == 0 &&
		    strcmp(s.name, name) == 0)
			return s.address == (uintptr_t)(code + i + 5 + displacement);
	}
	return false;
}

/* Of every linker that is installed, in every layout that it writes. */
static void linkage_stubs_are_named(void **state)
{
	static const char *const linkers[] = {"bfd", "gold", "lld"};
	static const char *const layouts[] = {"-Wl,-z,lazy", "-Wl,-z,now", "-fcf-protection -Wl,-z,lazy",
					      "-fcf-protection -Wl,-z,now", "-Wl,--build-id -Wl,--hash-style=sysv"};
	struct ppa_module m;
	char path[512], name[32];
	void *lib;

	(void)state;
	lib = load("ibt.so", &m, path, "calls");
	assert_true(a_call_is_named(&m, dlsym(lib, "calls"), "puts@plt"));
	dlclose(lib);
	ppa_symbols_trim(); /* the next one may come to the same address, which is its serial here */
	for (size_t l = 0; l < sizeof(linkers) / sizeof(linkers[0]); l++) {
		if (run("command -v ld.%s >/dev/null", linkers[l]))
			continue;
		for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
			snprintf(name, sizeof(name), "%s%zu.so", linkers[l], i);
			assert_int_equal(run("cd %s && gcc -O2 -fPIC -shared -fuse-ld=%s %s -o %s p.c && strip %s", dir,
					     linkers[l], layouts[i], name, name),
					 0);
			lib = load(name, &m, path, "calls");
			assert_true(a_call_is_named(&m, dlsym(lib, "calls"), "puts@plt"));
			assert_true(a_call_is_named(&m, dlsym(lib, "calls"), "getpid@plt"));
			dlclose(lib);
			ppa_symbols_trim();
		}
	}
}

static void a_deleted_or_replaced_file_gives_exported_names(void **state)
{
	static const char *const deeds[] = {"rm gone.so", "mv other.so gone.so", "mkfifo pipe && mv pipe gone.so",
					    "head -c 3000 gone.so > cut && mv cut gone.so",
					    "mkdir e && rm gone.so && mv e gone.so"};
	static const char *const from[] = {"bare.so", "noid.so"};
	struct ppa_module m;
	char path[512];
	void *lib;

	(void)state;
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
		for (size_t k = 0; k < 2; k++) {
			assert_int_equal(
				run("cd %s && rm -rf gone.so && cp %s gone.so && cp other.so keep.so", dir, from[k]),
				0);
			lib = load("gone.so", &m, path, "shown_1");
			assert_int_equal(run("cd %s && %s && mv keep.so other.so", dir, deeds[i]), 0);
			for (int n = 0; n < 2; n++) {
				assert_named(&m, dlsym(lib, "shown_1"), "shown_1");
				assert_named(&m, dlsym(lib, "where_9"), "where_9");
			}
			dlclose(lib);
			ppa_symbols_trim();
		}
	}
}

/* Does the kernel let us open what is mapped? For root, mostly. */
static bool may_open_mapped(const struct ppa_module *m)
{
	char link[64];
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	bool found = false;
	int fd = -1;

	assert_non_null(maps);
	while (!found && fscanf(maps, "%lx-%lx%*[^\n]", &from, &to) == 2)
		found = from == m->lo;
	fclose(maps);
	if (found) {
		snprintf(link, sizeof(link), "/proc/self/map_files/%lx-%lx", from, to);
		fd = open(link, O_RDONLY);
		close(fd);
	}
	return fd >= 0;
}

/* As somebody without privilege: exported names are still there, and the static one is not. 0 is as it should be. */
static int without_privilege(const struct ppa_module *m, void *lib)
{
	pid_t child = fork();
	struct ppa_symbol s;
	int status;

	if (!child) {
		if (setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345))
			_exit(1);
		if (ppa_symbols_lookup(m, (uintptr_t)dlsym(lib, "shown_1") + 1, &s) || strcmp(s.name, "shown_1") != 0)
			_exit(2);
		_exit(ppa_symbols_lookup(m, (uintptr_t)hidden(lib) + 1, &s) == -ENOENT ? 0 : 3);
	}
	return waitpid(child, &status, 0) == child ? status : -1;
}

static void what_the_path_lost_is_found_by_its_mapping(void **state)
{
	static const char *const from[] = {"full.so", "fullnoid.so"};
	struct ppa_module m;
	char path[512];
	void *lib;

	(void)state;
	if (geteuid() != 0)
		skip();
	for (size_t k = 0; k < 2; k++) {
		assert_int_equal(run("cd %s && rm -rf gone.so && cp %s gone.so && cp other.so keep.so", dir, from[k]),
				 0);
		lib = load("gone.so", &m, path, "shown_1");
		assert_int_equal(
			run("cd %s && %s && mv keep.so other.so", dir, k ? "mv other.so gone.so" : "rm gone.so"), 0);
		assert_int_equal(without_privilege(&m, lib), 0);
		if (may_open_mapped(&m))
			assert_named(&m, hidden(lib), "hidden_1");
		dlclose(lib);
		ppa_symbols_trim();
	}
}

static void equal_code_is_proof_enough(void **state)
{
	struct ppa_module m;
	struct ppa_symbol s;
	char path[512];
	void *lib;

	(void)state;
	assert_int_equal(run("cd %s && cp fullnoid.so moved.so", dir), 0);
	lib = load("moved.so", &m, path, "shown_1");
	/* Another inode; and the kernel knows nothing of it by this number. */
	m.ino += 1000000;
	assert_named(&m, hidden(lib), "hidden_1");
	ppa_symbols_trim();
	/* Another program of the same shape. */
	assert_int_equal(run("cd %s && sed 's/return x \\*/return x +/' l.c > n.c && "
			     "gcc -O2 -fPIC -shared -Wl,--build-id=none -o new.so n.c && mv new.so moved.so",
			     dir),
			 0);
	assert_int_equal(ppa_symbols_lookup(&m, (uintptr_t)hidden(lib) + 1, &s), -ENOENT);
	assert_named(&m, dlsym(lib, "shown_1"), "shown_1");
	dlclose(lib);
	ppa_symbols_trim();
}

static void nothing_readable_is_tried_once(void **state)
{
	struct ppa_module m = {.serial = 9, .path = "/nonexistent", .lo = 4096, .hi = 8192};
	struct ppa_symbol s;
	uint64_t bytes;

	(void)state;
	assert_int_equal(ppa_symbols_lookup(&m, 5000, &s), -ENOENT);
	bytes = ppa_symbols_cached_bytes();
	assert_true(bytes > 0);
	assert_int_equal(ppa_symbols_lookup(&m, 5000, &s), -ENOENT);
	assert_int_equal(ppa_symbols_cached_bytes(), bytes);
	ppa_symbols_trim();
}

static void equal_files_share_a_table_and_trim_frees_it(void **state)
{
	struct ppa_module m;
	uint64_t before, once;
	struct ppa_symbol s;
	char path[512];

	(void)state;
	ppa_symbols_trim();
	ppa_vheap_trim();
	before = ppa_vheap_mapped_bytes();
	module_of(dlsym(RTLD_DEFAULT, "puts"), &m, path);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(ppa_symbols_lookup(&m, (uintptr_t)dlsym(RTLD_DEFAULT, "puts"), &s), 0);
		if (!i)
			once = ppa_symbols_cached_bytes();
		m.serial++;
	}
	assert_int_equal(ppa_symbols_cached_bytes(), once);
	ppa_symbols_trim();
	assert_int_equal(ppa_symbols_cached_bytes(), 0);
	ppa_vheap_trim();
	assert_int_equal(ppa_vheap_mapped_bytes(), before);
}

static void fallback_counts_as_the_file_does(void **state)
{
	struct ppa_module m = {.path = "/usr/lib/libfoo.so", .bias = 0x7f0000000000};
	char buf[64];

	(void)state;
	assert_int_equal(ppa_symbols_fallback(&m, m.bias + 0x1234, buf, sizeof(buf)), 16);
	assert_string_equal(buf, "libfoo.so+0x1234");
	assert_int_equal(ppa_symbols_fallback(&m, m.bias, buf, 8), 7);
	assert_string_equal(buf, "libfoo.");
	assert_int_equal(ppa_symbols_fallback(&m, m.bias, buf, 0), 0);
	m.path = "[vdso]";
	ppa_symbols_fallback(&m, m.bias - 1, buf, sizeof(buf));
	assert_string_equal(buf, "[vdso]+0xffffffffffffffff");
}

static void *look_up_much(void *arg)
{
	struct ppa_module m;
	struct ppa_symbol s;
	char path[512], text[128];
	void *puts_addr = dlsym(RTLD_DEFAULT, "puts");
	struct wanted w = {(uintptr_t)puts_addr, &m, path};

	(void)arg;
	if (dl_iterate_phdr(match, &w) != 1)
		return "no module";
	for (int i = 0; i < 5000; i++) {
		if (ppa_symbols_lookup(&m, (uintptr_t)puts_addr, &s) || strcmp(s.name, "puts") != 0)
			return "wrong name";
		ppa_symbols_demangle("_ZNSt6vectorIiSaIiEE9push_backERKi", text, sizeof(text));
		if (strcmp(text, "std::vector<int, std::allocator<int> >::push_back") != 0)
			return "wrong text";
	}
	return NULL;
}

static void threads_may_look_up_at_once(void **state)
{
	pthread_t threads[4];
	void *complaint;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_up_much, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &complaint), 0);
		assert_null(complaint);
	}
	ppa_symbols_trim();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_and_libc_are_named),
		cmocka_unit_test(the_vdso_is_named),
		cmocka_unit_test(static_functions_need_symtab_or_mini_debug_information),
		cmocka_unit_test(linkage_stubs_are_named),
		cmocka_unit_test(a_deleted_or_replaced_file_gives_exported_names),
		cmocka_unit_test(what_the_path_lost_is_found_by_its_mapping),
		cmocka_unit_test(equal_code_is_proof_enough),
		cmocka_unit_test(nothing_readable_is_tried_once),
		cmocka_unit_test(equal_files_share_a_table_and_trim_frees_it),
		cmocka_unit_test(fallback_counts_as_the_file_does),
		cmocka_unit_test(threads_may_look_up_at_once),
	};

	return cmocka_run_group_tests(tests, make_libraries, remove_libraries);
}
