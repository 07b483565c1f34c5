#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a target that handles every real-time signal itself, from 50 to 64 or all there are, and queues thousands
# of them, blocked or not, handled or waited for, gets each exactly once with its value while it is profiled at 1000 Hz.
. test/lib.sh
same ownrt 50
same ownrt 34
