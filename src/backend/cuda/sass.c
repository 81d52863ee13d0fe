/* sass.c -- machine code as text, by NVIDIA's disassembler, when somebody asks to see it and it is installed: cuobjdump or
 * nvdisasm, of $PATH or of /usr/local/cuda. It reads the code from a file of a moment, and runs as a process of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "backend/cuda/driver.h"

extern char **environ;

static const char *const tools[][2] = {
  { "cuobjdump", "-sass" }, { "nvdisasm", "-c" },
  { "/usr/local/cuda/bin/cuobjdump", "-sass" }, { "/usr/local/cuda/bin/nvdisasm", "-c" },
};

static pid_t start(const char *tool, const char *option, const char *path, int to) {
  char *const args[] = { (char *)(uintptr_t)tool, (char *)(uintptr_t)option, (char *)(uintptr_t)path, NULL };
  posix_spawn_file_actions_t files;
  pid_t child = -1;
  if (posix_spawn_file_actions_init(&files)) return -1;
  bool ok = !posix_spawn_file_actions_adddup2(&files, to, 1) &&
            !posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) &&
            !posix_spawnp(&child, tool, &files, NULL, args, environ);
  posix_spawn_file_actions_destroy(&files);
  return ok ? child : -1;
}

/* What the tool writes; false: there is no such tool, or it failed. */
static bool listing(const char *tool, const char *option, const char *path, struct text *out) {
  int ends[2], status = 1;
  char piece[4096];
  size_t before = out->n;
  if (pipe2(ends, O_CLOEXEC)) return false;
  pid_t child = start(tool, option, path, ends[1]);
  close(ends[1]);
  for (ssize_t n; child > 0 && (n = read(ends[0], piece, sizeof piece)) > 0;) text_bytes(out, piece, (size_t)n);
  close(ends[0]);
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 && out->n > before;
}

static bool write_code(int fd, const void *code, size_t bytes) {
  bool ok = fd >= 0 && write(fd, code, bytes) == (ssize_t)bytes;
  if (fd >= 0) close(fd);
  return ok;
}

void cuda_show_sass(const void *code, size_t bytes, struct text *out) {
  char path[] = "/tmp/weft-sass-XXXXXX";
  int fd = mkostemp(path, O_CLOEXEC);
  bool ok = false;
  if (write_code(fd, code, bytes))
    for (size_t i = 0; i < sizeof tools / sizeof *tools && !ok; i++) ok = listing(tools[i][0], tools[i][1], path, out);
  if (fd >= 0) unlink(path);
  if (!ok) text_add(out, "// no machine code shown: neither cuobjdump nor nvdisasm was found, or they could not read it\n");
}
