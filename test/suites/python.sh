#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# CPython's own tests (Debian's libpython3.11-testsuite), without and with the agent, every test method's result compared.
# SUITE_TESTS: which modules; SUITE_REUSE: keep the results without the agent.
. test/suites/lib.sh
PYTHON=${SUITE_PYTHON:-/usr/bin/python3.11}
[ -x "$PYTHON" ] && "$PYTHON" -c 'import test.test_threading' 2>/dev/null || skip "libpython3.11-testsuite is not installed"
TESTS=${SUITE_TESTS:-test_threading test_subprocess test_multiprocessing_fork test_thread test_threading_local test_threadsignals
	test_queue test_signal test_os test_posix test_fork1 test_wait3 test_wait4 test_popen test_pty test_atexit test_faulthandler
	test_gc test_weakref test_tracemalloc test_ctypes test_embed test_cmd_line test_sys test_resource test_mmap
	test_io test_file test_fileio test_memoryio test_memoryview test_array test_bytes test_unicode test_list test_dict
	test_set test_deque test_collections test_itertools test_functools test_generators test_exceptions test_traceback
	test_descr test_pickle test_copy test_struct test_json test_re test_zlib test_bz2 test_lzma test_gzip test_zipfile test_tarfile
	test_hashlib test_ssl test_select test_selectors test_epoll test_poll test_xml_etree test_xml_etree_c
	test_decimal test_float test_long test_import test_importlib test_module test_dynamic test_profile test_sys_settrace
	test_contextlib test_coroutines test_asyncgen test_compile test_ast test_grammar test_builtin test_format test_textwrap
	test_tempfile test_shutil test_pathlib test_glob test_locale test_codecs test_inspect test_dataclasses test_enum test_typing
	test_logging test_unittest test_doctest test_email test_httplib test_urlparse test_httpservers test_socketserver}

# Results of a run: "class.method passed|failed|skipped" lines.
results() {
	"$PYTHON" - "$1" <<-'END'
		import sys, xml.etree.ElementTree as tree
		for case in tree.parse(sys.argv[1]).iter("testcase"):
		    kinds = {child.tag for child in case}
		    verdict = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
		    print(case.get("name"), verdict)
	END
}

# modules NAME LIST COMMAND...: run the modules of LIST; results in $KEEP/python.NAME.
modules() {
	local name=$1 list=$2
	shift 2
	mkdir -p "$TMP/$name"
	# shellcheck disable=SC2086
	(cd "$TMP/$name" && TMPDIR=$TMP/$name timeout --kill-after=5 "${SUITE_LIMIT:-1500}" "$@" "$PYTHON" -m test -j2 --timeout 300 \
		--junit-xml "$KEEP/python.$name.xml" $list) >"$KEEP/python.$name.log" 2>&1 </dev/null
	results "$KEEP/python.$name.xml" >"$KEEP/python.$name"
	grep -E '^Total duration|^Tests result' "$KEEP/python.$name.log" | sed "s/^/python, $name: /"
}

[ -n "${SUITE_REUSE:-}" ] && [ -s "$KEEP/python.bare" ] || modules bare "$TESTS" "${bare[@]}"
scrape_all_along
modules agent "$TESTS" "${with[@]}"
touch "$TMP/over"
wait
cat "$TMP/scraped"
echo "python: $(wc -l <"$KEEP/python.bare") results without, $(wc -l <"$KEEP/python.agent") with the agent; $(grep -c ' passed$' "$KEEP/python.agent") passed"
[ "$(wc -l <"$KEEP/python.agent")" -ge 100 ] || { tail -n 20 "$KEEP/python.agent.log"; echo "FAIL python: the suite did not run"; exit 1; }
differences "$KEEP/python.bare" "$KEEP/python.agent" >"$KEEP/python.diff"
if [ -s "$KEEP/python.diff" ]; then
	cat "$KEEP/python.diff"
	again=$(sed -nE 's/^[<>] (test\.)?(test_[a-z0-9_]+)\..*/\2/p' "$KEEP/python.diff" | sort -u)
	again=${again:-$(grep -oE 'test_[a-z0-9_]+' <<<"$(grep -E '(failed|crashed|timed out)' "$KEEP/python.agent.log")" | sort -u)}
	echo "python: once more, both ways: $again"
	rm -f "$TMP/over"
	modules bare-again "$again" "${bare[@]}"
	modules agent-again "$again" "${with[@]}"
	# Of the tests that differed, those that do so again.
	differences "$KEEP/python.bare-again" "$KEEP/python.agent-again" | sort >"$TMP/again"
	sort "$KEEP/python.diff" | comm -12 - "$TMP/again" >"$KEEP/python.diff"
fi
[ ! -s "$KEEP/python.diff" ] || { cat "$KEEP/python.diff"; echo "FAIL python: results differ (< without, > with the agent)"; exit 1; }
echo "ok python"
