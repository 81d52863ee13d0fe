/* format.c -- opening by content, saving by name: all of a file is written, or the file that was there stays. */
#define _GNU_SOURCE
#include "io/format.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"

const struct format *const formats[] = { &format_safetensors, &format_npy, NULL };

/* Room for one more of n things of the given size; doubles at powers of 2. */
static void *grow(void *old, int n, size_t size) {
  return n & (n - 1) ? old : mem_resize(old, (n ? 2 * (size_t)n : 1) * size);
}

struct entry *listing_add(struct listing *l) {
  struct entry *all = grow(l->entry, l->n, sizeof *all);
  if (!all) return NULL;
  l->entry = all;
  memset(&all[l->n], 0, sizeof *all);
  return &all[l->n++];
}

bool listing_add_meta(struct listing *l, const char *key, const char *value) {
  char **all = grow(l->meta, l->n_meta, 2 * sizeof *all);
  if (!all) return false;
  l->meta = all;
  char *k = mem_text(key), *v = mem_text(value);
  if (!k || !v) return mem_free(k), mem_free(v), false;
  all[2 * l->n_meta] = k;
  all[2 * l->n_meta++ + 1] = v;
  return true;
}

void listing_free(struct listing *l) {
  for (int i = 0; i < l->n; i++) mem_free(l->entry[i].name);
  for (int i = 0; i < 2 * l->n_meta; i++) mem_free(l->meta[i]);
  mem_free(l->entry);
  mem_free(l->meta);
  *l = (struct listing){ 0 };
}

bool entry_measure(struct entry *e, bool is_column_major) {
  int64_t stride = 1, bytes, size = (int64_t)weft_dtype_bytes(e->dtype);
  bool is_empty = false;
  for (int k = 0; k < e->rank; k++) {
    int axis = is_column_major ? k : e->rank - 1 - k;
    e->strides[axis] = stride;
    is_empty |= e->dims[axis] == 0;
    if (__builtin_mul_overflow(stride, e->dims[axis] ? e->dims[axis] : 1, &stride)) return false;
  }
  if (__builtin_mul_overflow(stride, size, &bytes)) return false;
  e->bytes = is_empty ? 0 : bytes;
  return true;
}

enum { HEAD = 64 };

static bool ends_with(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && !memcmp(s + n - m, suffix, m);
}

static const struct format *by_name(const char *path) {
  for (int i = 0; formats[i]; i++)
    if (ends_with(path, formats[i]->suffix)) return formats[i];
  return NULL;
}

/* What a file that is none of ours looks like. */
static const char *guess(const uint8_t *head, size_t n) {
  static const struct { const char *magic, *what; } rows[] = {
    { "PK\003\004", "a zip archive (NPZ, PyTorch)" }, { "GGUF", "GGUF" }, { "\x89HDF\r\n", "HDF5" },
    { "\x80\002", "a Python pickle, which is never read" }, { "\x80\003", "a Python pickle, which is never read" },
    { "\x80\004", "a Python pickle, which is never read" },
    { "version https://git-lfs", "a Git LFS pointer, not the file itself" },
  };
  if (!n) return "empty";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (n >= strlen(rows[i].magic) && !memcmp(head, rows[i].magic, strlen(rows[i].magic))) return rows[i].what;
  return "something else";
}

/* By content; a file that says nothing by its content but has a known name is left to that format to explain. */
static const struct format *recognise(struct source *s, struct text *why, weft_status *status) {
  uint8_t head[HEAD];
  size_t n = source_bytes(s) < HEAD ? (size_t)source_bytes(s) : HEAD;
  *status = source_read(s, 0, head, n, why);
  if (*status) return NULL;
  for (int i = 0; formats[i]; i++)
    if (formats[i]->matches(head, n)) return formats[i];
  const struct format *f = by_name(source_path(s));
  if (f) return f;
  *status = WEFT_ERR_FILE;
  text_addf(why, "%s: neither a safetensors nor an NPY file: it looks like %s", source_path(s), guess(head, n));
  return NULL;
}

weft_status format_open(const char *path, struct source **out, struct listing *l, struct text *why) {
  weft_status status;
  *l = (struct listing){ 0 };
  *out = NULL;
  struct source *s = source_open(path, why);
  if (!s) return errno == ENOMEM ? WEFT_ERR_MEMORY : WEFT_ERR_FILE;
  const struct format *f = recognise(s, why, &status);
  if (f) status = f->list(s, l, why);
  if (status == WEFT_OK) return *out = s, WEFT_OK;
  listing_free(l);
  source_release(s);
  return status;
}

static weft_status say_errno(struct text *why, const char *what, int error) {
  char room[128];
  text_addf(why, "%s: %s", what, strerror_r(error, room, sizeof room));
  return WEFT_ERR_FILE;
}

weft_status format_put(int fd, const void *data, size_t bytes, struct text *why) {
  enum { MOST = 1 << 30 };
  const char *p = data;
  while (bytes) {
    ssize_t n = write(fd, p, bytes < MOST ? bytes : MOST);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return say_errno(why, "cannot write it", errno);
    p += n;
    bytes -= (size_t)n;
  }
  return WEFT_OK;
}

/* A new file beside the target, named after it, with the rights a new file has. */
static int create_beside(const char *target, struct text *name) {
  static atomic_uint n;
  for (int tries = 0; tries < 100; tries++) {
    text_clear(name);
    text_addf(name, "%s.weft-%ld-%u", target, (long)getpid(), atomic_fetch_add(&n, 1));
    if (name->failed) return errno = ENOMEM, -1;
    int fd = open(name->s, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* The name is durable once the folder is; a file system that cannot do that has done what it can. */
static void sync_folder(const char *target) {
  char folder[PATH_MAX];
  const char *slash = strrchr(target, '/');
  size_t n = slash ? (size_t)(slash - target) + 1 : 0;
  if (n >= sizeof folder) return;
  memcpy(folder, target, n);
  memcpy(folder + n, ".", 2);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

struct content {
  int n;
  const char *const *names;
  const struct entry *entries;
  const void *const *data;
  const char *const *meta;
};

/* Writes, syncs and closes fd. */
static weft_status fill(int fd, const struct format *f, const struct content *c, struct text *why) {
  weft_status status = f->write(fd, c->n, c->names, c->entries, c->data, c->meta, why);
  if (status == WEFT_OK && fsync(fd)) status = say_errno(why, "cannot sync it", errno);
  if (close(fd) && status == WEFT_OK) status = say_errno(why, "cannot close it", errno);
  return status;
}

static weft_status replace(const char *target, const struct stat *old, const struct format *f, const struct content *c,
                           struct text *why) {
  struct text name = { 0 };
  int fd = create_beside(target, &name);
  if (fd < 0) {
    int error = errno;
    text_free(&name);
    if (error != ENOMEM) return say_errno(why, "cannot make a file beside it", error);
    return text_add(why, "out of memory"), WEFT_ERR_MEMORY;
  }
  if (old) (void)!fchmod(fd, old->st_mode & 07777);
  weft_status status = fill(fd, f, c, why);
  if (status == WEFT_OK && rename(name.s, target)) status = say_errno(why, "cannot put the new file in its place", errno);
  if (status == WEFT_OK) sync_folder(target);
  else unlink(name.s);
  text_free(&name);
  return status;
}

static weft_status save(const char *path, const struct content *c, struct text *why) {
  const struct format *f = by_name(path);
  if (!f) return text_add(why, "the name must end in .safetensors or .npy, which says how to write it"), WEFT_ERR_ARG;
  char target[PATH_MAX]; /* through links: the file they lead to is replaced, not the link */
  struct stat st;
  bool exists = realpath(path, target) && !stat(target, &st);
  if (exists && !S_ISREG(st.st_mode)) return text_add(why, "not a regular file"), WEFT_ERR_FILE;
  return replace(exists ? target : path, exists ? &st : NULL, f, c, why);
}

weft_status format_save(const char *path, int n, const char *const names[], const struct entry entries[],
                        const void *const data[], const char *const meta[], struct text *why) {
  struct text what = { 0 };
  weft_status status = save(path, &(struct content){ n, names, entries, data, meta }, &what);
  if (status) text_addf(why, "%s: %s", path, text_of(&what));
  text_free(&what);
  return status;
}
