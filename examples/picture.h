/* picture.h -- an SVG file for the examples: dots, lines, areas, words, and images of pixels.
 *
 * Pixels are embedded as an uncompressed PNG. Colours are those of CSS. Whether the file could be opened and written is
 * asked once, by picture_close. */
#ifndef PICTURE_H
#define PICTURE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline FILE *picture_open(const char *path, int width, int height) {
  FILE *out = fopen(path, "w");
  if (out)
    fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
                 "font-family='sans-serif' font-size='14'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
            width, height, width, height);
  return out;
}

static inline int picture_close(FILE *out, const char *path) { /* 0, or 1 and a line that says why */
  if (out) fprintf(out, "</svg>\n");
  int is_bad = !out || ferror(out);
  if ((out && fclose(out)) || is_bad) return perror(path), 1;
  return printf("%s shows it.\n", path), 0;
}

static inline void picture_dot(FILE *out, double x, double y, double r, const char *fill) {
  if (out) fprintf(out, "<circle cx='%.1f' cy='%.1f' r='%.1f' fill='%s'/>\n", x, y, r, fill);
}

static inline void picture_points(FILE *out, int n, double (*at)[2]) {
  for (int i = 0; i < n; i++) fprintf(out, "%.1f,%.1f ", at[i][0], at[i][1]);
  fprintf(out, "'/>\n");
}

static inline void picture_line(FILE *out, int n, double (*at)[2], double width, const char *stroke) {
  if (!out) return;
  fprintf(out, "<polyline fill='none' stroke='%s' stroke-width='%.1f' stroke-linejoin='round' points='", stroke, width);
  picture_points(out, n, at);
}

static inline void picture_area(FILE *out, int n, double (*at)[2], const char *fill) { /* inside the line, closed */
  if (!out) return;
  fprintf(out, "<polygon fill='%s' points='", fill);
  picture_points(out, n, at);
}

static inline void picture_box(FILE *out, double x, double y, double w, double h, const char *fill) {
  if (out) fprintf(out, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>\n", x, y, w, h, fill);
}

static inline void picture_text(FILE *out, double x, double y, const char *fill, const char *words) {
  if (out) fprintf(out, "<text x='%.1f' y='%.1f' fill='%s'>%s</text>\n", x, y, fill, words);
}

/* ---- PNG, with a deflate stream of stored blocks ---- */

struct png { uint8_t *bytes; size_t n; };

static inline void png_put(struct png *p, uint32_t word, int n) { /* the low n bytes, the highest first */
  while (n--) p->bytes[p->n++] = (uint8_t)(word >> 8 * n);
}

static inline uint32_t png_crc(const uint8_t *at, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= at[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static inline void png_chunk(struct png *p, size_t start) { /* from its length word on: fills that in, adds the sum */
  size_t n = p->n - start - 8;
  for (int k = 0; k < 4; k++) p->bytes[start + k] = (uint8_t)(n >> (24 - 8 * k));
  png_put(p, png_crc(p->bytes + start + 4, n + 4), 4);
}

static inline size_t png_open(struct png *p, const char *type) {
  size_t start = p->n;
  png_put(p, 0, 4);
  for (int k = 0; k < 4; k++) png_put(p, (uint8_t)type[k], 1);
  return start;
}

static inline void png_rows(struct png *p, int w, int h, const float rgb[]) { /* a stored block a row */
  uint32_t a = 1, b = 0;
  size_t start = png_open(p, "IDAT");
  png_put(p, 0x7801, 2);
  for (int y = 0; y < h; y++) {
    uint32_t n = 1 + 3 * (uint32_t)w;
    png_put(p, y == h - 1, 1);
    png_put(p, (n & 255) << 8 | n >> 8, 2);
    png_put(p, ~((n & 255) << 8 | n >> 8), 2);
    size_t row = p->n;
    png_put(p, 0, 1);
    for (int i = 0; i < 3 * w; i++) {
      float v = rgb[(size_t)y * 3 * (size_t)w + (size_t)i];
      png_put(p, (uint32_t)(255 * (v > 0 ? v < 1 ? v : 1 : 0) + 0.5f), 1);
    }
    for (; row < p->n; row++) a = (a + p->bytes[row]) % 65521, b = (b + a) % 65521;
  }
  png_put(p, b << 16 | a, 4);
  png_chunk(p, start);
}

/* rgb: h rows of w pixels, red, green and blue from 0 to 1; drawn `scale` times as large, with its corner at x, y. */
static inline void picture_image(FILE *out, double x, double y, double scale, int w, int h, const float rgb[]) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  struct png p = { malloc(100 + (size_t)h * (3 * (size_t)w + 6)), 0 };
  if (!out || !p.bytes) { free(p.bytes); return; }
  png_put(&p, 0x89504e47, 4), png_put(&p, 0x0d0a1a0a, 4);
  size_t start = png_open(&p, "IHDR");
  png_put(&p, (uint32_t)w, 4), png_put(&p, (uint32_t)h, 4), png_put(&p, 0x08020000, 4), png_put(&p, 0, 1);
  png_chunk(&p, start);
  png_rows(&p, w, h, rgb);
  png_chunk(&p, png_open(&p, "IEND"));
  fprintf(out, "<image x='%.1f' y='%.1f' width='%.1f' height='%.1f' style='image-rendering:pixelated' "
               "href='data:image/png;base64,", x, y, scale * w, scale * h);
  for (size_t i = 0; i < p.n; i += 3) {
    uint32_t left = (uint32_t)(p.n - i), b = 0;
    for (uint32_t k = 0; k < 3; k++) b = b << 8 | (k < left ? p.bytes[i + k] : 0);
    for (uint32_t k = 0; k < 4; k++) fputc(k <= left ? digit[b >> (18 - 6 * k) & 63] : '=', out);
  }
  fprintf(out, "'/>\n");
  free(p.bytes);
}
#endif
