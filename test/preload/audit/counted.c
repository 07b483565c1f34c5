/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that are only counted (see audit.c). No headers: their prototypes would contradict. */
void audit_note(const char *name);
void *audit_real(const char *name);

/* Arguments fit in six registers; variadic ones take no floating point here. */
#define COUNTED(name)                                                                                                  \
	long name(long a, long b, long c, long d, long e, long f)                                                      \
	{                                                                                                              \
		static long (*next)(long, long, long, long, long, long);                                               \
		if (!next)                                                                                             \
			next = (long (*)(long, long, long, long, long, long))audit_real(#name);                        \
		audit_note(#name);                                                                                     \
		return next(a, b, c, d, e, f);                                                                         \
	}

COUNTED(memalign)
COUNTED(posix_memalign)
COUNTED(aligned_alloc)
COUNTED(valloc)
COUNTED(reallocarray)
COUNTED(strdup)
COUNTED(strndup)
COUNTED(vasprintf)
COUNTED(getline)
COUNTED(signal)
COUNTED(bsd_signal)
COUNTED(sigprocmask)
COUNTED(sigaltstack)
COUNTED(getaddrinfo)
COUNTED(getnameinfo)
COUNTED(gethostbyname)
COUNTED(gethostbyname_r)
COUNTED(getservbyname)
COUNTED(getpwnam)
COUNTED(getpwuid)
COUNTED(getgrnam)
COUNTED(tzset)
COUNTED(localtime)
COUNTED(localtime_r)
COUNTED(gmtime)
COUNTED(mktime)
COUNTED(strftime)
COUNTED(setlocale)
COUNTED(newlocale)
COUNTED(uselocale)
COUNTED(localeconv)
COUNTED(nl_langinfo)
COUNTED(getenv)
COUNTED(secure_getenv)
COUNTED(setenv)
COUNTED(putenv)
COUNTED(unsetenv)
COUNTED(fopen)
COUNTED(fdopen)
COUNTED(popen)
COUNTED(fclose)
COUNTED(fwrite)
COUNTED(vfprintf)
COUNTED(puts)
COUNTED(perror)
COUNTED(opendir)
COUNTED(readdir)
COUNTED(closedir)
COUNTED(qsort)
COUNTED(qsort_r)
COUNTED(strerror)
COUNTED(strerror_r)
COUNTED(system)
COUNTED(openlog)
COUNTED(dlopen)
COUNTED(pthread_key_create)
COUNTED(pthread_setspecific)
COUNTED(pthread_atfork)
COUNTED(__register_atfork)
COUNTED(atexit)
COUNTED(__cxa_atexit)
COUNTED(pthread_getattr_np)
COUNTED(backtrace)
COUNTED(iconv_open)
COUNTED(random)
COUNTED(rand)
COUNTED(srand)
COUNTED(tmpfile)
COUNTED(mkstemp)
COUNTED(umask)
COUNTED(chdir)
COUNTED(setrlimit)
