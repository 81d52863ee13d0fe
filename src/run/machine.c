/* machine.c -- CPUs and memory: the kernel's figures, cut by the limits of the cgroups (version 1 or 2) above us.
 *
 * A limit may be set at any level, so each path from our group up to the root is looked at. A container often sees a
 * path that does not exist in its own view of the tree; the levels that are missing are passed over. */
#define _GNU_SOURCE
#include "run/machine.h"
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 8192 };
struct path;
typedef int64_t limit_of(struct path *folder); /* of one level; 0: none */

static bool read_text(const char *path, char out[FILE_BYTES]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, out, FILE_BYTES - 1);
  close(fd);
  out[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* A path in a room of its own: the first allocation asks for these figures, so none may be needed to find them. */
struct path { char s[4096]; size_t n; };

static void extend(struct path *p, const char *s, size_t n) {
  if (n >= sizeof p->s - p->n) n = sizeof p->s - p->n - 1; /* no such file then */
  memcpy(p->s + p->n, s, n);
  p->n += n;
  p->s[p->n] = 0;
}

static void shorten(struct path *p, size_t n) {
  p->n = n;
  p->s[n] = 0;
}

static bool read_in(struct path *folder, const char *name, char out[FILE_BYTES]) {
  size_t n = folder->n;
  extend(folder, name, strlen(name));
  bool ok = read_text(folder->s, out);
  shorten(folder, n);
  return ok;
}

/* The number s begins with; 0 if there is none ("max", "-1") or it is too large to matter. */
static int64_t number(const char *s) {
  int64_t v = 0;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (v > INT64_MAX / 100) return 0;
    v = 10 * v + (*s - '0');
  }
  return v;
}

static int64_t ratio(int64_t quota, int64_t period) {
  return quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

static int64_t cpus_of(struct path *folder) {
  char a[FILE_BYTES], b[FILE_BYTES];
  if (read_in(folder, "/cpu.max", a)) { /* version 2: "max 100000" or "150000 100000" */
    const char *period = strchr(a, ' ');
    return ratio(number(a), period ? number(period + 1) : 0);
  }
  if (!read_in(folder, "/cpu.cfs_quota_us", a) || !read_in(folder, "/cpu.cfs_period_us", b)) return 0;
  return ratio(number(a), number(b));
}

static int64_t memory_of(struct path *folder) {
  char a[FILE_BYTES];
  if (read_in(folder, "/memory.max", a)) return number(a);
  return read_in(folder, "/memory.limit_in_bytes", a) ? number(a) : 0;
}

static int64_t least(int64_t a, int64_t b) { return !a ? b : !b ? a : a < b ? a : b; }

/* The least limit from mount + group up to mount. */
static int64_t up(struct path *mount, const char *group, size_t n_group, limit_of *of) {
  size_t base = mount->n;
  extend(mount, group, n_group);
  int64_t limit = of(mount);
  while (mount->n > base) {
    size_t n = mount->n - 1;
    while (n > base && mount->s[n] != '/') n--;
    shorten(mount, n);
    limit = least(limit, of(mount));
  }
  return limit;
}

static bool has_word(const char *list, size_t n, const char *word) {
  size_t w = strlen(word);
  for (size_t i = 0; i + w <= n; i++)
    if (!memcmp(list + i, word, w) && (!i || list[i - 1] == ',') && (i + w == n || list[i + w] == ',')) return true;
  return false;
}

/* One line "id:controllers:/group" of /proc/self/cgroup. Version 2 names no controllers. */
static int64_t of_line(const char *root, const char *line, const char *controller, limit_of *of) {
  const char *names = strchr(line, ':');
  const char *group = names ? strchr(names + 1, ':') : NULL;
  if (!group) return 0;
  size_t n_names = (size_t)(group - names - 1), n_group = strcspn(group + 1, "\n");
  if (n_names && !has_word(names + 1, n_names, controller)) return 0;
  struct path mount = { .n = 0 };
  extend(&mount, root, strlen(root));
  extend(&mount, "/sys/fs/cgroup", strlen("/sys/fs/cgroup"));
  if (n_names) extend(&mount, "/", 1), extend(&mount, controller, strlen(controller));
  return up(&mount, group + 1, n_group, of);
}

static int64_t cgroup_limit(const char *root, const char *controller, limit_of *of) {
  char lines[FILE_BYTES];
  struct path p = { .n = 0 };
  extend(&p, root, strlen(root));
  if (!read_in(&p, "/proc/self/cgroup", lines)) return 0;
  int64_t limit = 0;
  for (const char *line = lines; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
    limit = least(limit, of_line(root, line, controller, of));
  return limit;
}

static int cpus_in_mask(void) {
#ifdef __linux__
  enum { CPUS = 8192 };
  unsigned long mask[CPUS / (8 * sizeof(unsigned long))] = { 0 };
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) == 0) return CPU_COUNT_S(sizeof mask, (cpu_set_t *)mask);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

int machine_cpus(const char *root) {
  int n = cpus_in_mask();
  int64_t quota = cgroup_limit(root, "cpu", cpus_of);
  if (quota && quota < n) n = (int)quota;
  return n > 0 ? n : 1;
}

int64_t machine_memory(const char *root) {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  int64_t ram = pages > 0 && page > 0 ? pages * page : INT64_C(1) << 32;
  return least(ram, cgroup_limit(root, "memory", memory_of));
}
