#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: mmap, mmap64, munmap and mremap give the same results, errno and memory with and without us, failures
# included, wherever a signal handler interrupts them, however it leaves, and whenever the thread is cancelled.
. test/lib.sh
same mapedges
same mapedges
