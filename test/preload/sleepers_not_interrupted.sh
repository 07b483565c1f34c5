#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a CPU profile, whose timers run on CPU time only, ends no sleep of the target with EINTR.
. test/lib.sh
same sleeper 300
