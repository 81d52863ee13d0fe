/* safetensors.c -- a length, a JSON header, and the data.
 *
 * As strict as the format's own reader: the arrays must cover the data exactly, without holes, overlaps or bytes left
 * over; names are unique; the header begins with { and has at most 100 MB. Unknown members of an array's description are
 * skipped, unknown element types refused. Data need not be aligned (then it is copied when it is needed). */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "io/format.h"
#include "io/json.h"

enum { LENGTH_BYTES = 8, HEADER_MOST = 100000000, ALIGN = 64 };

static const struct { const char *name; weft_dtype dtype; } dtypes[] = {
  { "BOOL", WEFT_BOOL }, { "U8", WEFT_U8 }, { "U16", WEFT_U16 }, { "U32", WEFT_U32 }, { "U64", WEFT_U64 },
  { "I8", WEFT_I8 }, { "I16", WEFT_I16 }, { "I32", WEFT_I32 }, { "I64", WEFT_I64 }, { "F16", WEFT_F16 },
  { "F32", WEFT_F32 }, { "F64", WEFT_F64 }, { "BF16", WEFT_BF16 }, { "C64", WEFT_C64 },
  { "F8_E4M3", WEFT_E4M3 }, { "F8_E5M2", WEFT_E5M2 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static uint64_t length_in(const uint8_t *head) {
  uint64_t n = 0;
  for (int i = LENGTH_BYTES; i-- > 0;) n = n << 8 | head[i];
  return n;
}

static bool matches(const uint8_t *head, size_t n) {
  return n > LENGTH_BYTES && head[LENGTH_BYTES] == '{' && length_in(head) <= HEADER_MOST;
}

struct reading {
  struct json json;
  struct listing *listing;
  int64_t data_start, data_bytes;
  bool has_meta;
  struct text word;          /* scratch: the string read last */
};

/* What is known of an array while its description is read. */
enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static bool complain(struct reading *r, const struct entry *e, const char *what) {
  if (r->json.status) return false;
  r->json.status = WEFT_ERR_FILE;
  text_addf(r->json.why, "%s: array \"%s\": %s", r->json.path, e->name, what);
  return false;
}

static bool no_memory(struct reading *r) {
  if (!r->json.status) text_addf(r->json.why, "%s: out of memory while reading the header", r->json.path);
  r->json.status = WEFT_ERR_MEMORY;
  return false;
}

static bool read_dtype(struct reading *r, struct entry *e) {
  if (!json_string(&r->json, &r->word)) return false;
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(text_of(&r->word), dtypes[i].name)) return e->dtype = dtypes[i].dtype, true;
  r->json.status = WEFT_ERR_UNSUPPORTED;
  text_addf(r->json.why, "%s: array \"%s\": dtype \"%s\" is not supported", r->json.path, e->name, text_of(&r->word));
  return false;
}

static bool read_shape(struct reading *r, struct entry *e) {
  struct json *j = &r->json;
  if (!json_open(j, '[')) return false;
  for (e->rank = 0; json_more(j, ']', e->rank); e->rank++) {
    if (e->rank == WEFT_RANK_MAX) return complain(r, e, "more than 32 axes");
    if (!json_integer(j, &e->dims[e->rank])) return false;
    if (e->dims[e->rank] < 0) return complain(r, e, "a negative size in its shape");
  }
  return !j->status;
}

static bool read_offsets(struct reading *r, struct entry *e) {
  struct json *j = &r->json;
  int64_t at[2] = { 0, 0 };
  int n = 0;
  if (!json_open(j, '[')) return false;
  for (; json_more(j, ']', n); n++) {
    if (n == 2) return complain(r, e, "data_offsets has more than two numbers");
    if (!json_integer(j, &at[n])) return false;
  }
  if (j->status) return false;
  if (n < 2) return complain(r, e, "data_offsets has fewer than two numbers");
  if (at[0] < 0 || at[1] < at[0]) return complain(r, e, "data_offsets are not a range");
  if (at[1] > r->data_bytes) return complain(r, e, "data_offsets reach beyond the end of the file");
  e->offset = r->data_start + at[0];
  e->bytes = at[1] - at[0];
  return true;
}

static bool read_member(struct reading *r, struct entry *e, int *has) {
  static const struct { const char *key; int bit; bool (*read)(struct reading *, struct entry *); } members[] = {
    { "dtype", HAS_DTYPE, read_dtype }, { "shape", HAS_SHAPE, read_shape }, { "data_offsets", HAS_OFFSETS, read_offsets },
  };
  if (!json_key(&r->json, &r->word)) return false;
  for (int i = 0; i < 3; i++) {
    if (strcmp(text_of(&r->word), members[i].key)) continue;
    if (*has & members[i].bit) return complain(r, e, "a member twice in its description");
    *has |= members[i].bit;
    return members[i].read(r, e);
  }
  return json_skip(&r->json);
}

static bool read_entry(struct reading *r, struct entry *e) {
  int has = 0;
  if (!json_open(&r->json, '{')) return false;
  for (int n = 0; json_more(&r->json, '}', n); n++)
    if (!read_member(r, e, &has)) return false;
  if (r->json.status) return false;
  if (has != HAS_ALL) return complain(r, e, "dtype, shape or data_offsets is missing");
  int64_t bytes = e->bytes;
  if (!entry_measure(e, false)) return complain(r, e, "its shape is too large");
  return e->bytes == bytes || complain(r, e, "its shape and dtype do not fit its data_offsets");
}

static bool add_entry(struct reading *r) {
  struct entry *e = listing_add(r->listing);
  if (!e || !(e->name = mem_text(text_of(&r->word)))) return no_memory(r);
  return read_entry(r, e);
}

static bool add_meta(struct reading *r) {
  struct text value = { 0 };
  bool ok = json_key(&r->json, &r->word) && json_string(&r->json, &value);
  if (ok && !listing_add_meta(r->listing, text_of(&r->word), text_of(&value))) ok = no_memory(r);
  text_free(&value);
  return ok;
}

static bool read_meta(struct reading *r) {
  if (r->has_meta) return json_fail(&r->json, "__metadata__ twice");
  r->has_meta = true;
  if (!json_open(&r->json, '{')) return false;
  for (int n = 0; json_more(&r->json, '}', n); n++)
    if (!add_meta(r)) return false;
  return !r->json.status;
}

static bool read_header(struct reading *r) {
  struct json *j = &r->json;
  if (!json_open(j, '{')) return false;
  for (int n = 0; json_more(j, '}', n); n++) {
    if (!json_key(j, &r->word)) return false;
    bool is_meta = !strcmp(text_of(&r->word), "__metadata__");
    if (!(is_meta ? read_meta(r) : add_entry(r))) return false;
  }
  return json_end(j);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const struct entry *const *)a)->name, (*(const struct entry *const *)b)->name);
}

static int by_place(const void *a, const void *b) {
  const struct entry *x = *(const struct entry *const *)a, *y = *(const struct entry *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool covers(struct reading *r, struct entry **sorted, int n) {
  int64_t at = r->data_start, end = r->data_start + r->data_bytes;
  qsort(sorted, (size_t)n, sizeof *sorted, by_place);
  for (int i = 0; i < n; at += sorted[i++]->bytes) {
    if (sorted[i]->offset < at) return complain(r, sorted[i], "its data overlaps that of another array");
    if (sorted[i]->offset > at) return complain(r, sorted[i], "there is a hole before its data");
  }
  if (at == end) return true;
  r->json.status = WEFT_ERR_FILE;
  text_addf(r->json.why, "%s: %lld bytes at the end belong to no array", r->json.path, (long long)(end - at));
  return false;
}

static bool names_differ(struct reading *r, struct entry **sorted, int n) {
  qsort(sorted, (size_t)n, sizeof *sorted, by_name);
  for (int i = 1; i < n; i++)
    if (!strcmp(sorted[i - 1]->name, sorted[i]->name)) return complain(r, sorted[i], "there are two of this name");
  return true;
}

static bool check_entries(struct reading *r) {
  struct listing *l = r->listing;
  struct entry **sorted = mem_alloc(((size_t)l->n + 1) * sizeof *sorted);
  if (!sorted) return no_memory(r);
  for (int i = 0; i < l->n; i++) sorted[i] = &l->entry[i];
  bool ok = covers(r, sorted, l->n) && names_differ(r, sorted, l->n);
  mem_free(sorted);
  return ok;
}

static bool check_meta(struct reading *r) {
  struct listing *l = r->listing;
  char **keys = mem_alloc(((size_t)l->n_meta + 1) * sizeof *keys);
  if (!keys) return no_memory(r);
  for (int i = 0; i < l->n_meta; i++) keys[i] = l->meta[2 * i];
  qsort(keys, (size_t)l->n_meta, sizeof *keys, by_text);
  bool ok = true;
  for (int i = 1; i < l->n_meta; i++) ok &= strcmp(keys[i - 1], keys[i]) != 0;
  mem_free(keys);
  return ok || json_fail(&r->json, "__metadata__ has a key twice");
}

/* The length of the header; 0: not to be believed. */
static size_t header_bytes(struct source *s, struct text *why) {
  uint8_t head[LENGTH_BYTES];
  const char *path = source_path(s);
  int64_t rest = source_bytes(s) - LENGTH_BYTES;
  if (rest < 2) return text_addf(why, "%s: too short for a safetensors file", path), 0;
  if (source_read(s, 0, head, sizeof head, why)) return 0;
  uint64_t n = length_in(head);
  if (n >= 2 && n <= HEADER_MOST && n <= (uint64_t)rest) return (size_t)n;
  text_addf(why, "%s: a header of %llu bytes, in a file of %lld, of at most %d", path, (unsigned long long)n,
            (long long)source_bytes(s), HEADER_MOST);
  return 0;
}

static weft_status read_with(struct source *s, char *header, size_t n, struct listing *l, struct text *why) {
  if (source_read(s, LENGTH_BYTES, header, n, why)) return WEFT_ERR_FILE;
  int64_t start = LENGTH_BYTES + (int64_t)n;
  struct reading r = {
    .json = { source_path(s), header, header, header + n, WEFT_OK, why },
    .listing = l,
    .data_start = start,
    .data_bytes = source_bytes(s) - start,
  };
  if (header[0] != '{') json_fail(&r.json, "the header does not begin with {");
  else if (read_header(&r) && check_entries(&r)) check_meta(&r);
  text_free(&r.word);
  return r.json.status;
}

static weft_status list(struct source *s, struct listing *l, struct text *why) {
  size_t n = header_bytes(s, why);
  if (!n) return WEFT_ERR_FILE;
  char *header = mem_alloc(n);
  if (!header) return text_addf(why, "%s: out of memory while reading the header", source_path(s)), WEFT_ERR_MEMORY;
  weft_status status = read_with(s, header, n, l, why);
  mem_free(header);
  return status;
}

static const char *name_of(weft_dtype dtype) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == dtype) return dtypes[i].name;
  return NULL;
}

static weft_status refuse(struct text *why, weft_status status, const char *name, const char *what) {
  text_addf(why, "array \"%s\": %s", name, what);
  return status;
}

static weft_status check_names(int n, const char *const names[], const struct entry entries[], struct text *why) {
  const char **sorted = mem_alloc(((size_t)n + 1) * sizeof *sorted);
  if (!sorted) return text_add(why, "out of memory"), WEFT_ERR_MEMORY;
  weft_status status = WEFT_OK;
  for (int i = 0; i < n && !status; i++) {
    sorted[i] = names[i];
    if (!names[i]) status = (text_addf(why, "the name of array %d is NULL", i), WEFT_ERR_ARG);
    else if (!json_is_utf8(names[i], strlen(names[i]))) status = refuse(why, WEFT_ERR_ARG, names[i], "its name is not UTF-8");
    else if (!strcmp(names[i], "__metadata__")) status = refuse(why, WEFT_ERR_ARG, names[i], "this name is the format's own");
    else if (!name_of(entries[i].dtype)) status = refuse(why, WEFT_ERR_UNSUPPORTED, names[i], "safetensors has no such dtype");
  }
  if (!status) qsort(sorted, (size_t)n, sizeof *sorted, by_text);
  for (int i = 1; i < n && !status; i++)
    if (!strcmp(sorted[i - 1], sorted[i])) status = refuse(why, WEFT_ERR_ARG, sorted[i], "there are two of this name");
  mem_free(sorted);
  return status;
}

static weft_status check_meta_texts(const char *const meta[], struct text *why) {
  int n = 0;
  for (; meta && meta[n]; n++)
    if (!json_is_utf8(meta[n], strlen(meta[n]))) return text_add(why, "metadata that is not UTF-8"), WEFT_ERR_ARG;
  if (n % 2) return text_add(why, "metadata with a key and no value"), WEFT_ERR_ARG;
  for (int i = 0; i < n; i += 2)
    for (int k = 0; k < i; k += 2)
      if (!strcmp(meta[i], meta[k])) return text_addf(why, "metadata \"%s\" twice", meta[i]), WEFT_ERR_ARG;
  return WEFT_OK;
}

/* The data is ordered by falling element size, so that without holes every array is aligned to its element. */
static void place(int n, const struct entry entries[], int order[]) {
  int k = 0;
  for (size_t size = 16; size; size /= 2)
    for (int i = 0; i < n; i++)
      if (weft_dtype_bytes(entries[i].dtype) == size) order[k++] = i;
}

static void put_entry(struct text *t, const char *name, const struct entry *e, int64_t at) {
  json_quote(t, name);
  text_addf(t, ":{\"dtype\":\"%s\",\"shape\":[", name_of(e->dtype));
  for (int k = 0; k < e->rank; k++) text_addf(t, "%s%lld", k ? "," : "", (long long)e->dims[k]);
  text_addf(t, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + e->bytes));
}

static void put_meta(struct text *t, const char *const meta[]) {
  text_add(t, "\"__metadata__\":{");
  for (int i = 0; meta[i]; i += 2) {
    if (i) text_add(t, ",");
    json_quote(t, meta[i]);
    text_add(t, ":");
    json_quote(t, meta[i + 1]);
  }
  text_add(t, "}");
}

static void put_header(struct text *t, int n, const char *const names[], const struct entry entries[],
                       const int64_t at[], const char *const meta[]) {
  bool has_meta = meta && meta[0];
  text_bytes(t, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
  text_add(t, "{");
  if (has_meta) put_meta(t, meta);
  for (int i = 0; i < n; i++) {
    if (i || has_meta) text_add(t, ",");
    put_entry(t, names[i], &entries[i], at[i]);
  }
  text_add(t, "}");
  while (t->n % ALIGN && !t->failed) text_add(t, " ");
  for (int i = 0; i < LENGTH_BYTES && !t->failed; i++) t->s[i] = (char)((t->n - LENGTH_BYTES) >> 8 * i & 0xFF);
}

static weft_status put_text(int fd, const struct text *header, struct text *why) {
  if (header->failed) return text_add(why, "out of memory"), WEFT_ERR_MEMORY;
  if (header->n > HEADER_MOST + LENGTH_BYTES) return text_add(why, "a header of more than 100 MB"), WEFT_ERR_ARG;
  return format_put(fd, header->s, header->n, why);
}

static weft_status put_all(int fd, int n, const char *const names[], const struct entry entries[], const void *const data[],
                           const char *const meta[], int order[], int64_t at[], struct text *why) {
  int64_t end = 0;
  place(n, entries, order);
  for (int k = 0; k < n; k++) {
    at[order[k]] = end;
    end += entries[order[k]].bytes;
  }
  struct text header = { 0 };
  put_header(&header, n, names, entries, at, meta);
  weft_status status = put_text(fd, &header, why);
  text_free(&header);
  for (int k = 0; k < n && !status; k++) status = format_put(fd, data[order[k]], (size_t)entries[order[k]].bytes, why);
  return status;
}

static weft_status write_file(int fd, int n, const char *const names[], const struct entry entries[],
                              const void *const data[], const char *const meta[], struct text *why) {
  if (n && !names) return text_add(why, "safetensors needs a name for each array"), WEFT_ERR_ARG;
  weft_status status = check_names(n, names, entries, why);
  if (!status) status = check_meta_texts(meta, why);
  if (status) return status;
  int *order = mem_alloc(((size_t)n + 1) * sizeof *order);
  int64_t *at = mem_alloc(((size_t)n + 1) * sizeof *at);
  if (order && at) status = put_all(fd, n, names, entries, data, meta, order, at, why);
  else status = (text_add(why, "out of memory"), WEFT_ERR_MEMORY);
  mem_free(order);
  mem_free(at);
  return status;
}

const struct format format_safetensors = { "safetensors", ".safetensors", matches, list, write_file };
