#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: every mask, set and action the target installs reads back exactly as it was set, though our signal is
# stripped from it; inside handlers, in inherited masks and by attribute too.
. test/lib.sh
same maskview
