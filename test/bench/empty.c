/* SPDX-License-Identifier: Apache-2.0 */
// flags: -shared -nostdlib -Wl,--no-as-needed build/stub/libc.so.6 build/stub/libpthread.so.0 build/stub/libdl.so.2 build/stub/librt.so.1
/* A library without anything in it, but with the agent's own NEEDED: what preloading any such object costs a program
 * that starts. (A shared object in spite of its name: the preload takes a path.) */
int bench_empty __attribute__((visibility("default")));
