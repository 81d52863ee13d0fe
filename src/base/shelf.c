/* shelf.c -- bytes kept on disk, one file an entry: see shelf.h.
 *
 * A file is a head, the key, the bytes. Its name is a hash of the key; two keys of one hash would take turns. Nothing here
 * holds a lock, and no call waits for another process. */
#include "base/shelf.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/mem.h"

static const char magic[8] = "weftkept";
enum { VERSION = 1 };
enum { MOST_ENTRY_BYTES = 64 << 20, USUAL_BYTES = 256 << 20 };
enum { WRITES_A_SWEEP = 32, STALE_SECONDS = 3600 }; /* a file that is read is marked as used once in that time */

struct shelf_head { char magic[8]; uint64_t version, key_bytes, bytes, check; };

static _Atomic int64_t bound, n_found, n_missed;
static _Atomic unsigned n_written;

void shelf_use_bound(int64_t most_bytes) { atomic_store(&bound, most_bytes); }
static int64_t most(void) { return atomic_load(&bound) ? atomic_load(&bound) : USUAL_BYTES; }

/* ---- where ---- */

static bool is_off(const char *wish) { return !strcmp(wish, "off") || !strcmp(wish, "0"); }

bool shelf_folder(struct text *t) {
  const char *wish = getenv("WEFT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool has_wish = wish && *wish;
  if (geteuid() != getuid() || (has_wish && is_off(wish))) return false; /* the environment of who asks is not to be trusted */
  if (has_wish) text_add(t, wish);
  else if (xdg && *xdg == '/') text_add(t, xdg), text_add(t, "/weft");
  else if (home && *home == '/') text_add(t, home), text_add(t, "/.cache/weft");
  return t->n && !t->failed;
}

/* The folder and those above it, as far as they are missing. */
static bool make_folder(char *path) {
  for (char *s = path + 1; *s; s++) {
    if (*s != '/') continue;
    *s = 0;
    (void)mkdir(path, 0700);
    *s = '/';
  }
  return !mkdir(path, 0700) || errno == EEXIST;
}

static void add_hex(struct text *t, uint64_t x) { text_addf(t, "%08x%08x", (unsigned)(x >> 32), (unsigned)x); }

static bool path_of(const void *key, size_t key_bytes, struct text *t) {
  if (!shelf_folder(t)) return false;
  text_add(t, "/");
  add_hex(t, hash_bytes(key, key_bytes));
  text_add(t, ".kept");
  return !t->failed;
}

/* ---- reading ---- */

static uint64_t check_of(const struct shelf_head *h, const void *key, const void *data) {
  uint64_t n = hash_mix(hash_mix(h->version, h->key_bytes), h->bytes);
  return hash_mix(hash_mix(n, hash_bytes(key, h->key_bytes)), hash_bytes(data, h->bytes));
}

static bool read_all(int fd, void *to, size_t n) {
  for (char *at = to; n;) {
    ssize_t k = read(fd, at, n);
    if (k <= 0) return false;
    at += k, n -= (size_t)k;
  }
  return true;
}

static bool is_ours(const struct stat *s) {
  return S_ISREG(s->st_mode) && s->st_uid == geteuid() && !(s->st_mode & (S_IWGRP | S_IWOTH));
}

/* The head says what the file's size says. */
static bool fits(const struct shelf_head *h, const struct stat *s, size_t key_bytes) {
  return !memcmp(h->magic, magic, sizeof magic) && h->version == VERSION && h->key_bytes == key_bytes &&
         h->bytes <= MOST_ENTRY_BYTES && s->st_size >= 0 && (uint64_t)s->st_size == sizeof *h + h->key_bytes + h->bytes;
}

static void mark_used(int fd, const struct stat *s) {
  if (time(NULL) - s->st_mtime > STALE_SECONDS) (void)futimens(fd, NULL);
}

static void *take(int fd, const void *key, size_t key_bytes, size_t *bytes) {
  struct shelf_head h;
  struct stat s;
  if (fstat(fd, &s) || !is_ours(&s) || !read_all(fd, &h, sizeof h) || !fits(&h, &s, key_bytes)) return NULL;
  char *all = mem_room(h.key_bytes + h.bytes + 1);
  bool ok = all && read_all(fd, all, h.key_bytes + h.bytes) && !memcmp(all, key, key_bytes) &&
            h.check == check_of(&h, key, all + key_bytes);
  if (!ok) return mem_free(all), NULL;
  memmove(all, all + key_bytes, h.bytes);
  mark_used(fd, &s);
  *bytes = h.bytes;
  return all;
}

bool shelf_get(const void *key, size_t key_bytes, void **data, size_t *bytes) {
  struct text path = { 0 };
  bool is_there = path_of(key, key_bytes, &path);
  int fd = is_there ? open(path.s, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
  *data = fd >= 0 ? take(fd, key, key_bytes, bytes) : NULL;
  if (fd >= 0) close(fd);
  text_free(&path);
  if (is_there) atomic_fetch_add(*data ? &n_found : &n_missed, 1);
  return *data != NULL;
}

/* ---- how much there is ---- */

struct shelved { char name[64]; int64_t used, bytes; };
struct shelf_sweep { struct shelved *entry; int n, room; int64_t bytes; };

static bool ends_in(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

static void note(struct shelf_sweep *w, const char *name, const struct stat *s) {
  if (w->n == w->room) {
    int room = w->room ? 2 * w->room : 64;
    struct shelved *more = mem_resize(w->entry, (size_t)room * sizeof *more);
    if (!more) return;
    w->entry = more, w->room = room;
  }
  struct shelved *e = &w->entry[w->n++];
  *e = (struct shelved){ .used = (int64_t)s->st_mtime, .bytes = (int64_t)s->st_size };
  strcpy(e->name, name);
  w->bytes += e->bytes;
}

/* Files that a process left half-written go, once they are old. */
static struct shelf_sweep look_around(int folder) {
  struct shelf_sweep w = { 0 };
  struct stat s;
  int own = dup(folder);
  DIR *d = own >= 0 ? fdopendir(own) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    bool is_kept = ends_in(e->d_name, ".kept"), is_new = ends_in(e->d_name, ".new");
    if ((!is_kept && !is_new) || strlen(e->d_name) >= sizeof w.entry->name || fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW))
      continue;
    if (is_kept) note(&w, e->d_name, &s);
    else if (time(NULL) - s.st_mtime > STALE_SECONDS) (void)unlinkat(folder, e->d_name, 0);
  }
  if (d) closedir(d);
  else if (own >= 0) close(own);
  return w;
}

static int by_age(const void *a, const void *b) {
  int64_t x = ((const struct shelved *)a)->used, y = ((const struct shelved *)b)->used;
  return (x > y) - (x < y);
}

/* Beyond the bound those go that were not used for longest, until a quarter is free. */
static void sweep_up(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  struct shelf_sweep w = look_around(folder);
  if (w.bytes > most()) {
    qsort(w.entry, (size_t)w.n, sizeof *w.entry, by_age);
    for (int i = 0; i < w.n && w.bytes > most() / 4 * 3; i++)
      if (!unlinkat(folder, w.entry[i].name, 0)) w.bytes -= w.entry[i].bytes;
  }
  mem_free(w.entry);
  close(folder);
}

struct shelf_figures shelf_figures(void) {
  struct shelf_figures f = { .most_bytes = most(), .found = atomic_load(&n_found), .missed = atomic_load(&n_missed) };
  struct text path = { 0 };
  int folder = shelf_folder(&path) ? open(path.s, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (folder >= 0) {
    struct shelf_sweep w = look_around(folder);
    f.entries = w.n, f.bytes = w.bytes;
    mem_free(w.entry);
    close(folder);
  }
  text_free(&path);
  return f;
}

/* ---- writing ---- */

static bool write_all(int fd, const void *from, size_t n) {
  for (const char *at = from; n;) {
    ssize_t k = write(fd, at, n);
    if (k <= 0) return false;
    at += k, n -= (size_t)k;
  }
  return true;
}

static bool write_file(const char *path, const struct shelf_head *h, const void *key, const void *data) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  bool ok = write_all(fd, h, sizeof *h) && write_all(fd, key, h->key_bytes) && write_all(fd, data, h->bytes);
  return !close(fd) && ok;
}

void shelf_put(const void *key, size_t key_bytes, const void *data, size_t bytes) {
  struct text folder = { 0 }, path = { 0 }, aside = { 0 };
  struct shelf_head h = { .version = VERSION, .key_bytes = key_bytes, .bytes = bytes };
  unsigned number = atomic_fetch_add(&n_written, 1);
  memcpy(h.magic, magic, sizeof magic);
  h.check = check_of(&h, key, data);
  if (bytes <= MOST_ENTRY_BYTES && path_of(key, key_bytes, &path) && shelf_folder(&folder) && make_folder(folder.s)) {
    text_addf(&aside, "%s/%ld-%u.new", folder.s, (long)getpid(), number);
    if (!aside.failed && (!write_file(aside.s, &h, key, data) || rename(aside.s, path.s))) (void)unlink(aside.s);
    if (number % WRITES_A_SWEEP == 0) sweep_up(folder.s);
  }
  text_free(&folder);
  text_free(&path);
  text_free(&aside);
}
