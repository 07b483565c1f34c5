// flags: -O2 -fomit-frame-pointer
/* SPDX-License-Identifier: Apache-2.0
 *
 * See sleepers.h. No frame counts from a frame pointer but the one of unknown size. */
#include "sleepers.h"

int main(int argc, char **argv)
{
	return sleepers_main(argc, argv);
}
