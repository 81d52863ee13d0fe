/* shelf.c -- what is kept on disk between processes: files that are whole, ours and of this key, and nothing else; and kernels
 * for the GPU that are found there. The tests of kernels need the driver that counts, which make emulated has. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>
#include "backend/backend.h"
#include "base/mem.h"
#include "base/shelf.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"

static char folder[] = "/tmp/weft-shelf-XXXXXX";

static void enter_folder(void) {
  EXPECT(mkdtemp(folder) != NULL);
  setenv("WEFT_CACHE", folder, 1);
}

typedef void of_file(const char *path);
static int for_files(of_file *f) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[400];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (f) f(path);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void drop_file(const char *path) { EXPECT_INT(unlink(path), 0); }
static void leave_folder(void) {
  for_files(drop_file);
  EXPECT_INT(rmdir(folder), 0);
}

static void put(const char *key, const char *data) { shelf_put(key, strlen(key), data, strlen(data)); }
static bool has(const char *key, const char *want) {
  void *data = NULL;
  size_t bytes = 0;
  bool ok = shelf_get(key, strlen(key), &data, &bytes);
  if (ok) EXPECT(bytes == strlen(want) && !memcmp(data, want, bytes));
  mem_free(data);
  return ok;
}

TEST(shelf_gives_back_what_was_put_there) {
  enter_folder();
  EXPECT(!has("a key", ""));
  put("a key", "some bytes");
  put("another", "");
  EXPECT(has("a key", "some bytes"));
  EXPECT(has("another", ""));
  EXPECT(!has("a kez", "") && !has("a ke", "") && !has("", ""));
  put("a key", "others");
  EXPECT(has("a key", "others"));
  EXPECT_INT(for_files(NULL), 2);
  EXPECT_INT(shelf_figures().entries, 2);
  leave_folder();
}

/* ---- files that are not to be trusted ---- */

static long at_byte;
static void cut(const char *path) { EXPECT_INT(truncate(path, at_byte), 0); }
static void flip(const char *path) {
  int fd = open(path, O_RDWR);
  char c = 0;
  EXPECT(pread(fd, &c, 1, at_byte) == 1);
  c = (char)(c ^ 0x10);
  EXPECT(pwrite(fd, &c, 1, at_byte) == 1);
  close(fd);
}
static void lengthen(const char *path) {
  int fd = open(path, O_WRONLY | O_APPEND);
  EXPECT(write(fd, "x", 1) == 1);
  close(fd);
}
static void open_to_all(const char *path) { EXPECT_INT(chmod(path, 0666), 0); }
static void be_a_link(const char *path) {
  char to[500];
  snprintf(to, sizeof to, "%s.elsewhere", path);
  EXPECT_INT(rename(path, to), 0);
  EXPECT_INT(symlink(to, path), 0);
}

TEST(shelf_ignores_files_that_are_cut_or_damaged_and_writes_them_anew) {
  enter_folder();
  put("key", "bytes");
  struct { char path[400]; long bytes; } file = { .bytes = 40 + 3 + 5 };
  for (at_byte = 0; at_byte < file.bytes; at_byte++) {
    for_files(flip);
    EXPECT(!has("key", "bytes"));
    for_files(flip);
    EXPECT(has("key", "bytes"));
    for_files(cut);
    EXPECT(!has("key", "bytes"));
    put("key", "bytes");
    EXPECT(has("key", "bytes"));
  }
  for_files(lengthen);
  EXPECT(!has("key", "bytes"));
  leave_folder();
}

TEST(shelf_ignores_files_that_others_could_have_written) {
  enter_folder();
  put("key", "bytes");
  for_files(open_to_all);
  EXPECT(!has("key", "bytes"));
  put("key", "bytes");
  EXPECT(has("key", "bytes"));
  for_files(be_a_link);
  EXPECT(!has("key", "bytes"));
  put("key", "bytes"); /* the link is replaced, what it pointed to is left alone */
  EXPECT(has("key", "bytes"));
  leave_folder();
}

TEST(shelf_that_cannot_be_written_or_is_off_keeps_nothing_and_says_nothing) {
  const char *none[] = { "off", "0", "/proc/weft", "/dev/null/weft", "/dev/null" };
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    setenv("WEFT_CACHE", none[i], 1);
    put("key", "bytes");
    EXPECT(!has("key", "bytes"));
    EXPECT_INT(shelf_figures().entries, 0);
  }
}

TEST(shelf_follows_the_usual_folders) {
  struct text t = { 0 };
  unsetenv("WEFT_CACHE");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT(shelf_folder(&t));
  EXPECT_TEXT(text_of(&t), "/x/weft");
  text_clear(&t);
  setenv("XDG_CACHE_HOME", "not absolute", 1);
  setenv("HOME", "/h", 1);
  EXPECT(shelf_folder(&t));
  EXPECT_TEXT(text_of(&t), "/h/.cache/weft");
  text_clear(&t);
  unsetenv("HOME");
  EXPECT(!shelf_folder(&t));
  text_free(&t);
}

TEST(shelf_stays_below_its_bound) {
  char key[20], bytes[1000];
  enter_folder();
  memset(bytes, 'x', sizeof bytes - 1);
  bytes[sizeof bytes - 1] = 0;
  shelf_use_bound(10000);
  for (int i = 0; i < 100; i++) {
    snprintf(key, sizeof key, "%d", i);
    put(key, bytes);
  }
  EXPECT(shelf_figures().bytes < 45000); /* it is looked at every 32 writes */
  EXPECT(shelf_figures().entries > 0);
  shelf_use_bound(0);
  leave_folder();
}

TEST(shelf_serves_processes_at_the_same_time) {
  pid_t child[4];
  enter_folder();
  for (int c = 0; c < 4; c++)
    if (!(child[c] = fork())) {
      bool ok = true;
      for (int i = 0; i < 300; i++) {
        char key[20], want[40];
        void *data = NULL;
        size_t bytes = 0;
        snprintf(key, sizeof key, "%d", i % 7);
        snprintf(want, sizeof want, "the bytes of %s", key);
        put(key, want);
        if (shelf_get(key, strlen(key), &data, &bytes)) ok = ok && bytes == strlen(want) && !memcmp(data, want, bytes);
        else ok = false;
        mem_free(data);
      }
      _exit(!ok);
    }
  for (int c = 0; c < 4; c++) {
    int status = 1;
    EXPECT(waitpid(child[c], &status, 0) == child[c]);
    EXPECT_INT(status, 0);
  }
  EXPECT_INT(for_files(NULL), 7);
  leave_folder();
}

/* ---- kernels ---- */

/* How many texts the driver has compiled, or NULL: it does not count. */
static int (*counter(void))(void) {
  void *lib = cuda_device(0) ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL, *f = lib ? dlsym(lib, "test_driver_links") : NULL;
  int (*count)(void) = NULL;
  if (f) memcpy(&count, &f, sizeof f);
  else test_skip("there is no driver that counts");
  return count;
}

static weft_array *numbers(int64_t n) {
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = 0.1f * (float)i - 2;
  return weft_from(WEFT_F32, 1, &n, x);
}

static float first_of(weft_array *y) {
  float got = -1;
  EXPECT_OK(weft_read(weft_slice(y, 0, 0, 1, 1), WEFT_F32, &got, sizeof got));
  return got;
}

/* As a new process would: nothing is known but what is on disk. */
static float run_as_new(void) {
  plan_drop_all();
  compiled_drop_all();
  weft_scope *s = weft_scope_open();
  float got = first_of(weft_add(weft_mul(numbers(40), weft_scalar(3)), weft_scalar(1)));
  weft_scope_discard(s);
  return got;
}

static void make_nothing(const char *path) { EXPECT_INT(truncate(path, 0), 0); }

TEST(cuda_kernels_are_found_on_disk_by_the_next_process) {
  int (*count)(void) = counter();
  if (!count) return;
  enter_folder();
  weft_set(WEFT_DEVICE, 1);
  float want = run_as_new();
  int compiled = count();
  EXPECT(compiled > 0);
  EXPECT_INT(for_files(NULL), compiled);
  EXPECT(run_as_new() == want);
  EXPECT_INT(count(), compiled);
  for_files(make_nothing);
  EXPECT(run_as_new() == want);
  EXPECT_INT(count(), 2 * compiled);
  EXPECT(run_as_new() == want);
  EXPECT_INT(count(), 2 * compiled);
  setenv("WEFT_CACHE", "off", 1);
  EXPECT(run_as_new() == want);
  EXPECT_INT(count(), 3 * compiled);
  leave_folder();
}

TEST(cuda_kernel_that_several_steps_want_is_compiled_once) {
  int (*count)(void) = counter();
  if (!count) return;
  weft_set(WEFT_DEVICE, 1);
  weft_scope *s = weft_scope_open();
  weft_array *y[16];
  for (int i = 0; i < 16; i++) { /* sums that need a kernel each, all of one text, among four others */
    weft_array *x = numbers(20 + i);
    y[i] = weft_sum(i % 4 ? x : i == 4 ? weft_exp(x) : i == 8 ? weft_tanh(x) : i == 12 ? weft_neg(x) : weft_sqrt(weft_abs(x)), 0);
  }
  int before = count();
  int64_t kernels = weft_get(WEFT_KERNELS);
  EXPECT_OK(weft_eval(16, y));
  EXPECT_INT(count() - before, weft_get(WEFT_KERNELS) - kernels);
  EXPECT(weft_get(WEFT_KERNELS) - kernels <= 8);
  weft_scope_discard(s);
}

TEST(cuda_ptx_that_the_driver_refuses_is_an_error_with_its_line_and_the_next_program_runs) {
  if (!counter()) return;
  weft_set(WEFT_DEVICE, 1);
  weft_scope *s = weft_scope_open();
  setenv("WEFT_TEST_DRIVER_REFUSES", "sqrt.rn.f32 ", 1);
  weft_origin(77);
  weft_array *y = weft_sqrt(numbers(10)), *z;
  weft_origin(78);
  z = weft_neg(numbers(10));
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
  const char *m = weft_message();
  EXPECT_INT(weft_blame(), 77); /* the user's line */
  weft_origin(0);
  EXPECT(strstr(m, "Not an instruction here") != NULL);
  EXPECT(strstr(m, " of the PTX: \tsqrt.rn.f32 ") != NULL);
  EXPECT(strstr(m, "kernel sqrt") != NULL);
  EXPECT(first_of(z) == 2);
  unsetenv("WEFT_TEST_DRIVER_REFUSES");
  y = weft_sqrt(numbers(10));
  EXPECT_OK(weft_eval(1, &y));
  weft_scope_discard(s);
}

TEST(cuda_caches_and_machine_code_can_be_looked_at) {
  weft_scope *s = weft_scope_open();
  enter_folder();
  const char *shown = weft_show(0, NULL, "caches");
  EXPECT(strstr(shown, "machine code of GPU kernels: /tmp/weft-shelf-") != NULL);
  EXPECT(strstr(shown, ", 0 entries, 0 bytes of 268435456; found 0, missed 0\n") != NULL);
  weft_array *y = weft_exp(numbers(10));
  EXPECT(strstr(weft_show(1, &y, "sass"), "// exp\n") != NULL); /* or why not */
  leave_folder();
  weft_scope_discard(s);
}

/* More blocks than the cache has room for are given; what is taken afterwards is right, and nothing is lost. */
TEST(cuda_gives_thousands_of_blocks_back_and_takes_others) {
  if (!counter()) return;
  weft_set(WEFT_DEVICE, 1);
  enum { MANY = 2500 };
  static weft_array *y[MANY];
  for (int round = 0; round < 2; round++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = numbers(30);
    for (int i = 0; i < MANY; i++) {
      y[i] = weft_add(x, weft_scalar(i));
      EXPECT_OK(weft_eval(1, &y[i]));
    }
    for (int i = 0; i < MANY; i += 499) EXPECT(first_of(y[i]) == -2 + (float)i);
    weft_scope_discard(s);
  }
}
