/* assembling.h -- texts of PTX that ptxas must take: a folder of them. Equal texts are assembled once. */
#ifndef WEFT_TEST_ASSEMBLING_H
#define WEFT_TEST_ASSEMBLING_H
#include <stdbool.h>
#include <stdint.h>

struct assembling { char folder[40]; int n_texts, n_different; uint64_t *seen; }; /* seen: hashes of the different ones */

/* False where there is no ptxas, which skips the test, or no folder, which fails it. */
bool assembling_begin(struct assembling *);
void assembling_add(struct assembling *, const char *name, const char *ptx, int n_bytes);
/* Assembles them with these options of ptxas, says what it refuses, which fails the test, and removes the folder; WEFT_TEST_KEEP set: keeps it. */
void assembling_end(struct assembling *, const char *options);
#endif
