#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a stripped program is profiled; what has no name gets "program+0x...", exported names stay, and nothing is
# said on standard error.
. test/lib.sh
need strip go
cp "$VICTIMS/spin" "$TMP/bare-spin"
strip "$TMP/bare-spin"
bare "$TMP/bare-spin" 2 1500
start "$TMP/bare-spin" 2 1500
fetch '/debug/pprof/profile?seconds=1' -f -o "$TMP/p.pb.gz" || fail "no profile"
finish
compare "stripped spin"
agent_lines 1
PPROF_BINARY_PATH=/nonexistent go tool pprof -symbolize=none -traces "$TMP/p.pb.gz" >"$TMP/traces" 2>/dev/null || fail "unreadable profile"
grep -Eq 'bare-spin\+0x[0-9a-f]+' "$TMP/traces" || fail "no fallback name: $(head -30 "$TMP/traces")"
grep -Eq 'libc_start|start_thread|clone' "$TMP/traces" || fail "libc's names are missing: $(head -30 "$TMP/traces")"
