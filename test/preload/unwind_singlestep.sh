#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: at every instruction of ordinary programs the walker reaches the thread's start and agrees with libunwind
# (see unwind_singlestep.c). The agent itself is not loaded: the walker is linked into the program that steps itself.
# The instruction count depends on the C library, so only a lower bound is asserted; the rest must be all of them.
#
# Beside others: it measures no time.
set -u
program=$OUT/preload/unwind_singlestep
[ -x "$program" ] || { echo "$program was not built"; exit 1; }
[ -e /usr/lib/x86_64-linux-gnu/libz.so.1 ] || [ -e /lib/x86_64-linux-gnu/libz.so.1 ] ||
	{ echo "no libz.so.1 to load while stepping"; exit 77; }
"$program"
