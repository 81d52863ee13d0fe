/* scene.h -- what the scenes share: the back end they are asked to run on, what they say, and what they count as wrong.
 *
 *   SCENE [vm|x86|gpu]
 *
 * A scene says what happened elsewhere and what happens here, and ends with 0, with 1 if something was wrong, or with
 * 77 if there is nothing to show on this back end. */
#ifndef WEFT_SCENE_H
#define WEFT_SCENE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static int scene_wrong;

static void scene_expect(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void scene_expect(bool ok, const char *format, ...) {
  va_list list;
  if (ok || ++scene_wrong > 12) return;
  va_start(list, format);
  printf("   wrong: ");
  vprintf(format, list);
  printf("\n");
  va_end(list);
}

static bool scene_ok(weft_status status, const char *what) {
  scene_expect(!status, "%s: %s", what, status ? weft_message() : "");
  return !status;
}

static void scene_start(int argc, char **argv, const char *elsewhere) {
  const char *on = argc > 1 ? argv[1] : "x86";
  setenv("WEFT_JIT", strcmp(on, "vm") ? "1" : "0", 1);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(on, "gpu") && weft_set(WEFT_DEVICE, 1) < 0) exit(77);
  printf("   elsewhere: %s\n", elsewhere);
}

static int scene_end(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int scene_end(const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("   here:      ");
  vprintf(format, list);
  printf("; %d kernels\n", (int)weft_get(WEFT_KERNELS));
  va_end(list);
  if (scene_wrong) printf("   %d wrong\n", scene_wrong);
  return scene_wrong != 0;
}

#endif
