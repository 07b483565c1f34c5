// flags: -O2 -fno-omit-frame-pointer -fstack-clash-protection -fcf-protection -fstack-protector-strong
/* SPDX-License-Identifier: Apache-2.0
 *
 * See sleepers.h. C++ as distributions that keep frame pointers compile it, with all their precautions. */
#include "sleepers.h"

int main(int argc, char **argv)
{
	return sleepers_main(argc, argv);
}
