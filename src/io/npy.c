/* npy.c -- one array behind a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * Versions 1 to 3. The dictionary has exactly these three keys; no other Python is understood, and pickles never are.
 * bfloat16, e4m3 and e5m2 are what ml_dtypes writes for them: two bytes without a meaning, 'V2', one byte, 'V1', and 'f1'. The file
 * ends with the array. */
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "io/format.h"

enum { MAGIC_BYTES = 6, HEADER_MOST = 65536, ALIGN = 64 };
static const char magic[] = "\x93NUMPY";

static const struct { const char *code; weft_dtype dtype; } dtypes[] = {
  { "b1", WEFT_BOOL }, { "u1", WEFT_U8 }, { "u2", WEFT_U16 }, { "u4", WEFT_U32 }, { "u8", WEFT_U64 }, { "i1", WEFT_I8 },
  { "i2", WEFT_I16 }, { "i4", WEFT_I32 }, { "i8", WEFT_I64 }, { "f2", WEFT_F16 }, { "f4", WEFT_F32 }, { "f8", WEFT_F64 },
  { "V2", WEFT_BF16 }, { "V1", WEFT_E4M3 }, { "f1", WEFT_E5M2 }, { "c8", WEFT_C64 }, { "c16", WEFT_C128 },
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool matches(const uint8_t *head, size_t n) { return n >= MAGIC_BYTES && !memcmp(head, magic, MAGIC_BYTES); }

struct dict {
  const char *path, *start, *at, *end;
  int64_t offset;            /* of start in the file, for messages */
  weft_status status;
  struct text *why;
};

static bool refuse(struct dict *d, weft_status status, const char *what) {
  if (d->status) return false;
  d->status = status;
  text_addf(d->why, "%s: byte %lld: %s", d->path, (long long)(d->offset + (d->at - d->start)), what);
  return false;
}

static bool bad(struct dict *d, const char *what) { return refuse(d, WEFT_ERR_FILE, what); }

static void space(struct dict *d) {
  while (d->at < d->end && (*d->at == ' ' || *d->at == '\t' || *d->at == '\n' || *d->at == '\r')) d->at++;
}

static bool accept(struct dict *d, char c) {
  space(d);
  if (d->status || d->at == d->end || *d->at != c) return false;
  d->at++;
  return true;
}

static bool accept_word(struct dict *d, const char *word) {
  size_t n = strlen(word);
  space(d);
  if ((size_t)(d->end - d->at) < n || memcmp(d->at, word, n)) return false;
  d->at += n;
  return true;
}

/* A quoted text of at most 31 plain characters: no key and no descr of ours is longer. */
static bool short_text(struct dict *d, char out[32]) {
  char quote = accept(d, '\'') ? '\'' : accept(d, '"') ? '"' : 0;
  if (!quote) return bad(d, "expected a quoted text");
  int n = 0;
  for (; d->at < d->end && *d->at != quote; d->at++) {
    if (n == 31 || *d->at < ' ' || *d->at > '~' || *d->at == '\\') return bad(d, "a text that no NPY header has");
    out[n++] = *d->at;
  }
  out[n] = 0;
  return accept(d, quote) || bad(d, "a text that does not end");
}

static bool say_descr(struct dict *d, const char *descr, const char *what) {
  if (d->status) return false;
  d->status = WEFT_ERR_UNSUPPORTED;
  text_addf(d->why, "%s: dtype '%s' %s", d->path, descr, what);
  return false;
}

static bool read_descr(struct dict *d, struct entry *e) {
  char descr[32];
  if (accept(d, '[')) return refuse(d, WEFT_ERR_UNSUPPORTED, "arrays of records are not supported");
  if (!short_text(d, descr)) return false;
  bool has_order = descr[0] && strchr("<>|=", descr[0]);
  const char *code = descr + has_order;
  if (*code == 'O') return say_descr(d, descr, "holds Python objects, which are never read");
  static const char *const names[][2] = { { "bfloat16", "V2" }, { "float8_e4m3fn", "V1" }, { "float8_e5m2", "f1" } };
  for (int i = 0; i < 3; i++) if (!strcmp(code, names[i][0])) code = names[i][1];
  for (int i = 0; i < DTYPES; i++) {
    if (strcmp(code, dtypes[i].code)) continue;
    e->dtype = dtypes[i].dtype;
    return descr[0] != '>' || weft_dtype_bytes(e->dtype) == 1 || say_descr(d, descr, "is big-endian, which is not supported");
  }
  return say_descr(d, descr, "is not supported");
}

static bool read_order(struct dict *d, bool *is_column_major) {
  *is_column_major = accept_word(d, "True");
  return *is_column_major || accept_word(d, "False") || bad(d, "expected True or False");
}

static bool read_size(struct dict *d, int64_t *out) {
  const char *first = d->at;
  for (*out = 0; d->at < d->end && *d->at >= '0' && *d->at <= '9'; d->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *d->at - '0', out))
      return bad(d, "a size beyond 2^63");
  if (d->at == first) return bad(d, "expected a size, 0 or more");
  (void)accept(d, 'L'); /* Python 2 */
  return true;
}

/* (), (3,), (2, 3), (2, 3,) */
static bool read_shape(struct dict *d, struct entry *e) {
  if (!accept(d, '(')) return bad(d, "expected a tuple, (");
  bool had_comma = true;
  for (e->rank = 0; !accept(d, ')'); e->rank++) {
    if (!had_comma) return bad(d, "expected , or )");
    if (e->rank == WEFT_RANK_MAX) return bad(d, "more than 32 axes");
    if (!read_size(d, &e->dims[e->rank])) return false;
    had_comma = accept(d, ',');
  }
  return e->rank != 1 || had_comma || bad(d, "a number in brackets is not a tuple: (3,) is");
}

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static bool read_member(struct dict *d, struct entry *e, bool *is_column_major, int *has) {
  char key[32];
  if (!short_text(d, key)) return false;
  if (!accept(d, ':')) return bad(d, "expected :");
  int bit = !strcmp(key, "descr")           ? HAS_DESCR
            : !strcmp(key, "fortran_order") ? HAS_ORDER
            : !strcmp(key, "shape")         ? HAS_SHAPE
                                            : 0;
  if (!bit) return bad(d, "a key other than descr, fortran_order and shape");
  if (*has & bit) return bad(d, "a key twice");
  *has |= bit;
  return bit == HAS_DESCR ? read_descr(d, e) : bit == HAS_ORDER ? read_order(d, is_column_major) : read_shape(d, e);
}

static bool read_dict(struct dict *d, struct entry *e, bool *is_column_major) {
  int has = 0;
  if (!accept(d, '{')) return bad(d, "expected {");
  for (bool had_comma = true; !accept(d, '}'); had_comma = accept(d, ',')) {
    if (!had_comma) return bad(d, "expected , or }");
    if (!read_member(d, e, is_column_major, &has)) return false;
  }
  if (has != HAS_ALL) return bad(d, "descr, fortran_order or shape is missing");
  space(d);
  return d->at == d->end || bad(d, "something after the dictionary");
}

/* Magic, version, and the place and length of the dictionary. */
static weft_status read_preamble(struct source *s, int64_t *start, size_t *n, struct text *why) {
  uint8_t head[12] = { 0 };
  int64_t bytes = source_bytes(s);
  if (source_read(s, 0, head, bytes < 12 ? (size_t)bytes : 12, why)) return WEFT_ERR_FILE;
  *start = head[6] == 1 ? 10 : 12;
  *n = head[6] == 1 ? (size_t)head[8] | (size_t)head[9] << 8
                    : (size_t)head[8] | (size_t)head[9] << 8 | (size_t)head[10] << 16 | (size_t)head[11] << 24;
  const char *path = source_path(s);
  if (!matches(head, sizeof head) || bytes < *start) text_addf(why, "%s: not an NPY file: it does not begin as one", path);
  else if (head[6] < 1 || head[6] > 3 || head[7]) text_addf(why, "%s: NPY version %d.%d is unknown", path, head[6], head[7]);
  else if (*n > (uint64_t)(bytes - *start))
    text_addf(why, "%s: a header of %zu bytes in a file of %lld", path, *n, (long long)bytes);
  else if (*n > HEADER_MOST) text_addf(why, "%s: a header of %zu bytes, of at most %d", path, *n, HEADER_MOST);
  else return WEFT_OK;
  return WEFT_ERR_FILE;
}

static weft_status check_data(struct source *s, const struct entry *e, struct text *why) {
  int64_t there = source_bytes(s) - e->offset;
  if (there == e->bytes) return WEFT_OK;
  text_addf(why, "%s: %lld bytes of data, and its shape and dtype need %lld", source_path(s), (long long)there,
            (long long)e->bytes);
  return WEFT_ERR_FILE;
}

static weft_status read_with(struct source *s, int64_t start, char *header, size_t n, struct entry *e, struct text *why) {
  if (source_read(s, start, header, n, why)) return WEFT_ERR_FILE;
  struct dict d = { source_path(s), header, header, header + n, start, WEFT_OK, why };
  bool is_column_major = false;
  if (!read_dict(&d, e, &is_column_major)) return d.status;
  if (!entry_measure(e, is_column_major)) return bad(&d, "its shape is too large"), d.status;
  e->offset = start + (int64_t)n;
  return check_data(s, e, why);
}

static weft_status list(struct source *s, struct listing *l, struct text *why) {
  int64_t start;
  size_t n;
  if (read_preamble(s, &start, &n, why)) return WEFT_ERR_FILE;
  struct entry *e = listing_add(l);
  char *header = mem_alloc(n);
  weft_status status = WEFT_ERR_MEMORY;
  if (!e || !header || !(e->name = mem_text(""))) text_addf(why, "%s: out of memory while reading the header", source_path(s));
  else status = read_with(s, start, header, n, e, why);
  mem_free(header);
  return status;
}

static void put_dict(struct text *t, const struct entry *e) {
  const char *code = "";
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dtype == e->dtype) code = dtypes[i].code;
  text_addf(t, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", weft_dtype_bytes(e->dtype) == 1 ? '|' : '<', code);
  for (int k = 0; k < e->rank; k++) text_addf(t, "%s%lld", k ? ", " : "", (long long)e->dims[k]);
  text_add(t, e->rank == 1 ? ",), }" : "), }");
}

static weft_status write_file(int fd, int n, const char *const names[], const struct entry entries[],
                              const void *const data[], const char *const meta[], struct text *why) {
  (void)names;
  if (n != 1) return text_addf(why, "an NPY file holds one array, not %d", n), WEFT_ERR_ARG;
  if (meta && meta[0]) return text_add(why, "an NPY file has no metadata"), WEFT_ERR_ARG;
  struct text t = { 0 };
  text_add(&t, magic);
  text_bytes(&t, "\1\0\0\0", 4);
  put_dict(&t, entries);
  while ((t.n + 1) % ALIGN && !t.failed) text_add(&t, " ");
  text_add(&t, "\n");
  weft_status status = t.failed ? WEFT_ERR_MEMORY : WEFT_OK;
  if (status) text_add(why, "out of memory");
  else {
    t.s[8] = (char)((t.n - 10) & 0xFF), t.s[9] = (char)((t.n - 10) >> 8);
    status = format_put(fd, t.s, t.n, why);
  }
  text_free(&t);
  return status ? status : format_put(fd, data[0], (size_t)entries[0].bytes, why);
}

const struct format format_npy = { "npy", ".npy", matches, list, write_file };
