/* files.c -- changes good files at random and opens them: whatever comes out, each array lies inside the file, can be held
 * or says why not, each message names the file, and nothing is left behind.
 *
 *   files SECONDS SEED */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "io/format.h"

enum { ROOM = 4096 };
struct bytes { uint8_t at[ROOM]; size_t n; };

static uint64_t state;
static const char *path;
static long n_tried, n_opened;

static uint32_t any(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % (below ? below : 1));
}

static void add(struct bytes *b, const void *data, size_t n) {
  if (n > ROOM - b->n) n = ROOM - b->n;
  memcpy(b->at + b->n, data, n);
  b->n += n;
}

static const char *const headers[] = {
  "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}",
  "{\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\":\"\\ud83d\\ude00\\n\"},\"w\":{\"shape\":[0,7],\"x\":[1,{\"y\":-2.5e-3}],\"dtype\":\"BF16\",\"data_offsets\":[0,0]},"
  "\"v\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}",
  "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }\n",
  "{'descr': '|u1', 'fortran_order': True, 'shape': (4, 8), }      \n",
  "{'descr': '<c16', 'fortran_order': False, 'shape': (2,), }\n",
};
static const char *const tokens[] = {
  "{", "}", "[", "]", "(", ")", ",", ":", "\"", "'", "0", "-1", "9223372036854775807", "18446744073709551616", "1e308", "\\u0000",
  "\\ud800", "\xff", "\xc0\x80", "null", "true", "__metadata__", "dtype", "shape", "data_offsets", "descr", "fortran_order",
  "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},", "F64", "BOOL", ">f8", "|O", "V2", " ", "\n",
};
#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

static void change(struct bytes *h) {
  struct bytes old = *h;
  size_t at = any((uint32_t)h->n + 1), cut = any(4) ? 0 : any((uint32_t)(h->n - at) + 1);
  const char *token = tokens[any(COUNT(tokens))];
  switch (any(4)) {
  case 0: if (at < h->n) h->at[at] = (uint8_t)any(256); return;
  case 1: if (at < h->n) h->at[at] ^= (uint8_t)(1 << any(8)); return;
  case 2: cut = any(12); token = ""; break;
  }
  if (cut > old.n - at) cut = old.n - at;
  h->n = at;
  add(h, token, strlen(token));
  add(h, old.at + at + cut, old.n - at - cut);
}

static void make(struct bytes *out) {
  uint32_t which = any(COUNT(headers));
  struct bytes h = { .n = 0 };
  add(&h, headers[which], strlen(headers[which]));
  for (uint32_t k = any(4); k > 0; k--) change(&h);
  bool is_npy = which >= 2;
  uint8_t version = (uint8_t)(any(16) ? 1 + any(3) : any(256));
  uint64_t length = any(16) ? h.n : any(2) ? any(2 * ROOM) : (uint64_t)any(1u << 31) << any(34);
  out->n = 0;
  if (is_npy) add(out, "\x93NUMPY", 6), add(out, (uint8_t[]){ version, 0 }, 2);
  add(out, &length, !is_npy ? 8 : version == 1 ? 2 : 4);
  add(out, h.at, h.n);
  uint8_t data[64] = { 0 };
  add(out, data, any(8) ? 32 : any(64));
}

static bool write_file(const struct bytes *b) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  bool ok = fd >= 0 && write(fd, b->at, b->n) == (ssize_t)b->n;
  if (fd >= 0) close(fd);
  return ok;
}

static const char *check_entry(struct source *s, const struct entry *e) {
  void *data;
  if (e->offset < 0 || e->bytes < 0 || e->offset + e->bytes > source_bytes(s)) return "an array outside the file";
  struct entry again = *e;
  if (!entry_measure(&again, false) || again.bytes != e->bytes) return "bytes that do not fit the shape";
  struct buffer *b = buffer_from_source(s, e->offset, (size_t)e->bytes, weft_dtype_bytes(e->dtype));
  if (!b || buffer_hold(b, NULL, &data, NULL)) return "an array that cannot be held";
  volatile uint8_t sum = 0;
  for (int64_t i = 0; i < e->bytes; i++) sum += ((uint8_t *)data)[i];
  buffer_drop(b);
  buffer_release(b);
  return NULL;
}

static const char *check_file(void) {
  struct source *s;
  struct listing l;
  struct text why = { 0 };
  const char *wrong = NULL;
  weft_status status = format_open(path, &s, &l, &why);
  if (status && strncmp(text_of(&why), path, strlen(path))) wrong = "a message without the name of the file";
  for (int i = 0; i < l.n && !wrong; i++) wrong = check_entry(s, &l.entry[i]);
  n_opened += status == WEFT_OK;
  listing_free(&l);
  source_release(s);
  text_free(&why);
  if (!wrong && mem_live()) wrong = "memory is left";
  return wrong;
}

int main(int argc, char **argv) {
  static const char *const names[] = { "/a.safetensors", "/a.npy", "/a" };
  char folder[] = "/tmp/weft-fuzz-XXXXXX", room[64];
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  mem_watch();
  const char *wrong = mkdtemp(folder) ? NULL : "no folder to work in";
  path = room;
  for (; !wrong && time(NULL) < end; seed++, n_tried++) {
    struct bytes b;
    state = seed;
    for (int i = 0; i < 4; i++) any(2);
    strcat(strcpy(room, folder), names[any(3)]);
    make(&b);
    wrong = write_file(&b) ? check_file() : "cannot write the file";
    if (wrong) printf("files: seed %llu: %s: %s\n", (unsigned long long)seed, path, wrong);
    if (!wrong) unlink(path);
  }
  if (!wrong) rmdir(folder);
  printf("files: %ld files, %ld of them opened, %s\n", n_tried, n_opened, wrong ? "a finding" : "no findings");
  return wrong != NULL;
}
