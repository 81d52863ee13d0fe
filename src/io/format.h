/* format.h -- file formats: from bytes that nobody trusts to named arrays, and back.
 *
 * A format is one file and one row of `formats`. Reading parses the header only; the data of each array becomes a buffer
 * that loads when it is needed. Every length is checked against the file before it is used. */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H
#include "run/buffer.h"
#include "run/source.h"

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
struct entry *listing_add(struct listing *);  /* a new entry at the end, all zero; NULL: out of memory */
bool listing_add_meta(struct listing *, const char *key, const char *value); /* false: out of memory */
void listing_free(struct listing *);

/* Sets the strides and bytes that follow from dtype, rank and dims. false: more than 2^63 bytes, and this without regard
 * to sizes of 0, so that strides never overflow. */
bool entry_measure(struct entry *, bool is_column_major);

struct format {
  const char *name, *suffix;
  bool (*matches)(const uint8_t *head, size_t n);   /* by content: the first 64 bytes */
  weft_status (*list)(struct source *, struct listing *, struct text *why);
  /* Writes arrays given as contiguous row-major bytes. names may be NULL for a format of one array; meta ends with NULL,
   * or is NULL. why is to say what is wrong, without the path. */
  weft_status (*write)(int fd, int n, const char *const names[], const struct entry entries[], const void *const data[],
                       const char *const meta[], struct text *why);
};
extern const struct format format_safetensors, format_npy;
extern const struct format *const formats[]; /* all of them; ends with NULL */

/* Writes all of it, for `write` above. */
weft_status format_put(int fd, const void *data, size_t bytes, struct text *why);

/* Opens, recognises and lists. */
weft_status format_open(const char *path, struct source **, struct listing *, struct text *why);
/* Writes a temporary file beside path, syncs, renames; the file that was there stays if anything fails. */
weft_status format_save(const char *path, int n, const char *const names[], const struct entry entries[],
                        const void *const data[], const char *const meta[], struct text *why);

#endif
