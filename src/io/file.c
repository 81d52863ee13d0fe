/* file.c -- files of named arrays: opened without reading, read when somebody needs them. */
#include <string.h>
#include "base/mem.h"
#include "base/spare.h"
#include "base/text.h"
#include "graph/scope.h"
#include "io/format.h"
#include "op/op.h"
#include "run/eval.h"
#include "run/memory.h"

struct weft_file {
  struct weft_file *next;       /* of the same scope */
  struct source *source;        /* NULL: it cannot be read */
  struct listing listing;
  struct failure *failure;
};

static struct spare spares; /* one that has ended has neither source nor failure */

void files_end(struct weft_file *f) {
  for (struct weft_file *next; f; f = next) {
    next = f->next;
    listing_free(&f->listing);
    source_release(f->source);
    failure_release(f->failure);
    spare_give(&spares, f, sizeof *f);
  }
}

static struct weft_file no_memory_file; /* belongs to nobody; its failure is NULL: see failed */

static struct failure *failed(const struct weft_file *f, const char *fn) {
  if (!f) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the file is NULL", fn);
  if (f == &no_memory_file) return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
  if (!f->failure && !f->source)
    return fail(WEFT_ERR_SCOPE, scope_origin(), "%s: the file is used after the end of its scope", fn);
  return f->failure ? failure_retain(f->failure) : NULL;
}

weft_file *weft_file_open(const char *path) {
  struct weft_scope *s = scope_current();
  struct weft_file *f = s ? spare_take(&spares, sizeof *f) : NULL;
  struct text why = { 0 };
  if (!f) return &no_memory_file;
  weft_status status = path ? format_open(path, &f->source, &f->listing, &why) : WEFT_ERR_ARG;
  if (status) f->failure = fail(status, scope_origin(), "weft_file_open: %s", path ? text_of(&why) : "the path is NULL");
  text_free(&why);
  f->next = s->files;
  return s->files = f;
}

int weft_file_count(weft_file *f) {
  struct failure *why = failed(f, "weft_file_count");
  return why ? failure_tell(why), -1 : f->listing.n;
}

const char *weft_file_name(weft_file *f, int i) {
  struct failure *why = failed(f, "weft_file_name");
  if (why) return failure_tell(why), NULL;
  return i >= 0 && i < f->listing.n ? f->listing.entry[i].name : NULL;
}

int weft_file_meta(weft_file *f, int i, const char **key, const char **value) {
  struct failure *why = failed(f, "weft_file_meta");
  if (why) return failure_tell(why), 0;
  if (i < 0 || i >= f->listing.n_meta) return 0;
  if (key) *key = f->listing.meta[2 * i];
  if (value) *value = f->listing.meta[2 * i + 1];
  return 1;
}

static const struct entry *find(const struct weft_file *f, const char *name) {
  if (!name) return f->listing.n ? &f->listing.entry[0] : NULL;
  for (int i = 0; i < f->listing.n; i++)
    if (!strcmp(f->listing.entry[i].name, name)) return &f->listing.entry[i];
  return NULL;
}

static size_t alignment(weft_dtype t) {
  size_t n = weft_dtype_bytes(t);
  return n > 8 ? 8 : n;
}

weft_array *weft_file_get(weft_file *f, const char *name) {
  struct failure *why = failed(f, "weft_file_get");
  if (why) return array_failed(why);
  const struct entry *e = find(f, name);
  if (!e) return array_bad(WEFT_ERR_ARG, "weft_file_get: there is no array \"%s\" in %s", name ? name : "", source_path(f->source));
  struct buffer *b = e->dtype == WEFT_BOOL ? buffer_of_bools(f->source, e->offset, (size_t)e->bytes)
                                           : buffer_from_source(f->source, e->offset, (size_t)e->bytes, alignment(e->dtype));
  return array_of(b ? value_node(e->dtype, e->rank, e->dims, b, 0, e->strides) : NULL);
}

/* ---- saving ---- */

static struct failure *dense_copy(struct node *n, struct entry *e, void **data) {
  struct failure *f = NULL;
  *e = (struct entry){ .dtype = (weft_dtype)n->dtype, .rank = n->rank };
  int64_t count = 1;
  for (int k = n->rank - 1; k >= 0; k--) {
    e->dims[k] = n->dims[k];
    e->strides[k] = count;
    count *= n->dims[k];
  }
  e->bytes = count * (int64_t)weft_dtype_bytes(e->dtype);
  if (!(*data = memory_take((size_t)e->bytes + 1))) return fail(WEFT_ERR_MEMORY, 0, "weft_save: out of memory");
  value_copy(n, *data, &f);
  return f;
}

static struct failure *save(const char *path, int n, const char *const names[], struct node *const node[],
                            const char *const meta[]) {
  struct entry *e = mem_alloc(sizeof *e * (size_t)(n + 1));
  void **data = mem_alloc(sizeof *data * (size_t)(n + 1));
  struct failure *f = e && data ? NULL : fail(WEFT_ERR_MEMORY, 0, "weft_save: out of memory");
  for (int i = 0; !f && i < n; i++) f = dense_copy(node[i], &e[i], &data[i]);
  if (!f) {
    struct text why = { 0 };
    weft_status status = format_save(path, n, names, e, (const void *const *)data, meta, &why);
    if (status) f = fail(status, 0, "weft_save: %s", text_of(&why));
    text_free(&why);
  }
  for (int i = 0; data && i < n; i++) if (data[i]) memory_give(data[i], (size_t)e[i].bytes + 1);
  mem_free(e);
  mem_free(data);
  return f;
}

weft_status weft_save(const char *path, int n, const char *const names[], weft_array *const a[], const char *const meta[]) {
  if (!path) return report(WEFT_ERR_ARG, "weft_save: the path is NULL");
  if (n < 0 || (n && !a)) return report(WEFT_ERR_ARG, "weft_save: no arrays");
  struct node **node = mem_alloc(sizeof *node * (size_t)(n + 1));
  struct failure *f = NULL;
  weft_array *bad;
  if (!node) return report(WEFT_ERR_MEMORY, "weft_save: out of memory");
  if (!arrays_nodes("weft_save", n, a, node, &bad)) f = array_failure("weft_save", 0, bad);
  else {
    if (eval_nodes(n, node, &(struct eval_options){ .fn = "weft_save" }, &f) == WEFT_OK) f = save(path, n, names, node, meta);
    nodes_release(n, node);
  }
  mem_free(node);
  weft_status status = failure_tell(f);
  buffer_callbacks();
  return status;
}
