/* SPDX-License-Identifier: Apache-2.0
 *
 * One table declares every setting: name, where it goes, default, bounds and the words of the README. Nothing else in
 * the agent reads the environment. A value that cannot be used is told in one line and replaced by the default; the
 * target goes on either way. The target's environment is never changed. */
#include "agent/config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"

enum kind { TEXT, NUMBER, SECONDS, FLAG, CHOICE };

struct setting {
	const char *name; /* without "PPROF_" */
	enum kind kind;
	size_t offset;
	const char *def;
	int min, max;	    /* NUMBER, SECONDS */
	const char *choice; /* FLAG: the word that sets it; the default word is def. CHOICE: the words, by commas */
	const char *shown;  /* the default in the README, where def is too long for a table */
	const char *help;
};

/* Programs that stand before the real one in an entrypoint: they would take the port from it. */
#define SHIMS                                                                                                          \
	"sh,bash,dash,ash,ksh,mksh,zsh,busybox,env,tini,tini-static,docker-init,catatonit,dumb-init,su,sudo,gosu,"     \
	"su-exec,setpriv,runuser,nice,nohup,timeout,chroot,s6-supervise,runsv"

static const struct setting settings[] = {
	{"ADDR", TEXT, offsetof(struct ppa_config, addr), "", 0, 0, NULL, NULL,
	 "where to listen: `:6060`, `127.0.0.1:6060`, `[::1]:6060`, `localhost:6060`, `6060` (loopback), `:0` (a free "
	 "port), `unix:/path` with `%p` (pid) and `%e` (program); empty or `0`: off"},
	{"ADDR_VAR", TEXT, (size_t)-1, "", 0, 0, NULL, NULL,
	 "name of another variable to read the address from, as in `PPROF_ADDR_VAR=HCO_PPROF_ADDR`"},
	{"ADDR_FILE", TEXT, offsetof(struct ppa_config, addr_file), "", 0, 0, NULL, NULL,
	 "file to write the bound address to, for `:0`"},
	{"TOKEN_FILE", TEXT, offsetof(struct ppa_config, token_file), "", 0, 0, NULL, NULL,
	 "file with a secret that every request must show, as `Authorization: Bearer SECRET` or as the password in "
	 "`http://any:SECRET@host:6060`; a file that cannot be used lets nobody in"},
	{"SKIP", TEXT, offsetof(struct ppa_config, skip), SHIMS, 0, 0, NULL, "sh,bash,…",
	 "programs that do not listen, comma separated; the default names the usual shells and init shims"},
	{"CPU_HZ", NUMBER, offsetof(struct ppa_config, cpu_hz), "100", 1, 1000, NULL, NULL,
	 "CPU samples a second of CPU time and thread, where a request has no `hz=`"},
	{"HEAP_RATE", NUMBER, offsetof(struct ppa_config, heap_rate), "524288", 0, 1 << 30, NULL, NULL,
	 "mean number of allocated bytes between two samples of the heap profile; 1 records every allocation, 0 none"},
	{"MUTEX_FRACTION", NUMBER, offsetof(struct ppa_config, mutex_fraction), "1", 0, 65535, NULL, NULL,
	 "one in so many contended releases of a lock goes into the mutex profile, weighted to match; 0 is off"},
	{"BLOCK_RATE", NUMBER, offsetof(struct ppa_config, block_rate), "10000", 0, 1000000000, NULL, NULL,
	 "nanoseconds of waiting between two samples of the block profile: longer waits are all in it, of shorter ones "
	 "a "
	 "share, weighted; 1 records every wait, 0 none"},
	{"BLOCK_IO", NUMBER, offsetof(struct ppa_config, block_io), "0", 0, 1, NULL, NULL,
	 "1: poll, select, epoll, reads and writes, sockets, files, sleeps and waiting for children are in the block "
	 "profile, too, under "
	 "a leaf "
	 "`[blocking I/O]`"},
	{"MAX_MEMORY", NUMBER, offsetof(struct ppa_config, max_memory_mib), "64", 1, 1 << 20, NULL, NULL,
	 "MiB that profiles may keep for good; near it the heap is sampled more thinly and new stacks are charged to "
	 "`[other stacks]`"},
	{"TRACE_BUFFER", SECONDS, offsetof(struct ppa_config, trace_buffer_s), "0", 0, 600, NULL, NULL,
	 "so many seconds, as in `10s`, of the execution trace are always there, for `/debug/pprof/trace?last=5`; 0: "
	 "nothing is recorded before somebody asks"},
	{"SETTINGS", NUMBER, offsetof(struct ppa_config, settings), "0", 0, 1, NULL, NULL,
	 "1: rates may be changed while the program runs, by `PUT /debug/pprof/settings`"},
	{"SYMBOLS", CHOICE, offsetof(struct ppa_config, symbols), "lines", 0, 0, "none,names,lines", NULL,
	 "what profiles say of an address: `none` its file and offset only, `names` the function, `lines` also inlined "
	 "calls, files and lines"},
	{"SYMBOLS_MEMORY", NUMBER, offsetof(struct ppa_config, symbols_memory_mib), "64", 1, 4096, NULL, NULL,
	 "MiB that reading files and lines may take at a time, and half as much names of generated code; given back "
	 "after a "
	 "minute without a request"},
	{"LOG", FLAG, offsetof(struct ppa_config, quiet), "info", 0, 0, "quiet", NULL,
	 "`info` or `quiet`: whether the agent may write its line to standard error"},
};

static const char *lookup(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

/* Decimal without sign, blanks or overflow. Not strtol: it depends on the locale and sets errno. */
static bool parse_number(const char *text, int min, int max, int *out)
{
	int v = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || v > (max - (*text - '0')) / 10)
			return false;
		v = v * 10 + (*text - '0');
	}
	if (v < min)
		return false;
	*out = v;
	return true;
}

static void set_text(const char *name, const char *value, const char *def, char *out)
{
	size_t n = strlen(value);

	if (n >= PPA_CONFIG_TEXT_MAX) {
		ppa_log("%s is longer than %d bytes; using the default", name, PPA_CONFIG_TEXT_MAX - 1);
		value = def;
		n = strlen(value);
	}
	memcpy(out, value, n + 1);
}

static void set_number(const struct setting *s, const char *name, const char *value, int *out)
{
	parse_number(s->def, s->min, s->max, out);
	if (value && *value && !parse_number(value, s->min, s->max, out))
		ppa_log("%s=%.60s is not a number from %d to %d; using %s", name, value, s->min, s->max, s->def);
}

/* A number, with or without its unit. */
static void set_seconds(const struct setting *s, const char *name, const char *value, int *out)
{
	char number[16];
	size_t n = value ? strlen(value) : 0;

	if (n && n < sizeof(number) && value[n - 1] == 's') {
		memcpy(number, value, n - 1);
		number[n - 1] = '\0';
		parse_number(s->def, s->min, s->max, out);
		if (parse_number(number, s->min, s->max, out))
			return;
	}
	set_number(s, name, value, out);
}

static void set_flag(const struct setting *s, const char *name, const char *value, bool *out)
{
	*out = value && strcmp(value, s->choice) == 0;
	if (value && *value && !*out && strcmp(value, s->def) != 0)
		ppa_log("%s=%.60s is neither %s nor %s; using %s", name, value, s->def, s->choice, s->def);
}

/* The index of the word in a comma separated list, -1 if it is not there. */
static int word_index(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (int i = 0; *list; i++) {
		size_t len = strcspn(list, ",");

		if (len == n && memcmp(list, word, n) == 0)
			return i;
		list += len + (list[len] == ',');
	}
	return -1;
}

static void set_choice(const struct setting *s, const char *name, const char *value, int *out)
{
	*out = word_index(s->choice, value && *value ? value : s->def);
	if (*out >= 0)
		return;
	ppa_log("%s=%.60s is none of %s; using %s", name, value, s->choice, s->def);
	*out = word_index(s->choice, s->def);
}

static void apply(const struct setting *s, char *const *envp, struct ppa_config *out)
{
	char name[64];
	const char *value;
	void *field = (char *)out + s->offset;

	if (s->offset == (size_t)-1)
		return;
	snprintf(name, sizeof(name), "PPROF_%s", s->name);
	value = lookup(envp, name);
	if (s->kind == TEXT)
		set_text(name, value ? value : s->def, s->def, field);
	else if (s->kind == NUMBER)
		set_number(s, name, value, field);
	else if (s->kind == SECONDS)
		set_seconds(s, name, value, field);
	else if (s->kind == CHOICE)
		set_choice(s, name, value, field);
	else
		set_flag(s, name, value, field);
}

void ppa_config_read(char *const *envp, struct ppa_config *out)
{
	const char *var = lookup(envp, "PPROF_ADDR_VAR");
	const char *log = lookup(envp, "PPROF_LOG");
	const char *token = lookup(envp, "PPROF_TOKEN_FILE");

	memset(out, 0, sizeof(*out));
	/* Before any line can be written. */
	ppa_log_set_quiet(log && strcmp(log, "quiet") == 0);
	for (size_t i = 0; i < PPA_ARRAY_LEN(settings); i++)
		apply(&settings[i], envp, out);
	if (var && *var) {
		const char *value = lookup(envp, var);

		set_text(var, value ? value : "", "", out->addr);
	}
	/* One that was too long to be kept is no reason to do without. */
	if (token && *token && !out->token_file[0])
		strcpy(out->token_file, "(too long)");
	if (strcmp(out->addr, "0") == 0)
		out->addr[0] = '\0';
}

bool ppa_config_is_off(char *const *envp)
{
	const char *var = lookup(envp, "PPROF_ADDR_VAR");
	const char *value = lookup(envp, var && *var ? var : "PPROF_ADDR");

	return !value || !*value || strcmp(value, "0") == 0;
}

bool ppa_config_lists(const char *list, const char *program)
{
	return word_index(list, program) >= 0;
}

int ppa_config_describe(unsigned row, char *buf, int cap)
{
	const struct setting *s = &settings[row];
	const char *def, *quote;

	if (row >= PPA_ARRAY_LEN(settings))
		return 0;
	def = s->shown ? s->shown : s->def;
	quote = *def ? "`" : "";
	return snprintf(buf, (size_t)cap, "| `PPROF_%s` | %s%s%s | %s |", s->name, quote, *def ? def : "–", quote,
			s->help);
}
