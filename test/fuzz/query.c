/* SPDX-License-Identifier: Apache-2.0 */
// link: http/query.c http/path.c http/access.c
/* Promise: no query, path or Host makes the parsers read or write where they must not; a cleaned path stays clean, and a
 * redirect's target holds no byte that could end its header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/access.h"
#include "http/path.h"
#include "http/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(char *path, const char *query)
{
	char location[512];

	if (!ppa_path_decode(path))
		return;
	if (ppa_path_clean(path) && ppa_path_clean(path))
		abort();
	if (path[0] == '/' && (strstr(path, "//") || strstr(path, "/../")))
		abort();
	if (ppa_path_escape(path, query, location, sizeof(location)) < 0)
		return;
	for (const char *p = location; *p; p++) {
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *copy = malloc(size + 1), value[24];
	int64_t number;
	int n;

	memcpy(text, data, size);
	text[size] = '\0';
	memcpy(copy, text, size + 1);
	n = ppa_query_get(text, "seconds", value, sizeof(value));
	if (n == 0 || n >= (int)sizeof(value) || (n > 0 && value[n] != '\0'))
		abort();
	ppa_query_get_int(text, "hz", &number);
	ppa_query_parse_int(text, &number);
	ppa_access_host_is_allowed(text);
	check_path(copy, text);
	free(text);
	free(copy);
	return 0;
}
