#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: sampling does not overflow a thread on PTHREAD_STACK_MIN, nor an alternate signal stack of 8 KiB on which
# the target's own handler runs.
. test/lib.sh
same minstack 60 600
