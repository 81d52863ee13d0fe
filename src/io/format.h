/* format.h -- file formats: from bytes that nobody trusts to named arrays, and back.
 *
 * A format is one file and one row of `formats`. Reading parses the header only; the data of each array becomes a buffer
 * that loads when it is needed. Every length is checked against the file before it is used. */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H
#include "run/buffer.h"

struct entry {            /* one array of a file */
  char *name;
  weft_dtype dtype;
  int rank;
  int64_t dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX]; /* strides in elements (NPY may be column-major) */
  int64_t offset;         /* of the first byte in the file */
  int64_t bytes;
};
struct listing {
  int n, n_meta;
  struct entry *entry;
  char **meta;            /* key, value, key, value */
};
void listing_free(struct listing *);

struct format {
  const char *name, *suffix;
  bool (*matches)(const uint8_t *head, size_t n);   /* by content: the first 64 bytes */
  weft_status (*list)(struct source *, struct listing *, struct text *why);
  /* Writes arrays given as contiguous row-major bytes. names may be NULL for a format of one array. */
  weft_status (*write)(int fd, int n, const char *const names[], const struct entry entries[], const void *const data[],
                       const char *const meta[], struct text *why);
};
extern const struct format *const formats[]; /* ends with NULL: safetensors, npy */

/* Opens, recognises and lists. */
weft_status format_open(const char *path, struct source **, struct listing *, struct text *why);
/* Writes a temporary file beside path, syncs, renames; the file that was there stays if anything fails. */
weft_status format_save(const char *path, int n, const char *const names[], const struct entry entries[],
                        const void *const data[], const char *const meta[], struct text *why);

#endif
