/* SPDX-License-Identifier: Apache-2.0
 *
 * Does nothing: waits at the gate, prints "idle", waits at the gate again and ends. */
#include "victim.h"

int main(void)
{
	victim_gate();
	puts("idle");
	fflush(stdout);
	victim_gate();
	return 0;
}
