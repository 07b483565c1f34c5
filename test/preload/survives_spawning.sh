#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: posix_spawn, vfork, system, popen and failing execs do under a 1000 Hz profile what they do without it.
. test/lib.sh
same spawner 25
