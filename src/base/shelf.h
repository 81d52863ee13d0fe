/* shelf.h -- what is kept on disk between processes: bytes that took long to make, found again by the text they were made of.
 *
 * The folder is $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; WEFT_CACHE=off: there is none. An entry is one
 * file that holds the whole key beside the bytes, and a checksum of both: a file that is cut, damaged, somebody else's or of
 * another key is as good as none, and is written anew. Files are written aside and renamed, so processes at the same time see
 * whole ones only. A disk that is full or cannot be written to is no error: then nothing is kept. */
#ifndef WEFT_SHELF_H
#define WEFT_SHELF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

/* True: *data is a copy, for mem_free. */
bool shelf_get(const void *key, size_t key_bytes, void **data, size_t *bytes);
void shelf_put(const void *key, size_t key_bytes, const void *data, size_t bytes);

struct shelf_figures { int64_t entries, bytes, most_bytes, found, missed; }; /* on disk; the bound; of this process */
struct shelf_figures shelf_figures(void);
bool shelf_folder(struct text *);         /* its path; false: there is none. It need not exist yet */
void shelf_use_bound(int64_t most_bytes); /* for tests; 0: the usual one */

#endif
