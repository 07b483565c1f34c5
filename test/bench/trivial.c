/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that does nothing: what remains is the loader, libc and whatever was preloaded. */
int main(void)
{
	return 0;
}
