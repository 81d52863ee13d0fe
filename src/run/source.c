/* source.c -- a file being read: mapped, or read with pread.
 *
 * The mapping is private and writable, so that who writes to a pinned array changes his copy and neither the file nor
 * himself. Headers and unaligned data are read with pread, which cannot fault. A file that is replaced by renaming stays
 * what it was, as the descriptor and the mapping hold it; one that is cut in place is an error (run/guard.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "run/source.h"
#include "run/guard.h"

struct source {
  atomic_int refs, cut;
  int fd, guard;
  int64_t bytes;
  struct timespec changed;
  uint8_t *map;
  char path[];
};

static void say_errno(struct text *why, const char *path, const char *what, int error) {
  char room[128];
  const char *reason = strerror_r(error, room, sizeof room);
  text_addf(why, "%s: %s: %s", path, what, reason);
}

static bool wants_pread(void) {
  const char *how = getenv("WEFT_READ");
  return how && !strcmp(how, "pread");
}

/* Without a mapping, or where the mapping cannot be guarded, arrays are read with pread. */
static void map(struct source *s) {
  if (!s->bytes || wants_pread() || (uint64_t)s->bytes > SIZE_MAX || mem_should_fail()) return;
  void *p = mmap(NULL, (size_t)s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, s->fd, 0);
  if (p == MAP_FAILED) return;
  s->guard = guard_add(p, (size_t)s->bytes, &s->cut);
  if (s->guard >= 0) s->map = p;
  else munmap(p, (size_t)s->bytes);
}

static int open_file(const char *path, struct stat *st, struct text *why) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait for its writer */
  if (fd < 0) return say_errno(why, path, "cannot open it", errno), -1;
  if (fstat(fd, st)) say_errno(why, path, "cannot look at it", errno);
  else if (!S_ISREG(st->st_mode)) text_addf(why, "%s: not a regular file", path);
  else return fd;
  close(fd);
  return -1;
}

struct source *source_open(const char *path, struct text *why) {
  struct stat st;
  errno = 0;
  int fd = open_file(path, &st, why);
  if (fd < 0) return NULL;
  struct source *s = mem_alloc(sizeof *s + strlen(path) + 1);
  if (!s) {
    text_addf(why, "%s: out of memory", path);
    close(fd);
    errno = ENOMEM;
    return NULL;
  }
  atomic_init(&s->refs, 1);
  s->fd = fd;
  s->guard = -1;
  s->bytes = st.st_size;
  s->changed = st.st_mtim;
  memcpy(s->path, path, strlen(path) + 1);
  map(s);
  return s;
}

struct source *source_retain(struct source *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void source_release(struct source *s) {
  if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
  if (s->map) {
    guard_remove(s->guard);
    munmap(s->map, (size_t)s->bytes);
  }
  close(s->fd);
  mem_free(s);
}

const char *source_path(struct source *s) { return s->path; }
int64_t source_bytes(struct source *s) { return s->bytes; }
uint8_t *source_map(struct source *s) { return s->map; }

bool source_was_cut(struct source *s) { return atomic_load(&s->cut); }

bool source_is_cut(struct source *s) {
  struct stat st;
  if (atomic_load(&s->cut)) return true;
  if (fstat(s->fd, &st) || st.st_size >= s->bytes) return false;
  atomic_store(&s->cut, 1);
  return true;
}

bool source_is_changed(struct source *s) {
  struct stat st;
  if (source_is_cut(s) || fstat(s->fd, &st)) return true;
  return st.st_size != s->bytes || st.st_mtim.tv_sec != s->changed.tv_sec || st.st_mtim.tv_nsec != s->changed.tv_nsec;
}

static bool lies_inside(struct source *s, int64_t offset, size_t bytes) {
  return offset >= 0 && offset <= s->bytes && bytes <= (uint64_t)(s->bytes - offset);
}

static weft_status say_cut(struct source *s, int64_t end, struct text *why) {
  atomic_store(&s->cut, 1);
  text_addf(why, "%s: the file was cut: it ends at %lld, and had %lld bytes when it was opened", s->path, (long long)end,
            (long long)s->bytes);
  return WEFT_ERR_FILE;
}

weft_status source_read(struct source *s, int64_t offset, void *dst, size_t bytes, struct text *why) {
  if (!lies_inside(s, offset, bytes)) {
    text_addf(why, "%s: %zu bytes at %lld lie beyond its end at %lld", s->path, bytes, (long long)offset,
              (long long)s->bytes);
    return WEFT_ERR_FILE;
  }
  enum { MOST = 1 << 30 }; /* a call reads less than 2 GiB */
  for (size_t done = 0; done < bytes;) {
    size_t want = bytes - done < MOST ? bytes - done : MOST;
    ssize_t n = pread(s->fd, (char *)dst + done, want, offset + (int64_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return say_errno(why, s->path, "cannot read it", errno), WEFT_ERR_FILE;
    if (n == 0) return say_cut(s, offset + (int64_t)done, why);
    done += (size_t)n;
  }
  struct stat st; /* a read that meets a cut may be given zeros; the size changes before the contents do */
  return !fstat(s->fd, &st) && st.st_size < s->bytes ? say_cut(s, st.st_size, why) : WEFT_OK;
}
