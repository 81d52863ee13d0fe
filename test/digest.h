/* digest.h -- the bits of results in one word, for machines to be compared by. With WEFT_DIGESTS=FILE in the environment
 * tests add lines "what digest" to the file; tools/arm holds those of two machines against each other. */
#ifndef WEFT_TEST_DIGEST_H
#define WEFT_TEST_DIGEST_H
#include "every_plain.h"

uint64_t digest_of(uint64_t before, const struct plain *); /* goes on from the digest before; one NaN is like another */
bool digest_is_wanted(void);
void digest_note(const char *what, uint64_t digest);       /* what: any text of one line */

/* Whether item i of a long test is for this process: with WEFT_PART=K/N in the environment those that are K modulo N alone. */
bool digest_is_ours(int64_t i);

#endif
