/* buffer.c -- one state machine for memory that is there, comes later, or never comes. */
#define _GNU_SOURCE
#include "run/buffer.h"
#include "run/memory.h"
#include "run/source.h"
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "graph/caller.h"
#include "run/reader.h"
#include "test.h"

enum { PAGE = 4096, PAGES = 64, BYTES = PAGES * PAGE };

static char path[] = "/tmp/weft-buffer-XXXXXX";

static uint8_t pattern(int64_t i) { return (uint8_t)(i * 7 + i / 251 + 1); }

/* A file of BYTES bytes with a known pattern. */
static void make_file(void) {
  static uint8_t data[BYTES];
  for (int i = 0; i < BYTES; i++) data[i] = pattern(i);
  int fd = mkstemp(path);
  EXPECT(fd >= 0 && write(fd, data, BYTES) == BYTES);
  close(fd);
}

static struct source *open_source(void) {
  struct text why = { 0 };
  make_file();
  struct source *s = source_open(path, &why);
  if (!s) test_fail(__FILE__, __LINE__, "%s", text_of(&why));
  text_free(&why);
  return s;
}

static bool matches(const uint8_t *data, int64_t offset, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (data[i] != pattern(offset + i)) return false;
  return true;
}

static void expect_content(struct buffer *b, int64_t offset) {
  void *data = NULL;
  const char *why = "";
  weft_status status = buffer_hold(b, NULL, &data, &why);
  if (status) test_fail(__FILE__, __LINE__, "hold: status %d: %s", (int)status, why);
  if (status) return;
  EXPECT(matches(data, offset, (int64_t)buffer_bytes(b)));
  EXPECT_INT(buffer_state_of(b), BUFFER_RESIDENT);
  buffer_drop(b);
}

static void expect_failure(struct buffer *b, const char *part_of_message) {
  void *data = NULL;
  const char *why = "";
  (void)buffer_state_of(b); /* a cut that nobody has touched is seen by who asks for the state */
  EXPECT_INT(buffer_hold(b, NULL, &data, &why), WEFT_ERR_FILE);
  EXPECT(strstr(why, path) != NULL);
  if (!strstr(why, part_of_message)) test_fail(__FILE__, __LINE__, "the message is: %s", why);
  EXPECT_INT(buffer_state_of(b), BUFFER_FAILED);
}

static void done(struct source *s) {
  source_release(s);
  reader_stop();
  unlink(path);
  memory_set_cache_limit(0);
  EXPECT_INT(memory_used(), 0);
  EXPECT_INT(mem_live(), 0);
}

static void (*bus_handler(void))(int) {
  struct sigaction now;
  sigaction(SIGBUS, NULL, &now);
  return now.sa_handler;
}

TEST(an_own_buffer_is_resident_and_may_be_overwritten_by_its_only_holder) {
  struct buffer *b = buffer_new(1000);
  void *data = NULL;
  EXPECT_INT(buffer_state_of(b), BUFFER_RESIDENT);
  EXPECT_INT(buffer_bytes(b), 1000);
  EXPECT(buffer_is_only(b));
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  EXPECT(data && (uintptr_t)data % 64 == 0 && buffer_is_only(b));
  buffer_pin(b, NULL);
  EXPECT(!buffer_is_only(b));
  buffer_unpin(b);
  buffer_retain(b);
  EXPECT(!buffer_is_only(b));
  buffer_release(b);
  buffer_release(b);
  EXPECT_INT(memory_used(), 1000);
  buffer_drop(b);
  EXPECT_INT(memory_used(), 0);
  EXPECT_INT(mem_live(), 0);
  buffer_release(NULL);
}

TEST(an_empty_buffer_has_an_address_and_no_memory) {
  struct buffer *b = buffer_new(0);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  EXPECT(data != NULL);
  EXPECT_INT(memory_used(), 0);
  buffer_drop(b);
  buffer_release(b);
  EXPECT_INT(mem_live(), 0);
}

TEST(a_buffer_beyond_the_limit_is_null) {
  memory_set_limit(1000);
  EXPECT(buffer_new(1001) == NULL);
  struct buffer *b = buffer_new(1000);
  EXPECT(b != NULL);
  buffer_release(b);
  mem_fail_at(1, 1);
  EXPECT(buffer_new(10) == NULL);
  EXPECT(buffer_external("", 1, NULL, NULL) == NULL);
  mem_fail_at(0, 0);
  EXPECT_INT(mem_live(), 0);
}

static void count_up(void *ctx) { ++*(int *)ctx; }

TEST(external_memory_is_released_once_with_the_last_reference) {
  int n = 0;
  char there[8];
  struct buffer *b = buffer_external(there, sizeof there, count_up, &n);
  void *data = NULL;
  EXPECT(!buffer_is_only(b));
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  EXPECT(data == there);
  buffer_release(b);
  EXPECT_INT(n, 0);
  buffer_drop(b);
  EXPECT_INT(n, 1);
  buffer_callbacks();
  EXPECT_INT(n, 1);
  b = buffer_external(NULL, 0, NULL, NULL);
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  EXPECT(data != NULL);
  buffer_drop(b);
  buffer_release(b);
  EXPECT_INT(mem_live(), 0);
}

static int order[3], n_order;
static void note_order(void *ctx) { order[n_order++] = *(int *)ctx; }

static void *release_as_worker(void *buffers) {
  buffer_mark_own_thread();
  for (int i = 0; i < 3; i++) buffer_release(((struct buffer **)buffers)[i]);
  buffer_callbacks(); /* nothing: not on this thread */
  return NULL;
}

TEST(a_release_on_a_thread_of_our_own_waits_for_a_thread_of_the_user) {
  int id[3] = { 10, 11, 12 };
  struct buffer *b[3];
  for (int i = 0; i < 3; i++) b[i] = buffer_external(id, sizeof id, note_order, &id[i]);
  pthread_t t;
  pthread_create(&t, NULL, release_as_worker, b);
  pthread_join(t, NULL);
  EXPECT_INT(n_order, 0);
  buffer_callbacks();
  EXPECT_INT(n_order, 3);
  for (int i = 0; i < 3; i++) EXPECT_INT(order[i], 10 + i);
  EXPECT_INT(mem_live(), 0);
}

TEST(a_mapped_buffer_is_absent_until_it_is_needed) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, PAGE, 3 * PAGE, 4);
  EXPECT_INT(source_bytes(s), BYTES);
  EXPECT(source_map(s) != NULL);
  EXPECT_INT(buffer_state_of(b), BUFFER_ABSENT);
  EXPECT(!buffer_is_only(b));
  expect_content(b, PAGE);
  EXPECT_INT(memory_used(), 0);
  buffer_release(b);
  done(s);
}

TEST(a_background_reader_makes_it_resident) {
  struct source *s = open_source();
  struct buffer *b[PAGES];
  for (int i = 0; i < PAGES; i++) b[i] = buffer_from_source(s, i * PAGE + i % 3, PAGE - 5, 4);
  source_release(s);
  for (int i = 0; i < PAGES; i++) buffer_start(b[i]), buffer_start(b[i]);
  for (int i = 0; i < PAGES; i++)
    while (buffer_state_of(b[i]) != BUFFER_RESIDENT) usleep(100);
  for (int i = 0; i < PAGES; i++) expect_content(b[i], i * PAGE + i % 3), buffer_release(b[i]);
  done(NULL);
}

TEST(unaligned_data_is_copied_into_aligned_memory) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 4097, 5000, 4);
  expect_content(b, 4097);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  EXPECT((uintptr_t)data % 64 == 0);
  EXPECT_INT(memory_used(), 5000);
  buffer_drop(b);
  buffer_release(b);
  done(s);
}

TEST(bools_of_a_file_are_0_or_1_whatever_its_bytes) {
  struct source *s = open_source();
  struct buffer *b = buffer_of_bools(s, 0, 1000);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  for (int i = 0; i < 1000; i++) EXPECT_INT(((uint8_t *)data)[i], pattern(i) != 0);
  buffer_drop(b);
  buffer_release(b);
  done(s);
}

TEST(no_bytes_of_a_file_are_resident_at_once) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, BYTES, 0, 8);
  EXPECT_INT(buffer_state_of(b), BUFFER_RESIDENT);
  buffer_start(b);
  expect_content(b, 0);
  buffer_release(b);
  done(s);
}

TEST(reading_with_pread_maps_nothing_and_installs_no_handler) {
  setenv("WEFT_READ", "pread", 1);
  void (*before)(int) = bus_handler();
  struct source *s = open_source();
  EXPECT(source_map(s) == NULL);
  EXPECT(bus_handler() == before);
  struct buffer *b = buffer_from_source(s, 64, BYTES - 64, 4);
  buffer_start(b);
  expect_content(b, 64);
  EXPECT_INT(memory_used(), BYTES - 64);
  buffer_release(b);
  done(s);
}

TEST(writing_to_a_held_mapping_changes_neither_the_file_nor_the_process) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, PAGE, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  memset(data, 0xEE, PAGE);
  uint8_t again[PAGE];
  struct text why = { 0 };
  EXPECT_INT(source_read(s, 0, again, PAGE, &why), WEFT_OK);
  EXPECT(matches(again, 0, PAGE));
  buffer_drop(b);
  buffer_release(b);
  done(s);
}

TEST(reads_beyond_the_file_are_refused) {
  struct source *s = open_source();
  struct text why = { 0 };
  uint8_t one[1];
  EXPECT_INT(source_read(s, BYTES, one, 1, &why), WEFT_ERR_FILE);
  EXPECT(strstr(text_of(&why), path) != NULL);
  EXPECT_INT(source_read(s, -1, one, 1, &why), WEFT_ERR_FILE);
  EXPECT_INT(source_read(s, 1, one, SIZE_MAX, &why), WEFT_ERR_FILE);
  EXPECT_INT(source_read(s, INT64_MAX, one, SIZE_MAX, &why), WEFT_ERR_FILE);
  EXPECT_INT(source_read(s, BYTES, one, 0, &why), WEFT_OK);
  text_free(&why);
  done(s);
}

TEST(what_is_not_a_readable_file_is_refused_with_its_name) {
  static const struct { const char *path, *says; } rows[] = {
    { "/tmp/weft-there-is-no-such-file", "No such file" }, { "/tmp", "not a regular file" },
    { "/dev/null", "not a regular file" }, { "", "No such file" }, { "/dev/null/x", "Not a directory" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct text why = { 0 };
    EXPECT(source_open(rows[i].path, &why) == NULL);
    EXPECT(!strncmp(text_of(&why), rows[i].path, strlen(rows[i].path)));
    if (!strstr(text_of(&why), rows[i].says)) test_fail(__FILE__, __LINE__, "the message is: %s", text_of(&why));
    text_free(&why);
  }
  EXPECT_INT(mem_live(), 0);
}

TEST(an_empty_file_opens_and_has_nothing) {
  int fd = mkstemp(path);
  struct text why = { 0 };
  struct source *s = source_open(path, &why);
  EXPECT(s != NULL && source_bytes(s) == 0 && source_map(s) == NULL);
  struct buffer *b = buffer_from_source(s, 0, 0, 4);
  EXPECT_INT(buffer_state_of(b), BUFFER_RESIDENT);
  buffer_release(b);
  close(fd);
  done(s);
}

static void cut_file(int64_t bytes) { EXPECT_INT(truncate(path, bytes), 0); }

TEST(a_file_cut_before_it_is_loaded_is_an_error) {
  for (int align = 1; align <= 4096; align *= 4096) {
    strcpy(path, "/tmp/weft-buffer-XXXXXX");
    struct source *s = open_source();
    struct buffer *b = buffer_from_source(s, PAGE + 1, 10 * PAGE, (size_t)align);
    cut_file(2 * PAGE);
    EXPECT_INT(buffer_state_of(b), BUFFER_FAILED);
    expect_failure(b, "cut");
    buffer_release(b);
    done(s);
  }
}

TEST(a_file_cut_while_it_is_mapped_reads_zeros_and_then_an_error) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  cut_file(PAGE);
  const uint8_t *p = data;
  EXPECT(matches(p, 0, PAGE));
  for (int i = 20 * PAGE; i < BYTES; i++) EXPECT_INT(p[i], 0);
  for (int i = PAGE; i < BYTES; i++) EXPECT_INT(p[i], 0);
  EXPECT_INT(buffer_state_of(b), BUFFER_FAILED);
  buffer_drop(b);
  expect_failure(b, "cut");
  expect_failure(b, "cut");
  buffer_release(b);
  done(s);
}

TEST(a_cut_within_the_last_page_is_seen_by_who_asks_after_reading) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  cut_file(BYTES - 5); /* no signal comes: the rest of the page reads as zeros */
  EXPECT_INT(((uint8_t *)data)[BYTES - 1], 0);
  EXPECT_INT(buffer_state_of(b), BUFFER_FAILED);
  buffer_drop(b);
  expect_failure(b, "cut");
  buffer_release(b);
  done(s);
}

static void *add_up(void *p) {
  uint64_t sum = 0;
  for (int r = 0; r < 50; r++)
    for (int i = 0; i < BYTES; i += 64) sum += ((volatile uint8_t *)p)[i];
  return (void *)(uintptr_t)(sum & 1);
}

TEST(four_threads_survive_a_cut_under_their_eyes) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, add_up, data);
  for (int n = PAGES - 1; n >= 0; n--) cut_file(n * PAGE);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  buffer_drop(b);
  expect_failure(b, "cut");
  buffer_release(b);
  done(s);
}

TEST(one_cut_file_leaves_the_others_alone) {
  struct source *other = open_source();
  char other_path[sizeof path];
  strcpy(other_path, path);
  strcpy(path, "/tmp/weft-buffer-XXXXXX");
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4), *c = buffer_from_source(other, 0, BYTES, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  cut_file(0);
  EXPECT_INT(((uint8_t *)data)[BYTES - 1], 0);
  buffer_drop(b);
  expect_failure(b, "cut");
  expect_content(c, 0);
  buffer_release(b);
  buffer_release(c);
  unlink(other_path);
  source_release(other);
  done(s);
}

TEST(a_file_rewritten_in_place_before_it_is_loaded_is_an_error) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  usleep(20000); /* file times are coarse */
  int fd = open(path, O_WRONLY);
  EXPECT_INT(pwrite(fd, "other", 5, 0), 5);
  close(fd);
  expect_failure(b, "changed");
  buffer_release(b);
  done(s);
}

TEST(a_file_replaced_by_renaming_stays_what_it_was) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  char other[] = "/tmp/weft-buffer-XXXXXX";
  int fd = mkstemp(other);
  EXPECT_INT(write(fd, "short", 5), 5);
  close(fd);
  EXPECT_INT(rename(other, path), 0);
  expect_content(b, 0);
  buffer_release(b);
  done(s);
}

static sigjmp_buf back;
static volatile sig_atomic_t n_plain, n_info;
static void *volatile info_address;
static void on_plain(int sig) { (void)sig, n_plain++, siglongjmp(back, 1); }
static void on_info(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  n_info++;
  info_address = info->si_addr;
  siglongjmp(back, 1);
}

/* A mapping of the host itself, with no file below its second page. */
static volatile uint8_t *foreign_mapping(void) {
  char name[] = "/tmp/weft-foreign-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  EXPECT_INT(ftruncate(fd, PAGE), 0);
  uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return p;
}

TEST(a_fault_of_the_host_reaches_the_handler_of_the_host) {
  struct sigaction plain = { .sa_handler = on_plain }, info = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO };
  if (UNDER_TSAN) return test_skip("ThreadSanitizer takes what follows a jump out of a handler for the handler");
  volatile uint8_t *p = foreign_mapping();
  for (int i = 0; i < 2; i++) {
    strcpy(path, "/tmp/weft-buffer-XXXXXX");
    sigaction(SIGBUS, i ? &info : &plain, NULL);
    struct source *s = open_source();
    if (!sigsetjmp(back, 1)) (void)p[PAGE];
    done(s);
  }
  EXPECT_INT(n_plain, 1);
  EXPECT_INT(n_info, 1);
  EXPECT(info_address == p + PAGE);
}

static int in_child(void (*what)(void)) {
  pid_t pid = fork();
  if (!pid) {
    what();
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

static void fault_with_default(void) {
  signal(SIGBUS, SIG_DFL);
  open_source();
  unlink(path);
  (void)foreign_mapping()[PAGE];
}
static void send_with_default(void) {
  signal(SIGBUS, SIG_DFL);
  open_source();
  unlink(path);
  raise(SIGBUS);
}
static void send_when_ignored(void) {
  signal(SIGBUS, SIG_IGN);
  open_source();
  unlink(path);
  raise(SIGBUS);
}

TEST(without_a_handler_of_the_host_its_fault_does_what_it_always_did) {
  int status = in_child(fault_with_default);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  status = in_child(send_with_default);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  EXPECT_INT(in_child(send_when_ignored), 0);
}

TEST(the_handler_is_there_only_while_a_mapping_is) {
  signal(SIGBUS, on_plain);
  struct source *s = open_source();
  EXPECT(bus_handler() != on_plain);
  done(s);
  EXPECT(bus_handler() == on_plain);
}

static void (*under)(int, siginfo_t *, void *);
static void on_top(int sig, siginfo_t *info, void *context) { under(sig, info, context); }

TEST(a_handler_put_on_top_of_ours_stays_there_and_may_call_it) {
  struct source *s = open_source();
  struct sigaction top = { .sa_sigaction = on_top, .sa_flags = SA_SIGINFO }, ours;
  sigaction(SIGBUS, &top, &ours);
  under = ours.sa_sigaction;
  struct buffer *b = buffer_from_source(s, 0, BYTES, 4);
  void *data = NULL;
  EXPECT_INT(buffer_hold(b, NULL, &data, NULL), WEFT_OK);
  cut_file(0);
  EXPECT_INT(((uint8_t *)data)[0], 0);
  buffer_drop(b);
  expect_failure(b, "cut");
  buffer_release(b);
  done(s);
  sigaction(SIGBUS, NULL, &top);
  EXPECT(top.sa_sigaction == on_top);
}

TEST(more_files_than_can_be_guarded_are_read_with_pread) {
  enum { MANY = 1100 };
  make_file();
  struct source **s = calloc(MANY, sizeof *s);
  struct text why = { 0 };
  int n_mapped = 0;
  for (int i = 0; i < MANY; i++) {
    s[i] = source_open(path, &why);
    if (!s[i]) break; /* as many as the process may open */
    n_mapped += source_map(s[i]) != NULL;
  }
  EXPECT(n_mapped > 100 && n_mapped <= 1024);
  for (int i = 0; i < MANY; i++) source_release(s[i]);
  free(s);
  text_free(&why);
  done(NULL);
}

static struct buffer *shared[PAGES];
static atomic_int n_wrong;

static void *hold_all(void *start) {
  for (int k = 0; k < PAGES; k++) {
    int i = (k + (int)(intptr_t)start) % PAGES;
    void *data;
    if (buffer_hold(shared[i], NULL, &data, NULL) || !matches(data, i * PAGE + i % 2, 100)) atomic_fetch_add(&n_wrong, 1);
    else buffer_drop(shared[i]);
  }
  return NULL;
}

static void share(struct source *s) {
  for (int i = 0; i < PAGES; i++) shared[i] = buffer_from_source(s, i * PAGE + i % 2, PAGE - 1, 4);
}
static void drop_shared(void) {
  for (int i = 0; i < PAGES; i++) buffer_release(shared[i]);
}

static void *hold_large(void *b) {
  void *data;
  if (!buffer_hold(b, NULL, &data, NULL)) buffer_drop(b);
  return NULL;
}

static double clock_s(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a file whose bytes are nowhere yet, read with pread: a third of a second. */
TEST(who_waits_for_a_load_sleeps) {
  enum { LARGE = 384 << 20 };
  setenv("WEFT_READ", "pread", 1);
  make_file();
  EXPECT_INT(truncate(path, LARGE), 0);
  struct text why = { 0 };
  struct source *s = source_open(path, &why);
  EXPECT(s != NULL);
  struct buffer *b = buffer_from_source(s, 0, LARGE, 4);
  pthread_t t;
  pthread_create(&t, NULL, hold_large, b);
  while (buffer_state_of(b) == BUFFER_ABSENT) usleep(100);
  double wall = clock_s(CLOCK_MONOTONIC), busy = clock_s(CLOCK_THREAD_CPUTIME_ID);
  hold_large(b);
  busy = clock_s(CLOCK_THREAD_CPUTIME_ID) - busy, wall = clock_s(CLOCK_MONOTONIC) - wall;
  pthread_join(t, NULL);
  EXPECT_INT(buffer_state_of(b), BUFFER_RESIDENT);
  if (busy > 0.002 + 0.1 * wall) test_fail(__FILE__, __LINE__, "%.1f ms of work in %.1f ms of waiting", 1e3 * busy, 1e3 * wall);
  buffer_release(b);
  done(s);
}

TEST(eight_threads_hold_what_readers_are_still_bringing) {
  struct source *s = open_source();
  for (int r = 0; r < 50; r++) {
    pthread_t t[8];
    share(s);
    for (int i = 0; i < PAGES; i += 2) buffer_start(shared[i + r % 2]);
    for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, hold_all, (void *)(intptr_t)(i * 5));
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    drop_shared();
  }
  EXPECT_INT(atomic_load(&n_wrong), 0);
  done(s);
}

TEST(a_cut_while_readers_are_reading_is_an_error_or_came_too_late) {
  for (int r = 0; r < 30; r++) {
    strcpy(path, "/tmp/weft-buffer-XXXXXX");
    struct source *s = open_source();
    share(s);
    for (int i = 0; i < PAGES; i++) buffer_start(shared[i]);
    for (int k = 0; k < r * 20; k++) __asm__ volatile("");
    cut_file(PAGE);
    for (int i = 0; i < PAGES; i++) {
      void *data = NULL;
      const char *why = NULL;
      weft_status status = buffer_hold(shared[i], NULL, &data, &why);
      bool is_right = status == WEFT_OK && matches(data, i * PAGE + i % 2, PAGE - 1);
      EXPECT(is_right || buffer_state_of(shared[i]) == BUFFER_FAILED);
      EXPECT(status == WEFT_OK || (status == WEFT_ERR_FILE && strstr(why, path)));
      if (status == WEFT_OK) buffer_drop(shared[i]);
    }
    drop_shared();
    done(s);
  }
}

TEST(what_nobody_wants_any_more_need_not_be_read) {
  struct source *s = open_source();
  for (int r = 0; r < 50; r++) {
    share(s);
    for (int i = 0; i < PAGES; i++) buffer_start(shared[i]);
    drop_shared();
  }
  done(s);
}

static int child_holds_all(void) {
  test_watchdog(20);
  hold_all(NULL);
  drop_shared();
  reader_stop();
  return atomic_load(&n_wrong);
}

TEST(a_child_finishes_the_loads_that_its_parent_had_begun) {
  if (UNDER_ASAN) return test_skip("the allocator of AddressSanitizer may be locked for ever in a child of several threads");
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow a fork of a process with several threads");
  (void)caller(); /* as by the first call of weft, which watches forks */
  struct source *s = open_source();
  for (int r = 0; r < 20; r++) {
    share(s);
    pthread_t t;
    pthread_create(&t, NULL, hold_all, NULL);
    for (int i = 0; i < PAGES; i++) buffer_start(shared[i]);
    pid_t pid = fork();
    if (!pid) _exit(child_holds_all());
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_INT(status, 0);
    pthread_join(t, NULL);
    drop_shared();
  }
  EXPECT_INT(atomic_load(&n_wrong), 0);
  done(s);
}

TEST(of_an_array_larger_than_memory_only_what_is_read_is_brought_in) {
  int64_t large = INT64_C(1) << 40;
  void *data = NULL;
  const char *why = NULL;
  struct text no = { 0 };
  make_file();
  if (truncate(path, large)) { unlink(path); return test_skip("no file of 1 TiB, though it be empty"); }
  struct source *s = source_open(path, &no);
  if (s && memory_limit() < large) {
    struct buffer *b = buffer_from_source(s, 0, (size_t)large, 1);
    EXPECT_INT(buffer_hold(b, NULL, &data, &why), WEFT_OK);
    EXPECT(data && matches(data, 0, BYTES) && !((uint8_t *)data)[large - 1]);
    if (data) buffer_drop(b);
    buffer_release(b);
  }
  text_free(&no);
  if (s) done(s);
  else unlink(path);
}

TEST(lack_of_memory_is_not_a_failure_of_the_file) {
  struct source *s = open_source();
  struct buffer *b = buffer_from_source(s, 1, 1000, 4);
  void *data = NULL;
  const char *why = NULL;
  memory_set_limit(999);
  buffer_start(b);
  EXPECT_INT(buffer_hold(b, NULL, &data, &why), WEFT_ERR_MEMORY);
  EXPECT(why && strstr(why, "memory"));
  memory_set_limit(1000);
  expect_content(b, 1);
  buffer_release(b);
  done(s);
}

TEST(each_allocation_may_fail_and_the_load_still_works_afterwards) {
  for (int at = 1; at < 40; at++) {
    strcpy(path, "/tmp/weft-buffer-XXXXXX");
    make_file();
    struct text why = { 0 };
    mem_fail_at(at, at % 2);
    struct source *s = source_open(path, &why);
    struct buffer *b = s ? buffer_from_source(s, 3, 5000, 4) : NULL;
    void *data = NULL;
    if (b) buffer_start(b);
    if (b && buffer_hold(b, NULL, &data, NULL) == WEFT_OK) buffer_drop(b);
    mem_fail_at(0, 0);
    if (b) expect_content(b, 3);
    text_free(&why);
    buffer_release(b);
    done(s);
  }
}
