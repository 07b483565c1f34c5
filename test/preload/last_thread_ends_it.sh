#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a process ends with its last thread, as libc has it, also when that is not the main one: our threads do not keep
# it alive, idle or while it is profiled.
. test/lib.sh

is_gone() {
	! kill -0 "$PID" 2>/dev/null
}

# ends HOW: without a profile and with one.
ends() {
	local profiled
	bare timeout 20 "$VICTIMS/lastthread" "$1"
	[ "$BARE_STATUS" = 0 ] || fail "$1: it does not end without the agent either"
	for profiled in no yes; do
		start "$VICTIMS/lastthread" "$1"
		[ "$profiled" = no ] || profile_on
		open_gate
		wait_for is_gone || fail "$1: a minute after its last thread has ended it is still there"
		finish
		compare "lastthread $1, profiled: $profiled"
	done
}

ends main
ends fork
ends both
