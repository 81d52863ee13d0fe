/* text.c -- texts that grow: see text.h. */
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

static bool reserve(struct text *t, size_t more) {
  if (t->failed) return false;
  if (t->room - t->n > more) return true;
  size_t room = t->room ? 2 * t->room : 128;
  while (room - t->n <= more) room *= 2;
  char *s = mem_resize(t->s, room);
  if (!s) return t->failed = true, false;
  t->s = s;
  t->room = room;
  return true;
}

void text_bytes(struct text *t, const char *s, size_t n) {
  if (!reserve(t, n)) return;
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void text_add(struct text *t, const char *s) { text_bytes(t, s, strlen(s)); }

/* Prints into the room there is, which is mostly enough; else makes room for what it took, and prints again. */
void text_addv(struct text *t, const char *format, va_list list) {
  va_list again;
  va_copy(again, list);
  size_t room = t->failed ? 0 : t->room - t->n;
  int n = vsnprintf(room ? t->s + t->n : NULL, room, format, list);
  if (n >= 0 && (size_t)n >= room) {
    if (room) t->s[t->n] = 0;
    if (!reserve(t, (size_t)n)) n = -1;
    else vsnprintf(t->s + t->n, (size_t)n + 1, format, again);
  }
  if (n > 0) t->n += (size_t)n;
  va_end(again);
}

void text_addf(struct text *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  text_addv(t, format, list);
  va_end(list);
}

/* With fewer than six digits %g would show 10 as 1e+01. The decimal point is a point in every locale. */
void text_number(struct text *t, double x, int digits) {
  char s[48];
  if (x != x || x - x != 0) { /* nan, infinities */
    text_add(t, x != x ? "nan" : x > 0 ? "inf" : "-inf");
    return;
  }
  for (int n = 6; n <= digits; n++) {
    snprintf(s, sizeof s, "%.*g", n, x);
    double back = strtod(s, NULL);
    if (back == x || (digits < 17 && (float)back == (float)x)) break;
  }
  for (char *p = s; *p; p++) if (*p == ',') *p = '.';
  text_add(t, s);
}

const char *text_of(const struct text *t) { return t->s ? t->s : ""; }

void text_clear(struct text *t) {
  t->n = 0;
  if (t->s) t->s[0] = 0;
}

void text_free(struct text *t) {
  mem_free(t->s);
  *t = (struct text){ 0 };
}
