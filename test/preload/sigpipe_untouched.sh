#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: no disposition changes under the target, SIGPIPE's least of all, though our server writes to sockets.
. test/lib.sh
# Besides sigaction, the kernel's word on what an exec would inherit is printed; both are compared.
same sigpipe
[ "$STATUS" = 141 ] || fail "SIGPIPE did not kill: status $STATUS"
