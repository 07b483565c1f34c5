#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a profiled thread may end by return, pthread_exit, cancellation (deferred or not), an exception inside it,
# raw SYS_exit, or exit_group from elsewhere; destructors run as often and results are the same as without us.
. test/lib.sh
same threadends 40
[ "$STATUS" = 11 ] || fail "status $STATUS"
