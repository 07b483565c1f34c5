#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the target gets as many pthread keys as without us.
. test/lib.sh
same limits keys
