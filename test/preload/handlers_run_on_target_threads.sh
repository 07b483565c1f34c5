#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: our threads take none of the target's signals: one that all its threads block stays pending, and its handler
# runs on the thread that unblocks it.
. test/lib.sh
same wholesignals
grep -qx 'in main 100 elsewhere 0 early 0' "$TMP/out" || fail "$(cat "$TMP/out")"
