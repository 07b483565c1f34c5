#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: sigwait, sigwaitinfo, sigtimedwait, signalfd and sigpending on full sets never show our signal, and miss
# none of the target's.
. test/lib.sh
same sigwaits 43
