#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: when the file of a loaded library has become garbage on disk (each kind below), the target runs as without
# us, the profile comes, and at most one line is written about it. Files are read, never mapped, so that a truncated
# one cannot be SIGBUS.
#
# Beside others: it measures no time.
. test/lib.sh
need gcc go

# The kernel maps the library privately: writing to the very file would change the target's own pages, so the file is
# replaced by another at the same path, except for what is behind its loaded segments (section headers, symbols).
destroy() {
	local size
	size=$(stat -c %s "$TMP/lib.so")
	case $1 in
	garbage) head -c "$size" /dev/urandom >"$TMP/new" ;;
	empty) : >"$TMP/new" ;;
	truncated) head -c 100 "$TMP/keep.so" >"$TMP/new" ;;
	half) head -c $((size / 2)) "$TMP/keep.so" >"$TMP/new" ;;
	headers)
		cp "$TMP/keep.so" "$TMP/new"
		# e_shoff, e_shnum: section headers beyond all bounds
		printf '\377\377\377\377\377\377\377\177' | dd of="$TMP/new" bs=1 seek=40 conv=notrunc 2>/dev/null
		printf '\377\377\377\377' | dd of="$TMP/new" bs=1 seek=60 conv=notrunc 2>/dev/null
		;;
	symbols)
		# In place, behind everything that is mapped: the last third holds sections nobody loads.
		dd if=/dev/urandom of="$TMP/lib.so" bs=1 seek=$((size * 2 / 3)) count=$((size / 3)) conv=notrunc 2>/dev/null
		return
		;;
	directory)
		rm "$TMP/lib.so"
		mkdir "$TMP/lib.so"
		return
		;;
	fifo)
		rm "$TMP/lib.so"
		mkfifo "$TMP/lib.so"
		return
		;;
	esac
	mv "$TMP/new" "$TMP/lib.so"
}

plugin keep 20000
for kind in garbage empty truncated half headers symbols directory fifo; do
	rm -rf "$TMP/lib.so"
	cp "$TMP/keep.so" "$TMP/lib.so"
	[ "$kind" = garbage ] && bare "$VICTIMS/loadlib" "$TMP/lib.so"
	start "$VICTIMS/loadlib" "$TMP/lib.so"
	wait_for grep -q loaded "$TMP/out"
	destroy "$kind"
	fetch '/debug/pprof/profile?seconds=1' -f -o "$TMP/p.pb.gz" --max-time 15 &
	fetcher=$!
	sleep 0.2
	open_gate
	wait "$fetcher" || fail "$kind: no profile"
	open_gate
	finish
	compare "library is $kind"
	agent_lines 2
	PPROF_BINARY_PATH=/nonexistent go tool pprof -symbolize=none -top "$TMP/p.pb.gz" >"$TMP/top" 2>/dev/null || fail "$kind: unreadable profile"
	grep -Eq 'plugin|step|lib\.so' "$TMP/top" || fail "$kind: $(cat "$TMP/top")"
done
