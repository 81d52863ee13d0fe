/* json.c -- the JSON that headers of files are written in: see json.h. */
#include "io/json.h"
#include <string.h>
#include "base/text.h"

bool json_fail(struct json *j, const char *what) {
  if (j->status) return false;
  j->status = WEFT_ERR_FILE;
  text_addf(j->why, "%s: header byte %lld: %s", j->path, (long long)(j->at - j->start), what);
  return false;
}

static bool no_memory(struct json *j) {
  if (!j->status) text_addf(j->why, "%s: out of memory while reading the header", j->path);
  if (!j->status) j->status = WEFT_ERR_MEMORY;
  return false;
}

static void space(struct json *j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) j->at++;
}

static bool next_is(struct json *j, char c) {
  space(j);
  return !j->status && j->at < j->end && *j->at == c;
}

static bool accept(struct json *j, char c) {
  if (!next_is(j, c)) return false;
  j->at++;
  return true;
}

bool json_open(struct json *j, char bracket) {
  return accept(j, bracket) || json_fail(j, bracket == '{' ? "expected an object, {" : "expected a list, [");
}

bool json_more(struct json *j, char bracket, int n) {
  if (j->status || accept(j, bracket)) return false;
  if (n && !accept(j, ',')) return json_fail(j, bracket == '}' ? "expected , or }" : "expected , or ]");
  if (n && next_is(j, bracket)) return json_fail(j, "a comma and nothing after it");
  return true;
}

bool json_end(struct json *j) {
  space(j);
  return !j->status && (j->at == j->end || json_fail(j, "expected the end of the header"));
}

/* Bytes of the character s begins with, 0 if it is none: overlong, a surrogate, beyond U+10FFFF, or cut. */
static size_t utf8_length(const unsigned char *s, size_t n) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4 || n < length) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  bool is_overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
  bool is_no_character = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
  return is_overlong || is_no_character ? 0 : length;
}

bool json_is_utf8(const char *s, size_t n) {
  for (size_t i = 0, length; i < n; i += length)
    if (!(length = utf8_length((const unsigned char *)s + i, n - i))) return false;
  return true;
}

static void add_character(struct text *out, uint32_t c) {
  char s[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const uint8_t lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
  for (size_t i = n; i-- > 1; c >>= 6) s[i] = (char)(0x80 | (c & 0x3F));
  s[0] = (char)(lead[n] | c);
  text_bytes(out, s, n);
}

static bool hex4(struct json *j, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, j->at++) {
    char c = j->at < j->end ? *j->at : 0;
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return json_fail(j, "expected four hexadecimal digits");
    *out = 16 * *out + (uint32_t)digit;
  }
  return true;
}

/* After "\u". Characters beyond U+FFFF come as two. */
static bool unicode(struct json *j, struct text *out) {
  uint32_t c, low;
  if (!hex4(j, &c)) return false;
  if (c >= 0xDC00 && c <= 0xDFFF) return json_fail(j, "the second half of a character without the first");
  if (c >= 0xD800 && c <= 0xDBFF) {
    bool has_second = j->end - j->at >= 2 && j->at[0] == '\\' && j->at[1] == 'u';
    if (!has_second) return json_fail(j, "the first half of a character without the second");
    j->at += 2;
    if (!hex4(j, &low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return json_fail(j, "the first half of a character without the second");
    c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
  }
  if (!c) return json_fail(j, "a string with a 0 in it");
  add_character(out, c);
  return true;
}

static bool escape(struct json *j, struct text *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = ++j->at < j->end ? *j->at : 0;
  j->at++;
  if (c == 'u') return unicode(j, out);
  const char *found = c ? strchr(from, c) : NULL;
  if (!found) return json_fail(j, "no such escape");
  text_bytes(out, &to[found - from], 1);
  return true;
}

static bool character(struct json *j, struct text *out) {
  if (*j->at == '\\') return escape(j, out);
  if ((unsigned char)*j->at < 0x20) return json_fail(j, "a control character in a string");
  size_t n = utf8_length((const unsigned char *)j->at, (size_t)(j->end - j->at));
  if (!n) return json_fail(j, "not UTF-8");
  text_bytes(out, j->at, n);
  j->at += n;
  return true;
}

bool json_string(struct json *j, struct text *out) {
  if (!accept(j, '"')) return json_fail(j, "expected a string");
  text_clear(out);
  text_bytes(out, "", 0);
  while (j->at < j->end && *j->at != '"')
    if (!character(j, out)) return false;
  if (j->at == j->end) return json_fail(j, "a string that does not end");
  j->at++;
  return !out->failed || no_memory(j);
}

bool json_key(struct json *j, struct text *out) {
  return json_string(j, out) && (accept(j, ':') || json_fail(j, "expected :"));
}

static bool digits(struct json *j) {
  const char *first = j->at;
  while (j->at < j->end && *j->at >= '0' && *j->at <= '9') j->at++;
  return j->at > first || json_fail(j, "expected a digit");
}

/* -?(0|[1-9][0-9]*) */
static bool whole(struct json *j) {
  if (j->at < j->end && *j->at == '-') j->at++;
  const char *first = j->at;
  if (!digits(j)) return false;
  return *first != '0' || j->at == first + 1 || json_fail(j, "a number that begins with 0");
}

static bool number(struct json *j) {
  if (!whole(j)) return false;
  if (j->at < j->end && *j->at == '.' && (j->at++, !digits(j))) return false;
  if (j->at == j->end || (*j->at != 'e' && *j->at != 'E')) return true;
  j->at++;
  if (j->at < j->end && (*j->at == '+' || *j->at == '-')) j->at++;
  return digits(j);
}

bool json_integer(struct json *j, int64_t *out) {
  space(j);
  const char *first = j->at;
  if (j->status || !whole(j)) return false;
  if (j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E')) return json_fail(j, "expected a whole number");
  bool is_negative = *first == '-';
  int64_t v = 0;
  for (const char *s = first + is_negative; s < j->at; s++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
      return json_fail(j, "a number beyond 2^63");
  *out = is_negative ? -v : v;
  return true;
}

static bool word(struct json *j) {
  static const char *const words[] = { "true", "false", "null" };
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(j->end - j->at) >= n && !memcmp(j->at, words[i], n)) return j->at += n, true;
  }
  return json_fail(j, "expected a value");
}

static bool scalar(struct json *j, struct text *scratch) {
  if (next_is(j, '"')) return json_string(j, scratch);
  if (next_is(j, '-') || (j->at < j->end && *j->at >= '0' && *j->at <= '9')) return number(j);
  return !j->status && word(j);
}

enum { DEPTH = 32 };
struct json_nest { char close[DEPTH]; int n_members[DEPTH], depth; };

/* Leaves what has ended, and reads up to the next value; false: there is none, or it failed. */
static bool next_value(struct json *j, struct json_nest *nest, struct text *scratch) {
  while (nest->depth) {
    int top = nest->depth - 1;
    if (json_more(j, nest->close[top], nest->n_members[top]++)) return nest->close[top] == ']' || json_key(j, scratch);
    if (j->status) return false;
    nest->depth--;
  }
  return false;
}

static bool enter(struct json *j, struct json_nest *nest) {
  if (nest->depth == DEPTH) return json_fail(j, "nested too deeply");
  nest->close[nest->depth] = *j->at++ == '{' ? '}' : ']';
  nest->n_members[nest->depth++] = 0;
  return true;
}

bool json_skip(struct json *j) {
  struct json_nest nest = { .depth = 0 };
  struct text scratch = { 0 };
  bool ok;
  do ok = next_is(j, '{') || next_is(j, '[') ? enter(j, &nest) : scalar(j, &scratch);
  while (ok && next_value(j, &nest, &scratch));
  text_free(&scratch);
  return !j->status;
}

void json_quote(struct text *out, const char *s) {
  text_add(out, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') text_addf(out, "\\%c", c);
    else if (c < 0x20) text_addf(out, "\\u%04x", c);
    else text_bytes(out, s, 1);
  }
  text_add(out, "\"");
}
