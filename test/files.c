/* files.c -- files nobody trusts: what is wrong is refused with the name of the file and of the thing; what is right comes
 * back to the bit. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "io/format.h"
#include "run/memory.h"
#include "run/reader.h"
#include "test.h"

static char folder[] = "/tmp/weft-files-XXXXXX", path[64];

static void enter_folder(void) { EXPECT(mkdtemp(folder) != NULL); }

static const char *in_folder(const char *name) {
  strcpy(path, folder);
  strcat(path, "/");
  return strcat(path, name);
}

static void leave_folder(void) {
  char command[64] = "rm -rf ";
  EXPECT_INT(system(strcat(command, folder)), 0);
  reader_stop();
  memory_set_cache_limit(0);
  EXPECT_INT(mem_live(), 0);
}

static void write_bytes(const char *name, const void *data, size_t n) {
  int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  EXPECT(fd >= 0 && write(fd, data, n) == (ssize_t)n);
  close(fd);
}

/* Opens the file written last; the message must begin with its path and contain `says`. NULL: it must open. */
static void expect_refused(const char *what, weft_status expected, const char *says) {
  struct source *s;
  struct listing l;
  struct text why = { 0 };
  weft_status status = format_open(path, &s, &l, &why);
  const char *message = text_of(&why);
  bool ok = says ? status == expected && strstr(message, says) && !strncmp(message, path, strlen(path)) : status == WEFT_OK;
  if (!ok) test_fail(__FILE__, __LINE__, "%.60s: status %d: \"%s\", not \"%s\"", what, (int)status, message, says ? says : "");
  listing_free(&l);
  source_release(s);
  text_free(&why);
}

static void write_safetensors(uint64_t length, const char *header, size_t data_bytes) {
  struct text t = { 0 };
  for (int i = 0; i < 8; i++) text_bytes(&t, (char[]){ (char)(length >> 8 * i) }, 1);
  text_add(&t, header);
  for (size_t i = 0; i < data_bytes; i++) text_bytes(&t, "x", 1);
  write_bytes("a.safetensors", t.s, t.n);
  text_free(&t);
}

#define A(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define B(offsets) "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" offsets "}"

TEST(malformed_safetensors_are_refused_each_for_its_reason) {
  static const struct { const char *header; size_t data; const char *says; } rows[] = {
    { "{}", 0, NULL },
    { "{} \n", 0, NULL },
    { A("F32", "[2]", "[0,8]"), 8, NULL },
    { A("F32", "[]", "[0,4]"), 4, NULL },
    { A("F32", "[0,5]", "[0,0]"), 0, NULL },
    { A("F32", "[2]", "[ 0 , 8 ]"), 8, NULL },
    /* the text */
    { " {}", 0, "does not begin with {" },
    { "[]", 0, "does not begin with {" },
    { "{", 0, "too short" },
    { "{ ", 0, "expected a string" },
    { "{}}", 0, "expected the end" },
    { "{} x", 0, "expected the end" },
    { "{,}", 0, "expected a string" },
    { "{\"a\"}", 0, "expected :" },
    { "{\"a\":1}", 0, "expected an object" },
    { "{\"a\":{}}", 0, "missing" },
    { "{\"a\":{},}", 0, "missing" },
    { "{\"a\":{\"dtype\":\"F32\",}}", 0, "a comma and nothing after it" },
    { "{\"a\":{\"dtype\":\"F32\" \"shape\":[]}}", 0, "expected , or }" },
    { "{\"a", 0, "does not end" },
    { "{\"a\\", 0, "no such escape" },
    { "{\"a\\q\":1}", 0, "no such escape" },
    { "{\"\\u12G4\":1}", 0, "four hexadecimal" },
    { "{\"\\ud800\":1}", 0, "without the second" },
    { "{\"\\ud800\\u0041\":1}", 0, "without the second" },
    { "{\"\\udc00\":1}", 0, "without the first" },
    { "{\"\\u0000\":1}", 0, "a 0 in it" },
    { "{\"a\nb\":1}", 0, "control character" },
    { "{\"\xff\":1}", 0, "not UTF-8" },
    { "{\"\xc0\x80\":1}", 0, "not UTF-8" },
    { "{\"\xe0\x80\x80\":1}", 0, "not UTF-8" },
    { "{\"\xed\xa0\x80\":1}", 0, "not UTF-8" },
    { "{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8" },
    { "{\"\xc3", 0, "not UTF-8" },
    /* an array's description */
    { A("F32", "[2]", "[0,8]") " ", 9, "1 bytes at the end" },
    { A("Q4", "[2]", "[0,8]"), 8, "dtype \"Q4\" is not supported" },
    { A("F8_E8M0", "[1]", "[0,999999]"), 1, "dtype \"F8_E8M0\" is not supported" },
    { A("F8_E4M3", "[1]", "[0,999999]"), 1, "reach beyond the end of the file" },
    { A("f32", "[2]", "[0,8]"), 8, "is not supported" },
    { A("", "[2]", "[0,8]"), 8, "is not supported" },
    { "{\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "expected a string" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"shape\":[],\"data_offsets\":[0,1]}}", 1, "a member twice" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "missing" },
    { A("F32", "2", "[0,8]"), 8, "expected a list" },
    { A("F32", "[-2]", "[0,8]"), 8, "negative" },
    { A("F32", "[2.0]", "[0,8]"), 8, "whole number" },
    { A("F32", "[2e0]", "[0,8]"), 8, "whole number" },
    { A("F32", "[02]", "[0,8]"), 8, "begins with 0" },
    { A("F32", "[\"2\"]", "[0,8]"), 8, "expected a digit" },
    { A("F32", "[2", "[0,8]"), 8, "expected a digit" },
    { A("F32", "[2 2]", "[0,8]"), 8, "expected , or ]" },
    { A("F32", "[2,]", "[0,8]"), 8, "a comma and nothing after it" },
    { A("F32", "[+2]", "[0,8]"), 8, "expected a digit" },
    { A("F32", "[3]", "[0,8]"), 8, "do not fit" },
    { A("F32", "[1]", "[0,8]"), 8, "do not fit" },
    { A("F32", "[0]", "[0,8]"), 8, "do not fit" },
    { A("F32", "[9223372036854775808]", "[0,8]"), 8, "beyond 2^63" },
    { A("F32", "[4611686018427387904]", "[0,0]"), 0, "too large" },
    { A("F32", "[4294967296,4294967296]", "[0,0]"), 0, "too large" },
    { A("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, "too large" },
    { A("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, NULL },
    { A("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 32 axes" },
    /* where its data is */
    { A("F32", "[2]", "[]"), 8, "fewer than two" },
    { A("F32", "[2]", "[8]"), 8, "fewer than two" },
    { A("F32", "[2]", "[0,8,8]"), 8, "more than two" },
    { A("F32", "[2]", "[8,0]"), 8, "not a range" },
    { A("F32", "[2]", "[-8,0]"), 8, "not a range" },
    { A("F32", "[2]", "[0,8.0]"), 8, "whole number" },
    { A("F32", "[2]", "[0,1e308]"), 8, "whole number" },
    { A("F32", "[2]", "[0,1099511627792]"), 8, "beyond the end of the file" },
    { A("F32", "[2]", "[0,8]"), 7, "beyond the end of the file" },
    { A("F32", "[2]", "[9223372036854775800,9223372036854775807]"), 8, "beyond the end of the file" },
    { A("F32", "[2]", "[1,9]"), 9, "a hole before" },
    { A("F32", "[2]", "[0,8]"), 20, "12 bytes at the end" },
    { "{}", 1, "1 bytes at the end" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}," B("[2,4]") "}", 4, "overlaps" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}," B("[4,6]") "}", 6, "a hole before" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}," B("[0,2]") "}", 2, "overlaps" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}," B("[0,2]") "}", 5, NULL },
    { "{" B("[0,2]") "," B("[2,4]") "}", 4, "two of this name" },
    { "{" B("[0,2]") ",\"\\u0062\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", 4, "two of this name" },
    /* metadata */
    { "{\"__metadata__\":{}}", 0, NULL },
    { "{\"__metadata__\":{\"a\":\"b\"}}", 0, NULL },
    { "{\"__metadata__\":{\"a\":1}}", 0, "expected a string" },
    { "{\"__metadata__\":[]}", 0, "expected an object" },
    { "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "expected a string" },
    { "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "a key twice" },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice" },
  };
  enter_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is_dtype = rows[i].says && strstr(rows[i].says, "not supported");
    write_safetensors(strlen(rows[i].header), rows[i].header, rows[i].data);
    expect_refused(rows[i].header, is_dtype ? WEFT_ERR_UNSUPPORTED : WEFT_ERR_FILE, rows[i].says);
  }
  leave_folder();
}

TEST(header_lengths_are_not_believed) {
  static const struct { uint64_t length; const char *header; const char *says; } rows[] = {
    { 0, "{}", "a header of 0 bytes" }, { 1, "{}", "a header of 1 bytes" }, { 3, "{}", "a header of 3 bytes" },
    { UINT64_MAX, "{}", "a header of 18446744073709551615" }, { UINT64_MAX - 7, "{}", "a header of 18446744073709551608" },
    { (uint64_t)1 << 63, "{}", "a header of 9223372036854775808" }, { 100000001, "{}", "at most 100000000" },
    { 2, "{", "too short" }, { 0, "", "too short" },
  };
  enter_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    write_safetensors(rows[i].length, rows[i].header, 0);
    expect_refused(rows[i].says, WEFT_ERR_FILE, rows[i].says);
  }
  write_bytes("a.safetensors", "\1\0\0", 3);
  expect_refused("three bytes", WEFT_ERR_FILE, "too short");
  write_bytes("a.safetensors", "", 0);
  expect_refused("nothing", WEFT_ERR_FILE, "too short");
  leave_folder();
}

TEST(unknown_members_are_skipped_but_must_be_json) {
  static const struct { const char *member; const char *says; } rows[] = {
    { "1", NULL }, { "-0.5e+10", NULL }, { "true", NULL }, { "null", NULL }, { "[]", NULL }, { "{}", NULL },
    { "[1,[2,{\"a\":[]}],\"x\"]", NULL }, { "{\"a\":{\"b\":[{}]}}", NULL }, { "[1,]", "a comma and nothing" },
    { "{1:2}", "expected a string" }, { "nul", "expected a value" }, { "01", "begins with 0" }, { "-", "a digit" },
    { "1.", "a digit" }, { "1e", "a digit" }, { ".5", "expected a value" }, { "[1 2]", "expected , or ]" },
    { "[}", "expected a value" }, { "NaN", "expected a value" }, { "'x'", "expected a value" },
  };
  enter_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct text t = { 0 };
    text_addf(&t, "{\"a\":{\"dtype\":\"U8\",\"x\":%s,\"shape\":[],\"data_offsets\":[0,1]}}", rows[i].member);
    write_safetensors(t.n, t.s, 1);
    expect_refused(t.s, WEFT_ERR_FILE, rows[i].says);
    text_free(&t);
  }
  leave_folder();
}

TEST(a_million_brackets_do_not_overflow_the_stack) {
  enter_folder();
  struct text t = { 0 };
  text_add(&t, "{\"a\":{\"x\":");
  for (int i = 0; i < 1000000; i++) text_add(&t, i % 2 ? "{\"k\":" : "[");
  write_safetensors(t.n, t.s, 0);
  expect_refused("brackets", WEFT_ERR_FILE, "nested too deeply");
  text_free(&t);
  leave_folder();
}

TEST(every_prefix_of_a_file_is_refused) {
  static const char header[] = "{\"__metadata__\":{\"k\":\"\\u00e9\\n\"},\"a\":{\"dtype\":\"I32\",\"shape\":[1,2],"
                               "\"z\":[1.5e3,{\"q\":null}],\"data_offsets\":[0,8]}}";
  enter_folder();
  for (size_t n = 0; n < sizeof header + 7; n++) {
    struct text t = { 0 };
    text_bytes(&t, header, n < sizeof header - 1 ? n : sizeof header - 1);
    uint64_t claimed = n % 2 ? sizeof header - 1 : t.n; /* cut with and without the length being right */
    write_safetensors(claimed, text_of(&t), n < sizeof header ? 0 : n - sizeof header + 1);
    bool is_whole = claimed == sizeof header - 1 && n == sizeof header + 7;
    expect_refused("prefix", WEFT_ERR_FILE, is_whole ? NULL : "");
    text_free(&t);
  }
  leave_folder();
}

TEST(any_byte_of_a_header_may_change_and_nothing_breaks) {
  static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},\"__metadata__\":{\"k\":\"v\"}}";
  static const char with[] = { 0, '"', '{', '}', '[', ']', ',', ':', '0', '9', '-', '\\', (char)0xFF, ' ' };
  enter_folder();
  for (size_t i = 0; i < sizeof header - 1; i++)
    for (size_t k = 0; k < sizeof with; k++) {
      struct text t = { 0 }, why = { 0 };
      struct source *s;
      struct listing l;
      text_bytes(&t, "\0\0\0\0\0\0\0\0", 8);
      text_add(&t, header);
      t.s[0] = (char)(sizeof header - 1);
      t.s[8 + i] = with[k];
      text_add(&t, "12345678");
      write_bytes("a.safetensors", t.s, t.n);
      weft_status status = format_open(path, &s, &l, &why);
      EXPECT(status == WEFT_OK || !strncmp(text_of(&why), path, strlen(path)));
      for (int e = 0; e < l.n; e++) EXPECT(l.entry[e].offset + l.entry[e].bytes <= (int64_t)t.n);
      listing_free(&l);
      source_release(s);
      text_free(&t);
      text_free(&why);
    }
  leave_folder();
}

TEST(a_hundred_thousand_arrays_are_listed_in_good_time) {
  enter_folder();
  test_watchdog(20);
  struct text t = { 0 };
  text_add(&t, "{");
  for (int i = 0; i < 100000; i++)
    text_addf(&t, "%s\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", i, i, i + 1);
  text_add(&t, "}");
  write_safetensors(t.n, t.s, 100000);
  struct source *s;
  struct listing l;
  struct text why = { 0 };
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  EXPECT_INT(l.n, 100000);
  EXPECT_TEXT(l.entry[99999].name, "layer.99999.weight");
  listing_free(&l);
  source_release(s);
  text_free(&t);
  leave_folder();
}

static void write_npy(int major, int64_t length, const char *dict, size_t data_bytes) {
  struct text t = { 0 };
  int64_t n = length < 0 ? (int64_t)strlen(dict) : length;
  text_add(&t, "\x93NUMPY");
  text_bytes(&t, (char[]){ (char)major, 0 }, 2);
  for (int i = 0; i < (major == 1 ? 2 : 4); i++) text_bytes(&t, (char[]){ (char)(n >> 8 * i) }, 1);
  text_add(&t, dict);
  for (size_t i = 0; i < data_bytes; i++) text_bytes(&t, "x", 1);
  write_bytes("a.npy", t.s, t.n);
  text_free(&t);
}

#define D(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

TEST(malformed_npy_are_refused_each_for_its_reason) {
  static const struct { const char *dict; size_t data; const char *says; } rows[] = {
    { D("'<f4'", "False", "(2, 3)"), 24, NULL },
    { D("'<f4'", "False", "()"), 4, NULL },
    { D("'<f4'", "True", "(3,)"), 12, NULL },
    { D("'|b1'", "False", "(3,)"), 3, NULL },
    { D("'>i1'", "False", "(3,)"), 3, NULL },
    { D("'=f8'", "False", "(3L,)"), 24, NULL },
    { D("'|V2'", "False", "(3,)"), 6, NULL },
    { D("'bfloat16'", "False", "(3,)"), 6, NULL },
    { D("'<c16'", "False", "(0,)"), 0, NULL },
    { D("'f4'", "False", "(1,)"), 4, NULL },
    { "{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<f4\"}   \n", 4, NULL },
    { D("'>f4'", "False", "(2,)"), 8, "'>f4' is big-endian" },
    { D("'>c16'", "False", "(2,)"), 32, "'>c16' is big-endian" },
    { D("'|O'", "False", "(2,)"), 16, "Python objects" },
    { D("'O'", "False", "(2,)"), 16, "Python objects" },
    { D("'<U4'", "False", "(2,)"), 32, "'<U4' is not supported" },
    { D("'<M8[ns]'", "False", "(2,)"), 16, "is not supported" },
    { D("'<f16'", "False", "(2,)"), 32, "is not supported" },
    { D("''", "False", "(2,)"), 32, "is not supported" },
    { D("'<'", "False", "(2,)"), 32, "is not supported" },
    { D("'<ixy'", "False", "(2,)"), 32, "is not supported" },
    { D("'<f44444444444444444444'", "False", "(2,)"), 8, "is not supported" },
    { D("'<f4444444444444444444444444444444444444444444'", "False", "(2,)"), 8, "no NPY header has" },
    { D("[('a', '<f4')]", "False", "(2,)"), 8, "records" },
    { D("4", "False", "(2,)"), 8, "quoted text" },
    { D("'<f4'", "false", "(2,)"), 8, "True or False" },
    { D("'<f4'", "0", "(2,)"), 8, "True or False" },
    { D("'<f4'", "False", "2"), 8, "expected a tuple" },
    { D("'<f4'", "False", "[2]"), 8, "expected a tuple" },
    { D("'<f4'", "False", "(2)"), 8, "(3,) is" },
    { D("'<f4'", "False", "(2 3)"), 24, "expected , or )" },
    { D("'<f4'", "False", "(,)"), 4, "expected a size" },
    { D("'<f4'", "False", "(-2,)"), 8, "expected a size" },
    { D("'<f4'", "False", "(2.0,)"), 8, "expected , or )" },
    { D("'<f4'", "False", "(99999999999999999999,)"), 8, "beyond 2^63" },
    { D("'<f4'", "False", "(4294967296, 4294967296)"), 0, "too large" },
    { D("'<f4'", "False", "(0, 4294967296, 4294967296)"), 0, "too large" },
    { D("'<f8'", "False", "(1152921504606846976,)"), 0, "too large" },
    { D("'<f4'", "False", "(1152921504606846976,)"), 0, "0 bytes of data" },
    { D("'<f4'", "False", "(3,)"), 11, "11 bytes of data, and its shape and dtype need 12" },
    { D("'<f4'", "False", "(3,)"), 13, "13 bytes of data" },
    { D("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), 4, "more than 32" },
    { "{'descr': '<f4', 'fortran_order': False}", 4, "missing" },
    { "{}", 4, "missing" }, { "", 4, "expected {" }, { "x", 4, "expected {" }, { "{", 4, "quoted text" },
    { "{'descr'}", 4, "expected :" }, { "{'descr': '<f4' 'shape': ()}", 4, "expected , or }" },
    { "{'descr': '<f4', 'descr': '<f4'}", 4, "a key twice" }, { "{'descr", 4, "does not end" },
    { "{'evil': __import__('os')}", 4, "a key other than" }, { "{'de\\x73cr': 1}", 4, "no NPY header has" },
    { D("'<f4'", "False", "()") "x", 4, "something after" },
  };
  enter_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *says = rows[i].says;
    bool is_dtype = says && (strstr(says, "not supported") || strstr(says, "big-endian") || strstr(says, "objects") || strstr(says, "records"));
    for (int major = 1; major <= 3; major++) {
      write_npy(major, -1, rows[i].dict, rows[i].data);
      expect_refused(rows[i].dict, is_dtype ? WEFT_ERR_UNSUPPORTED : WEFT_ERR_FILE, says);
    }
  }
  leave_folder();
}

TEST(npy_preambles_are_not_believed) {
  enter_folder();
  write_npy(2, 0xFFFFFFFF, "", 0);
  expect_refused("4 GiB", WEFT_ERR_FILE, "a header of 4294967295 bytes");
  write_npy(1, 0xFFFF, "", 10);
  expect_refused("64 KiB", WEFT_ERR_FILE, "a header of 65535 bytes");
  write_npy(2, 70000, "", 80000);
  expect_refused("long", WEFT_ERR_FILE, "at most");
  write_npy(4, -1, D("'<f4'", "False", "()"), 4);
  expect_refused("version 4", WEFT_ERR_FILE, "version 4.0");
  write_npy(0, -1, D("'<f4'", "False", "()"), 4);
  expect_refused("version 0", WEFT_ERR_FILE, "version 0.0");
  for (int n = 0; n < 10; n++) {
    write_bytes("a.npy", "\x93NUMPY\1\0\0\0", (size_t)n);
    expect_refused("short", WEFT_ERR_FILE, "not an NPY file");
  }
  write_bytes("a.npy", "\x93NUMPY\1\0\0\0", 10);
  expect_refused("no dictionary", WEFT_ERR_FILE, "expected {");
  leave_folder();
}

TEST(a_column_major_array_has_strides_to_match) {
  enter_folder();
  write_npy(1, -1, D("'<i2'", "True", "(2, 3, 4)"), 48);
  struct source *s;
  struct listing l;
  struct text why = { 0 };
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  EXPECT_INT(l.entry[0].strides[0], 1);
  EXPECT_INT(l.entry[0].strides[1], 2);
  EXPECT_INT(l.entry[0].strides[2], 6);
  listing_free(&l);
  source_release(s);
  leave_folder();
}

TEST(other_files_are_recognised_as_others) {
  static const struct { const char *bytes; size_t n; const char *says; } rows[] = {
    { "PK\003\004rest", 8, "zip archive" }, { "GGUF\3\0\0\0", 8, "GGUF" }, { "\x80\002ccopy_reg", 11, "pickle" },
    { "", 0, "empty" }, { "hello", 5, "something else" }, { "version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS" },
  };
  enter_folder();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    write_bytes("data.bin", rows[i].bytes, rows[i].n);
    expect_refused(rows[i].says, WEFT_ERR_FILE, rows[i].says);
  }
  in_folder("missing.npy");
  expect_refused("missing", WEFT_ERR_FILE, "No such file");
  leave_folder();
}

static const weft_dtype all_dtypes[] = { WEFT_BOOL, WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_I8, WEFT_I16, WEFT_I32,
                                         WEFT_I64, WEFT_F16, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_C64 };
enum { N_DTYPES = sizeof all_dtypes / sizeof *all_dtypes, MOST = 6 * 16 };

static struct entry an_entry(weft_dtype dtype, int rank, int64_t d0, int64_t d1) {
  struct entry e = { .dtype = dtype, .rank = rank, .dims = { d0, d1 } };
  EXPECT(entry_measure(&e, false));
  return e;
}

static void expect_data(struct source *s, const struct entry *e, const void *data) {
  void *got = NULL;
  const char *why = "";
  struct buffer *b = buffer_from_source(s, e->offset, (size_t)e->bytes, weft_dtype_bytes(e->dtype));
  EXPECT_INT(buffer_hold(b, NULL, &got, &why), WEFT_OK);
  EXPECT(got && !memcmp(got, data, (size_t)e->bytes));
  EXPECT((uintptr_t)got % weft_dtype_bytes(e->dtype) == 0);
  buffer_drop(b);
  buffer_release(b);
}

TEST(safetensors_come_back_to_the_bit_with_every_dtype_aligned) {
  static const char *const names[] = { "z", "a", "\"\\\n\x01", "é", "日本", "", "/../x", "i32", "i64", "f16", "f32", "f64", "bf16", "e4m3", "e5m2", "c64" };
  static const char *const meta[] = { "format", "pt", "\"k\"", "v\n", NULL };
  struct entry entries[N_DTYPES];
  const void *data[N_DTYPES];
  uint8_t bytes[N_DTYPES][MOST];
  for (int i = 0; i < N_DTYPES; i++) {
    entries[i] = an_entry(all_dtypes[i], i % 3, i == 4 ? 0 : 3, 1 + i % 2);
    for (int k = 0; k < MOST; k++) bytes[i][k] = (uint8_t)(i * 31 + k);
    data[i] = bytes[i];
  }
  enter_folder();
  struct text why = { 0 };
  struct source *s;
  struct listing l;
  EXPECT_INT(format_save(in_folder("a.safetensors"), N_DTYPES, names, entries, data, meta, &why), WEFT_OK);
  EXPECT_TEXT(text_of(&why), "");
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  EXPECT_INT(l.n, N_DTYPES);
  EXPECT_INT(l.n_meta, 2);
  for (int i = 0; i < 4; i++) EXPECT_TEXT(l.meta[i], meta[i]);
  for (int i = 0; i < N_DTYPES; i++) {
    EXPECT_TEXT(l.entry[i].name, names[i]);
    EXPECT_INT(l.entry[i].dtype, entries[i].dtype);
    EXPECT_INT(l.entry[i].rank, entries[i].rank);
    EXPECT(!memcmp(l.entry[i].dims, entries[i].dims, sizeof(int64_t) * (size_t)entries[i].rank));
    EXPECT_INT(l.entry[i].offset % (int64_t)weft_dtype_bytes(entries[i].dtype), 0);
    expect_data(s, &l.entry[i], data[i]);
  }
  EXPECT_INT(memory_used(), 0); /* all mapped, none copied */
  listing_free(&l);
  source_release(s);
  text_free(&why);
  leave_folder();
}

TEST(npy_come_back_to_the_bit) {
  uint8_t bytes[MOST];
  for (int k = 0; k < MOST; k++) bytes[k] = (uint8_t)(k * 17);
  const void *data = bytes;
  enter_folder();
  for (int i = 0; i <= N_DTYPES; i++)
    for (int rank = 0; rank <= 2; rank++) {
      struct entry e = an_entry(i < N_DTYPES ? all_dtypes[i] : WEFT_C128, rank, 3, 2);
      struct text why = { 0 };
      struct source *s;
      struct listing l;
      EXPECT_INT(format_save(in_folder("a.npy"), 1, NULL, &e, &data, NULL, &why), WEFT_OK);
      EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
      EXPECT_INT(l.n, 1);
      EXPECT_INT(l.entry[0].dtype, e.dtype);
      EXPECT_INT(l.entry[0].rank, rank);
      EXPECT_INT(l.entry[0].offset % 64, 0);
      expect_data(s, &l.entry[0], bytes);
      listing_free(&l);
      source_release(s);
      text_free(&why);
    }
  leave_folder();
}

TEST(the_bytes_of_a_saved_file_are_those_of_the_format) {
  struct entry e = an_entry(WEFT_F32, 2, 1, 2);
  float values[] = { 1, 2 };
  const void *data = values;
  const char *const names[] = { "w" };
  struct text why = { 0 };
  char got[256];
  enter_folder();
  EXPECT_INT(format_save(in_folder("a.npy"), 1, NULL, &e, &data, NULL, &why), WEFT_OK);
  int fd = open(path, O_RDONLY);
  EXPECT_INT(read(fd, got, sizeof got), 136);
  close(fd);
  EXPECT(!memcmp(got, "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), } ", 70));
  EXPECT(got[127] == '\n' && !memcmp(got + 128, values, 8));
  EXPECT_INT(format_save(in_folder("a.safetensors"), 1, names, &e, &data, NULL, &why), WEFT_OK);
  fd = open(path, O_RDONLY);
  EXPECT_INT(read(fd, got, sizeof got), 72);
  close(fd);
  EXPECT(!memcmp(got, "8\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", 64));
  leave_folder();
}

TEST(no_arrays_at_all_make_a_file) {
  struct text why = { 0 };
  enter_folder();
  EXPECT_INT(format_save(in_folder("a.safetensors"), 0, NULL, NULL, NULL, NULL, &why), WEFT_OK);
  expect_refused("empty", WEFT_OK, NULL);
  EXPECT_INT(format_save(in_folder("a.npy"), 0, NULL, NULL, NULL, NULL, &why), WEFT_ERR_ARG);
  text_free(&why);
  leave_folder();
}

TEST(what_cannot_be_saved_leaves_the_old_file_and_nothing_else) {
  static const struct { const char *name; const char *names[2]; const char *meta[4]; weft_dtype dtype; int status; const char *says; } rows[] = {
    { "a.bin", { "x", "y" }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "must end in .safetensors" },
    { "a.safetensors", { "x", "x" }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "two of this name" },
    { "a.safetensors", { "x", "__metadata__" }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "format's own" },
    { "a.safetensors", { "x", NULL }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "the name of array 1 is NULL" },
    { "a.safetensors", { "x", "\xff" }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "not UTF-8" },
    { "a.safetensors", { "x", "y" }, { "k", "\xff" }, WEFT_F32, WEFT_ERR_ARG, "not UTF-8" },
    { "a.safetensors", { "x", "y" }, { "k" }, WEFT_F32, WEFT_ERR_ARG, "no value" },
    { "a.safetensors", { "x", "y" }, { "k", "v", "k" }, WEFT_F32, WEFT_ERR_ARG, "no value" },
    { "a.safetensors", { "x", "y" }, { 0 }, WEFT_C128, WEFT_ERR_UNSUPPORTED, "no such dtype" },
    { "a.npy", { "x", "y" }, { 0 }, WEFT_F32, WEFT_ERR_ARG, "holds one array" },
    { "no/such/a.npy", { "x", "y" }, { 0 }, WEFT_F32, WEFT_ERR_FILE, "No such file" },
    { "dir.npy", { "x", "y" }, { 0 }, WEFT_F32, WEFT_ERR_FILE, "not a regular file" },
  };
  char data[32] = { 0 };
  const void *both[] = { data, data };
  enter_folder();
  mkdir(in_folder("dir.npy"), 0700);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct entry e[2] = { an_entry(rows[i].dtype, 0, 0, 0), an_entry(rows[i].dtype, 0, 0, 0) };
    struct text why = { 0 };
    int status = format_save(in_folder(rows[i].name), 2, rows[i].names, e, both, rows[i].meta, &why);
    if (status != rows[i].status || !strstr(text_of(&why), rows[i].says) || strncmp(text_of(&why), path, strlen(path)))
      test_fail(__FILE__, __LINE__, "%s: status %d: %s", rows[i].says, status, text_of(&why));
    text_free(&why);
  }
  EXPECT_INT(rmdir(in_folder("dir.npy")), 0);
  EXPECT_INT(rmdir(folder), 0);
  EXPECT_INT(mkdir(folder, 0700), 0);
  leave_folder();
}

TEST(a_full_disk_leaves_the_old_file) {
  static char big[100000];
  const void *data = big;
  struct entry e = an_entry(WEFT_U8, 1, sizeof big, 0);
  struct text why = { 0 };
  struct rlimit small = { 50000, 50000 };
  enter_folder();
  write_npy(1, -1, D("'|u1'", "False", "(3,)"), 3);
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_INT(format_save(path, 1, NULL, &e, &data, NULL, &why), WEFT_ERR_FILE);
  EXPECT(strstr(text_of(&why), "too large") != NULL);
  expect_refused("old", WEFT_OK, NULL);
  EXPECT_INT(unlink(path), 0);
  EXPECT_INT(rmdir(folder), 0); /* no temporary file is left */
  mkdir(folder, 0700);
  text_free(&why);
  leave_folder();
}

TEST(saving_over_a_file_that_is_still_to_be_loaded_is_safe) {
  uint32_t values[1000], others[10] = { 7 };
  for (uint32_t i = 0; i < 1000; i++) values[i] = i;
  const void *data = values;
  struct entry e = an_entry(WEFT_U32, 1, 1000, 0);
  struct text why = { 0 };
  struct source *s;
  struct listing l;
  enter_folder();
  EXPECT_INT(format_save(in_folder("a.npy"), 1, NULL, &e, &data, NULL, &why), WEFT_OK);
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  data = others;
  e = an_entry(WEFT_U32, 1, 10, 0);
  EXPECT_INT(format_save(path, 1, NULL, &e, &data, NULL, &why), WEFT_OK);
  expect_data(s, &l.entry[0], values);
  listing_free(&l);
  source_release(s);
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  expect_data(s, &l.entry[0], others);
  listing_free(&l);
  source_release(s);
  leave_folder();
}

/* A process whose standard input is closed, as of many that run in the background: the first file it opens is number 0. The names
 * that saving would take first for the file it writes are taken, as by a process of the same number that ended in the middle. */
TEST(a_process_without_standard_input_saves_and_loads_though_names_are_taken) {
  enum { TAKEN = 8 };
  float data[] = { 1, 2, 3 };
  const void *one = data;
  struct entry e = an_entry(WEFT_F32, 1, 3, 0);
  struct text why = { 0 }, name = { 0 };
  struct source *source;
  struct listing l;
  enter_folder();
  for (int pass = 0; pass < 2; pass++) { /* taken; removed, and nothing else is there */
    if (pass) close(STDIN_FILENO); /* of this test's own process */
    for (int i = 0; pass && i < 2; i++) EXPECT_INT(format_save(in_folder("a.npy"), 1, NULL, &e, &one, NULL, &why), WEFT_OK);
    for (int i = 0; i < TAKEN; i++) {
      text_clear(&name);
      text_addf(&name, "%s/a.npy.weft-%ld-%d", folder, (long)getpid(), i);
      if (pass) EXPECT_INT(unlink(text_of(&name)), 0);
      else close(open(text_of(&name), O_WRONLY | O_CREAT | O_EXCL, 0600));
    }
  }
  EXPECT_INT(format_open(in_folder("a.npy"), &source, &l, &why), WEFT_OK);
  expect_data(source, &l.entry[0], data);
  listing_free(&l);
  source_release(source);
  EXPECT_INT(unlink(path), 0);
  EXPECT_INT(rmdir(folder), 0);
  EXPECT_INT(mkdir(folder, 0700), 0);
  text_free(&name);
  text_free(&why);
  leave_folder();
}

TEST(saving_keeps_rights_and_goes_through_links) {
  char data[4] = { 0 }, link_path[64];
  const void *one = data;
  struct entry e = an_entry(WEFT_F32, 0, 0, 0);
  struct text why = { 0 };
  struct stat st;
  enter_folder();
  EXPECT_INT(format_save(in_folder("a.npy"), 1, NULL, &e, &one, NULL, &why), WEFT_OK);
  chmod(path, 0640);
  strcpy(link_path, folder);
  strcat(link_path, "/link.npy");
  EXPECT_INT(symlink("a.npy", link_path), 0);
  EXPECT_INT(format_save(link_path, 1, NULL, &e, &one, NULL, &why), WEFT_OK);
  EXPECT(!lstat(link_path, &st) && S_ISLNK(st.st_mode));
  EXPECT(!lstat(path, &st) && (st.st_mode & 0777) == 0640);
  leave_folder();
}

TEST(unaligned_arrays_of_a_file_are_read_too) {
  const char *header = "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                       "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}";
  struct source *s;
  struct listing l;
  struct text why = { 0 };
  enter_folder();
  write_safetensors(strlen(header), header, 9);
  EXPECT_INT(format_open(path, &s, &l, &why), WEFT_OK);
  expect_data(s, &l.entry[1], "xxxxxxxx");
  listing_free(&l);
  source_release(s);
  leave_folder();
}

TEST(each_allocation_of_opening_and_saving_may_fail) {
  static const char *const names[] = { "a", "b", "c" };
  static const char *const meta[] = { "k", "v", "l", "w", NULL };
  char bytes[16] = { 1 };
  const void *data[] = { bytes, bytes, bytes };
  struct entry e[3] = { an_entry(WEFT_F32, 2, 2, 2), an_entry(WEFT_U8, 0, 0, 0), an_entry(WEFT_F64, 1, 2, 0) };
  enter_folder();
  bool is_through = false;
  for (int at = 1; at < 200 && !is_through; at++) {
    struct text why = { 0 };
    struct source *s = NULL;
    struct listing l = { 0 };
    mem_fail_at(at, at % 2);
    weft_status saved = format_save(in_folder("a.safetensors"), 3, names, e, data, meta, &why);
    weft_status opened = saved ? saved : format_open(path, &s, &l, &why);
    is_through = mem_count() < at;
    mem_fail_at(0, 0);
    EXPECT(opened == WEFT_OK || opened == WEFT_ERR_MEMORY || opened == WEFT_ERR_FILE);
    listing_free(&l);
    source_release(s);
    text_free(&why);
    EXPECT_INT(mem_live(), 0);
  }
  EXPECT(is_through);
  leave_folder();
}

/* Runs a Python script with the folder as argument; false: it fails, for want of NumPy or with good reason. */
static bool python(const char *script) {
  write_bytes("script.py", script, strlen(script));
  struct text command = { 0 };
  text_addf(&command, "python3 %s %s 2>/dev/null", path, folder);
  bool ok = system(command.s) == 0;
  text_free(&command);
  return ok;
}

static bool has_numpy(void) {
  if (python("import numpy\n")) return true;
  leave_folder();
  test_skip("no python3 with numpy");
  return false;
}

TEST(files_of_numpy_are_read) {
  enter_folder();
  if (!has_numpy()) return;
  EXPECT(python("import numpy as np, sys\n"
                "for t in ['?', 'u1', 'i2', 'u4', 'i8', 'f2', 'f4', 'f8', 'c8', 'c16']:\n"
                "  x = np.arange(6).reshape(2, 3).astype(t)\n"
                "  np.save(sys.argv[1] + '/' + t.replace('?', 'b') + '.npy', np.asfortranarray(x))\n"));
  static const char *const names[] = { "b.npy", "u1.npy", "i2.npy", "u4.npy", "i8.npy", "f2.npy", "f4.npy", "f8.npy", "c8.npy", "c16.npy" };
  for (int i = 0; i < 10; i++) {
    struct source *s;
    struct listing l;
    struct text why = { 0 };
    EXPECT_INT(format_open(in_folder(names[i]), &s, &l, &why), WEFT_OK);
    EXPECT_INT(l.entry[0].strides[0], 1);
    EXPECT_INT(l.entry[0].strides[1], 2);
    if (l.entry[0].dtype == WEFT_F32) expect_data(s, &l.entry[0], (float[]){ 0, 3, 1, 4, 2, 5 });
    listing_free(&l);
    source_release(s);
  }
  leave_folder();
}

TEST(files_of_ours_are_read_by_numpy) {
  enter_folder();
  if (!has_numpy()) return;
  float values[] = { 0, 1, 2, 3, 4, 5 };
  const void *data = values;
  struct entry e = an_entry(WEFT_F32, 2, 2, 3);
  struct text why = { 0 };
  EXPECT_INT(format_save(in_folder("ours.npy"), 1, NULL, &e, &data, NULL, &why), WEFT_OK);
  EXPECT(python("import numpy as np, sys\n"
                "x = np.load(sys.argv[1] + '/ours.npy')\n"
                "assert x.dtype == 'f4' and (x == np.arange(6).reshape(2, 3)).all()\n"));
  leave_folder();
}
