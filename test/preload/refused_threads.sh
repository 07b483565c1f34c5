#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a pthread_create that fails, fails in the same way, and 20,000 of them cost us nothing that a later thread
# would miss.
. test/lib.sh
same limits threads
