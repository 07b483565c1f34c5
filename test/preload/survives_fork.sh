#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a process that forks all the time, from beside threads that allocate, loses no child and no status while it
# is profiled at 1000 Hz; and a fork of a large process, slower than the timer's period, ends.
. test/lib.sh
same forkstorm 300
same forkstorm 6 1000
