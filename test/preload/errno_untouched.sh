#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: errno is 0 when main begins, keeps its value over every interposed function that succeeds, and no sampling
# signal changes it.
. test/lib.sh
same errnoview
grep -qx 'main starts with 0' "$TMP/out" || fail "$(head -1 "$TMP/out")"
grep -qx 'changed while burning: 0' "$TMP/out" || fail "$(tail -1 "$TMP/out")"
