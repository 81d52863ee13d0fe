/* text.h -- sentences to learn: "the cats that the dog sees sing. ", each verb in the number of its noun. */
#ifndef TEXT_H
#define TEXT_H
#include <string.h>
#include "noise.h"
#include "picture.h"

static const char letters[] = " .abcdeghiklnoprstu";
enum { LETTERS = sizeof letters - 1, WRITTEN = 72, PAGES = 16, CELLS = 32 };

static inline int letter(char c) { return (int)(strchr(letters, c) - letters); }

/* One of n with equal chance; *nats grows by what that tells. */
static inline int choose(int n, double *nats) { return *nats += log(n), (int)(n * uniform()); }

/* Writes a sentence, at most 48 letters and a 0; returns its length. */
static inline size_t make_sentence(char *s, double *nats) {
  static const char *noun[] = { "cat", "dog", "bird" }, *verb[] = { "sleep", "sing", "run" };
  static const char *act[] = { "see", "like" };
  int is_many = choose(2, nats);
  strcat(strcat(strcpy(s, "the "), noun[choose(3, nats)]), is_many ? "s" : "");
  if (choose(2, nats)) {
    int are_others = choose(2, nats);
    strcat(strcat(strcat(s, " that the "), noun[choose(3, nats)]), are_others ? "s " : " ");
    strcat(strcat(s, act[choose(2, nats)]), are_others ? "" : "s");
  }
  strcat(strcat(s, " "), verb[choose(3, nats)]);
  return strlen(strcat(s, is_many ? ". " : "s. "));
}

/* What a network wrote: PAGES side by side, with the chance of each letter and the memory when it was written. */
struct page { int32_t letter[WRITTEN][PAGES]; float chance[WRITTEN][PAGES], memory[WRITTEN][PAGES][CELLS]; };

/* Up to the last full stop: how many sentences there are, and how many of them the corpus has too. */
static inline void count_sentences(const struct page *p, const char *corpus, int *n, int *n_right) {
  *n = *n_right = 0;
  for (int k = 0; k < PAGES; k++) {
    char sentence[WRITTEN + 1];
    for (int i = 0, length = 0; i < WRITTEN; i++) {
      sentence[length++] = letters[p->letter[i][k]], sentence[length] = 0;
      if (sentence[length - 1] != '.') continue;
      *n += 1, *n_right += strstr(corpus, sentence) != NULL, length = 0;
    }
  }
}

/* A line for t = 0, 50, 100, 200 ..: letters are red where they were not expected. The memory is drawn if asked for. */
static inline void draw_page(FILE *out, const struct page *p, int t, int has_memory) {
  static const float full[2][3] = { { 0.13f, 0.38f, 0.58f }, { 0.75f, 0.22f, 0.17f } }; /* the colours of -1 and 1 */
  static float rgb[CELLS][WRITTEN][3];
  double top = 24 + 24 * (t ? 1 + log2(t / 50.) : 0);
  char words[32];
  snprintf(words, sizeof words, "%d", t);
  picture_text(out, 10, top, "#999", words);
  for (int i = 0; i < WRITTEN; i++) {
    snprintf(words, sizeof words, "rgb(%.0f,0,0)", 255 * (1 - p->chance[i][0]));
    picture_text(out, 60 + 12 * i, top, words, (char[]){ letters[p->letter[i][0]], 0 });
    for (int k = 0; k < CELLS; k++)
      for (int j = 0; j < 3; j++)
        rgb[k][i][j] = 1 - fabsf(p->memory[i][0][k]) * (1 - full[p->memory[i][0][k] > 0][j]);
  }
  if (has_memory) picture_image(out, 58, top + 14, 12, WRITTEN, CELLS, rgb[0][0]);
}
#endif
