// flags: -O0 -fno-omit-frame-pointer
/* SPDX-License-Identifier: Apache-2.0
 *
 * See sleepers.h. Every frame counts from its frame pointer. */
#include "sleepers.h"

int main(int argc, char **argv)
{
	return sleepers_main(argc, argv);
}
